//go:build live

package daemon

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// crowd has sockets of several nodes send to one socket that nobody reads from.
type crowd struct {
	t        *testing.T
	to       *socket.Socket
	peers    []*node.Node
	accepted []atomic.Uint32 // messages of each sending socket
	blocked  atomic.Int32    // sending sockets that have found the port congested
	stop     atomic.Bool
	senders  sync.WaitGroup
	seen     []uint32 // messages received of each sending socket
	ids      map[netip.AddrPort]int
}

// start begins to send from so many sockets of so many nodes.
func (f *crowd) start(l *lab, nodes, sockets int, size func(*rand.Rand) int) {
	f.ids = make(map[netip.AddrPort]int)
	f.accepted = make([]atomic.Uint32, nodes*sockets)
	f.seen = make([]uint32, nodes*sockets)
	to, ctx := f.to.LocalAddrPort(), rdstest.Background(f.t)
	for range nodes {
		cfg := rdstest.ReservedConfig()
		if size(rand.New(rand.NewPCG(1, 1))) < 400 {
			cfg.SendBuffer = 8 << 10 // many messages take long enough
		}
		if nodes*sockets > 1000 {
			cfg.SendBuffer = 64 << 10 // all nodes of the test share the CPUs that tell them of a full port
		}
		n := l.node(cfg)
		f.peers = append(f.peers, n)
		at := rdstest.NewAddr()
		for k := range sockets {
			s := l.bind(n, rdstest.AddrOf(at, uint16(4000+k)))
			id := len(f.ids)
			f.ids[s.LocalAddrPort()] = id
			f.senders.Go(func() {
				r := rand.New(rand.NewPCG(uint64(id), 1))
				buf := make([]byte, config.MaxMessage)
				for i := uint32(0); !f.stop.Load(); i++ {
					b := binary.BigEndian.AppendUint32(buf[:0], i)[:max(4, size(r))]
					err := s.TrySend(to, b)
					if errors.Is(err, datagram.ErrCongested) || errors.Is(err, datagram.ErrWouldBlock) {
						f.blocked.Add(1)
					}
					if err != nil {
						err = s.Send(ctx, to, b)
					}
					if err != nil {
						f.t.Errorf("socket %d, message %d: %v", id, i, err)
						return
					}
					f.accepted[id].Add(1)
				}
			})
		}
	}
}

// take receives a message and checks that it is the next one of its sender.
func (f *crowd) take(ctx context.Context) error {
	m, err := f.to.Recv(ctx)
	if err != nil {
		return err
	}
	id := f.ids[m.From]
	if i := binary.BigEndian.Uint32(m.Data); i != f.seen[id] {
		return fmt.Errorf("socket %d: message %d after %d messages", id, i, f.seen[id])
	}
	f.seen[id]++
	m.Release()
	return nil
}

// all is how many messages were accepted.
func (f *crowd) all() (n uint32) {
	for i := range f.accepted {
		n += f.accepted[i].Load()
	}
	return n
}

// finish has the senders stop and takes all that they have sent.
func (f *crowd) finish() {
	f.t.Helper()
	ctx := rdstest.Background(f.t)
	f.stop.Store(true)
	ended, end := context.WithCancel(ctx)
	go func() { f.senders.Wait(); end() }()
	taken := uint32(0)
	for _, n := range f.seen {
		taken += n
	}
	take := func(ctx context.Context) bool {
		switch err := f.take(ctx); {
		case err == nil:
			taken++
		case ended.Err() == nil || !errors.Is(err, context.Canceled):
			f.t.Fatalf("%d of %d messages: %v", taken, f.all(), err)
		}
		return ended.Err() == nil
	}
	for take(ended) { // until nothing more is sent
	}
	for taken < f.all() {
		take(ctx)
	}
}

// idle waits until a node has received nothing for a moment.
func idle(t *testing.T, n *node.Node) {
	t.Helper()
	was, quiet := ^uint64(0), 0
	rdstest.Eventually(t, "the senders are held back", func() bool {
		if now := rdstest.Counter(t, n, "recv_queued"); now != was {
			was, quiet = now, 0
		}
		quiet++
		return quiet > 100
	})
}

