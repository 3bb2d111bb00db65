//go:build interop

package interop

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rds-go/rds/test/interop/peer"
)

// contacts is how often both sides connect at once.
const contacts = 50

// testFirstContact is case (g) for peers that never met: each round uses a new
// address of ours, and so a new connection, and both sides send their first
// message at the same moment, give or take a random delay.
//
// One message only: of a non-blocking sender's first messages Linux sends some
// on path 0 and later ones on another path (net/rds/send.c,
// rds_send_mprds_hash).
func testFirstContact(t *testing.T, l *lab, node, guest *process) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	start := time.Now()
	addr := node.addr
	rounds := contacts
	if node.daemon != nil { // which meets hosts as any node does
		rounds = 20
	}
	for i := range rounds {
		addr = addr.Next()
		l.addAddr(t, addr)
		ours, err := node.tryBind(t.Context(), addr, 0, 0)
		must(t, err)
		f := flow{from: ours, to: guest.bind(t, 0, 0), stream: peer.Stream{Seed: uint64(i), Count: 1, Size: 100}}
		meet(t, rng, f, i, seed)
		ours.close(t.Context())
	}
	t.Logf("%d first contacts in %v", rounds, time.Since(start).Round(time.Millisecond))
}

// testReconnectTogether is case (g) for peers whose connection broke: one side,
// now this, now that, aborts it, and both send at once. With several paths it
// would show Linux's swapped paths instead (see testKills).
func testReconnectTogether(t *testing.T, a, b *process) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	start := time.Now()
	f := flow{from: a.bind(t, 0, 0), to: b.bind(t, 0, 0)}
	warm(t, f)
	for i := range contacts {
		f.stream = peer.Stream{Seed: uint64(i), Count: 1, Size: 100}
		killer, other := a, b
		if rng.IntN(2) == 0 {
			killer, other = b, a
		}
		if err := killOne(t.Context(), rng, killer, other, 1); err != nil {
			t.Fatalf("round %d (seed %d): %v", i, seed, err)
		}
		meet(t, rng, f, i, seed)
	}
	t.Logf("%d reconnects in %v", contacts, time.Since(start).Round(time.Millisecond))
}

// meet has both ends of a flow send at about the same time.
func meet(t *testing.T, rng *rand.Rand, f flow, round int, seed uint64) {
	t.Helper()
	ways := bothWays([]flow{f})
	if rng.IntN(2) == 0 {
		ways[0], ways[1] = ways[1], ways[0]
	}
	var all [2]running
	var err error
	for i, f := range ways {
		all[i].flow = f
		if all[i].recv, err = f.startRecv(); err != nil {
			t.Fatal(err)
		}
	}
	for i, f := range ways {
		if all[i].send, err = f.startSend(); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Duration(rng.IntN(4000)) * time.Microsecond)
	}
	for _, r := range all {
		if _, err := r.wait(t.Context()); err != nil {
			t.Fatalf("round %d (seed %d): %v", round, seed, err)
		}
	}
	if err := f.quiet(t.Context()); err != nil {
		t.Fatalf("round %d (seed %d): %v", round, seed, err)
	}
}
