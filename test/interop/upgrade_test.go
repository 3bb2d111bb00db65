//go:build interop

package interop

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rds-go/rds/rds"
	"github.com/rds-go/rds/test/interop/peer"
)

// upgrades has one rdsd after the other take over while a guest and an application exchange
// messages in both directions. Each message arrives once and in order, the application
// keeps its session, and to peers each daemon is the one before: of its generation, with
// numbers that go on. What the guest sees is connections that end.
type upgrades struct {
	addr    string // address of rdsd
	witness string // address of a node that sees the generation of rdsd
	paths   int
	times   int
	rate    int // messages a second, in each direction
	count   int // messages between two upgrades, in each direction
}

func (c *upgrades) run(t *testing.T, l *lab, guest *process) {
	ctx, cancel := context.WithTimeout(t.Context(), runTime)
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	addr, witnessAddr := netip.MustParseAddr(c.addr), netip.MustParseAddr(c.witness)
	l.addAddr(t, addr)
	l.addAddr(t, witnessAddr)
	node, witness := l.startApplication(t, addr, c.paths, "--drain", "30s"), l.startNode(t, witnessAddr, 1)
	defer func() { node.show(t); guest.show(t); witness.show(t) }()

	nPairs := min(c.paths, 4) // so that several paths carry data
	flows := pairs(t, guest, node, nPairs, bufferSize)
	for i := range flows {
		flows[i].stream = peer.Stream{Seed: uint64(100 * i), Count: c.count / nPairs * (c.times + 1), Size: 1000}
		flows[i].rate = c.rate / nPairs
	}
	flows = bothWays(flows)
	before := c.look(t, ctx, node, witness, guest)
	var work sync.WaitGroup
	all, messages := startAll(t, ctx, flows, &work, fail)
	var took time.Duration
	for i := range c.times {
		if err := arrived(ctx, all, 2*c.count*(i+1)); err != nil {
			t.Fatalf("before upgrade %d: %v", i, err)
		}
		began := time.Now()
		if err := node.daemon.upgrade(); err != nil {
			t.Fatalf("upgrade %d: %v", i, err)
		}
		took += time.Since(began)
	}
	work.Wait()
	must(t, context.Cause(ctx))
	for _, f := range flows {
		must(t, f.quiet(ctx))
	}
	after := c.look(t, ctx, node, witness, guest)
	if after.generation != before.generation || !slices.Equal(after.sessions, before.sessions) {
		t.Errorf("generation %d and sessions %v, they were %d and %v", after.generation, after.sessions, before.generation, before.sessions)
	}
	sent := uint64(messages / nPairs / 2) // on each path, at least
	if was, now := before.connection, after.connection; now.Generation != was.Generation || c.paths == 1 && (now.NextTX < was.NextTX+sent || now.NextRX < was.NextRX+sent) {
		t.Errorf("the connection is %+v, it was %+v", now, was)
	}
	changed := make(map[string]uint64)
	for name, n := range after.guest {
		if n != before.guest[name] {
			changed[name] = n - before.guest[name]
		}
	}
	t.Logf("%d messages, %d upgrades of %v each: 0 lost, 0 doubled; the guest has counted %v", messages, c.times, (took / time.Duration(c.times)).Round(time.Millisecond), changed)
}

// upgraded is what an upgrade does not change, and what the guest counts.
type upgraded struct {
	generation uint32             // generation of the daemon
	connection rds.ConnectionInfo // connection with the guest
	sessions   []string
	guest      map[string]uint64
}

// look asks all.
func (c *upgrades) look(t *testing.T, ctx context.Context, node, witness, guest *process) (u upgraded) {
	t.Helper()
	if _, err := witness.bind(t, 0, 0).ping(ctx, node.addr); err != nil {
		t.Fatal(err)
	}
	var seen rds.Info
	must(t, witness.call(ctx, peer.OpState, nil, &seen))
	i := slices.IndexFunc(seen.Connections, func(c rds.ConnectionInfo) bool { return c.Remote == node.addr && c.Generation != 0 })
	if i < 0 {
		t.Fatal("the witness has no connection")
	}
	u.generation = seen.Connections[i].Generation
	info, err := node.daemon.info(ctx)
	must(t, err)
	if i = slices.IndexFunc(info.Connections, func(c rds.ConnectionInfo) bool { return c.Remote == guest.addr }); i < 0 {
		t.Fatal("the daemon has no connection with the guest")
	}
	u.connection = info.Connections[i]
	for _, x := range info.Sessions {
		u.sessions = append(u.sessions, fmt.Sprintf("%d of process %d", x.ID, x.PID))
	}
	must(t, guest.call(ctx, peer.OpCounters, nil, &u.guest))
	return u
}