// Many senders to one socket whose program pauses: nothing is dropped, the socket holds
// its receive buffer and the overrun at most, however many senders there are, another
// socket goes on, and every message that was accepted arrives, once and in order. The
// same holds for a socket of an application.
func TestFanInDropsNothing(t *testing.T) {
	small := func(r *rand.Rand) int { return r.IntN(400) }
	block := func(*rand.Rand) int { return 8 << 10 }
	mixed := func(r *rand.Rand) int { return r.IntN(128 << 10) }
	for _, c := range []struct {
		nodes, sockets int
		size           func(*rand.Rand) int
		service        bool
	}{
		{1, 1, block, false}, {2, 12, block, false}, {17, 1, mixed, false}, {17, 12, small, false}, {64, 1, block, false},
		{2, 12, block, true}, {17, 1, mixed, true}, {17, 12, small, true},
		{64, 12, mixed, false}, {200, 1, block, false}, {200, 12, mixed, false}, {64, 1, mixed, true}, {64, 12, block, true}, {200, 1, mixed, true}, {200, 12, block, true},
	} {
		t.Run(fmt.Sprintf("%d nodes with %d sockets, service %v", c.nodes, c.sockets, c.service), func(t *testing.T) {
			if (c.nodes > 64 || c.nodes > 17 && (c.sockets > 1 || c.service)) && os.Getenv("RDS_LONG") == "" {
				t.Skip("takes a minute: RDS_LONG=1 runs it")
			}
			l := newLab(t)
			cfg := rdstest.ReservedConfig()
			var (
				n     *node.Node
				where rdstest.Provider
				at    = rdstest.AddrOf(rdstest.NewAddr(), 4000)
			)
			if c.service {
				var path string
				n, _, path = served(t, l, cfg, config.Service{ReceiveArena: 1 << 20})
				where = dialed(t, path)
			} else {
				n = l.node(cfg)
				where = n
			}
			f := &crowd{t: t, to: bound(t, where, at)}
			other := bound(t, where, rdstest.AddrOf(at.Addr(), 5000))
			f.start(l, c.nodes, c.sockets, c.size)
			rdstest.Eventually(t, "congestion", func() bool { return f.blocked.Load() >= int32(c.nodes*c.sockets) })
			rdstest.Eventually(t, "messages to wait, more than the receive buffer", func() bool {
				bytes, count := queuedAt(t, n, at)
				return bytes > cfg.ReceiveBuffer || count*socket.ItemCost > cfg.ReceiveBuffer || bytes > 0 && c.nodes*c.sockets == 1
			})
			idle(t, n)
			bytes, _ := queuedAt(t, n, at)
			if most := cfg.ReceiveBuffer + cfg.ReceiveOverrun; bytes > most {
				t.Errorf("%d octets wait, %d at most", bytes, most)
			}
			t.Logf("%d accepted, %d received, %d octets wait", f.all(), rdstest.Counter(t, n, "recv_queued"), bytes)
			back := l.bind(f.peers[0])
			if err := rdstest.Converse(rdstest.Background(t), back, other, 20); err != nil {
				t.Errorf("another socket waits: %v", err)
			}
			f.finish()
			for _, name := range []string{"recv_drop_overrun", "recv_drop_no_sock", "recv_drop_dead_sock"} {
				if d := rdstest.Counter(t, n, name); d != 0 {
					t.Errorf("%s is %d", name, d)
				}
			}
			rdstest.WantCounter(t, n, "conn_reset", 0)
		})
	}
}

// queuedAt is what waits to be received at a port, as the node reports it.
func queuedAt(t *testing.T, n *node.Node, at netip.AddrPort) (bytes, messages int) {
	t.Helper()
	for _, s := range rdstest.Report(t, n).Sockets {
		if s.Bound == at {
			return s.RecvQueued, s.RecvMessages
		}
	}
	t.Fatalf("no socket at %v is reported", at)
	return 0, 0
}
