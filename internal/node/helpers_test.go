package node

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/choice"
	"github.com/rds-go/rds/internal/gnetloop"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// lent is memory that the provider takes.
func lent(t testing.TB, s *socket.Socket, n int) []byte {
	t.Helper()
	return rdstest.Lent(t, s, n, halfOf(s) != nil)
}

// victim is a node with a socket that is about to meet a bad peer, and with a
// healthy peer whose verified streams must not notice.
type victim struct {
	*lab
	node        *Node
	s           *socket.Socket
	host        netip.Addr
	small, high *rdstest.RawPeer // on either side of the victim's address
}

func newVictim(t testing.TB) *victim { t.Helper(); return newVictimOf(t, config.Node{}) }

func newVictimOf(t testing.TB, cfg config.Node) *victim {
	t.Helper()
	l := newMemLab(t)
	v := &victim{lab: l, small: l.Raw()}
	if cfg.TCP.DrainTimeout == 0 {
		cfg.TCP.DrainTimeout = 200 * time.Millisecond
	}
	v.node = l.node(cfg)
	v.s = l.bind(v.node)
	v.host = v.s.LocalAddrPort().Addr()
	v.high = l.Raw()
	v.healthy()
	return v
}

// healthy runs verified streams with another node until the test ends.
func (v *victim) healthy() {
	v.Helper()
	mine := v.bind(v.node, rdstest.AddrOf(v.host, 30000))
	good := v.bind(v.lab.node(config.Node{}), rdstest.AddrOf(rdstest.NewAddr(), 30000))
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var stop atomic.Bool
	for _, d := range [][2]*socket.Socket{{mine, good}, {good, mine}} {
		from, to := d[0], d[1]
		sent := make(chan int, 1)
		wg.Go(func() {
			i := 0
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for ; !stop.Load() || i < 200; i++ {
				if err := from.Send(ctx, to.LocalAddrPort(), rdstest.Payload(uint64(i), 8+i%7*900)); err != nil {
					v.Errorf("healthy peer: send %d: %v", i, err)
					break
				}
				if i >= 200 {
					<-tick.C
				}
			}
			sent <- i
		})
		wg.Go(func() {
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			total := -1
			for i := 0; i != total; {
				m, err := to.TryRecv()
				if errors.Is(err, datagram.ErrWouldBlock) { // ask how many there are before waiting for another
					select {
					case total = <-sent:
						continue
					case <-ctx.Done():
						err = ctx.Err()
					case <-tick.C:
						continue
					}
				}
				if err == nil {
					err = rdstest.Verify(m.Data, uint64(i))
					m.Release()
				}
				if err != nil {
					v.Errorf("healthy peer: message %d: %v", i, err)
					return
				}
				i++
			}
		})
	}
	v.Cleanup(func() {
		stop.Store(true)
		end := time.AfterFunc(rdstest.Patience, cancel)
		wg.Wait()
		end.Stop()
		cancel()
	})
}

// from is where a raw peer's data come from in these tests.
func (v *victim) data(r *rdstest.Raw, text string) []byte { return r.Data(1000, 4000, []byte(text)) }

// lab makes nodes that reach each other.
type lab struct{ rdstest.Lab }

func newLab(t testing.TB) *lab { return &lab{rdstest.NewLab(t)} }

func newMemLab(t testing.TB) *lab { return &lab{rdstest.NewMemLab(t)} }

func newLoopLab(t testing.TB) *lab { return &lab{rdstest.NewLoopLab(t)} }

// bubble runs a test in a bubble, with a lab of some kind.
func bubble[L any](t *testing.T, lab func(testing.TB) L, test func(t *testing.T, l L)) {
	t.Helper()
	rdstest.Bubble(t, func(t *testing.T) { test(t, lab(t)) })
}

// bubbleOn runs a test in a bubble for each of some variants.
func bubbleOn[V ~string](t *testing.T, each []V, f func(t *testing.T, v V)) {
	t.Parallel()
	for _, v := range each {
		t.Run(string(v), func(t *testing.T) { rdstest.Bubble(t, func(t *testing.T) { f(t, v) }) })
	}
}

var bothWires = []config.Wire{config.WireXRC, config.WireTCP}

func (l *lab) node(cfg config.Node) *Node { l.Helper(); return l.start(cfg, choice.Times{}) }

// start starts a node on the network of the lab.
func (l *lab) start(cfg config.Node, times choice.Times) *Node {
	l.Helper()
	var network gnetloop.Network
	if l.Sockets != nil {
		network = l.Sockets
	}
	return rdstest.Start(&l.Lab, func(cfg config.Node) (*Node, error) { return newNode(cfg, nil, times, network) }, cfg)
}

// quick is a node on both wires that does not wait for minutes until it asks and moves.
func (l *lab) quick(logger *zap.Logger, patience time.Duration) *Node {
	l.Helper()
	times := choice.Times{Gap: 300 * time.Millisecond, AskAfter: 200 * time.Millisecond, AskMax: 400 * time.Millisecond}
	return l.start(config.Node{Logger: logger, ReconnectMax: 20 * time.Millisecond, XRC: config.XRC{Patience: patience}}, times)
}

// bind makes a socket on a node, at a new address unless one is given.
func (l *lab) bind(n *Node, addr ...netip.AddrPort) *socket.Socket {
	l.Helper()
	return rdstest.Bind(l.TB, n, addr...)
}

// pair is a socket on each of two nodes; a's address is the smaller one.
func (l *lab) pair(cfg config.Node) (a, b *socket.Socket) {
	l.Helper()
	return l.bind(l.node(cfg)), l.bind(l.node(cfg))
}

// bindOne is a socket on a node of its own.
func (l *lab) bindOne(cfg config.Node) *socket.Socket { l.Helper(); return l.bind(l.node(cfg)) }

func nodeOf(s *socket.Socket) *Node { return halfOf(s).Node }

// congestedAt tells whether a peer of n has said that its port is congested.
func congestedAt(n *Node, port uint16) (yes bool) {
	n.EachPeer(func(p *Peer) {
		p.Lock()
		yes = yes || p.Core.Congested(port)
		p.Unlock()
	})
	return yes
}

// halfOf and clientHalfOf are what is behind a socket of a node, and of an application, nil if
// the socket is of another kind.
func halfOf(s *socket.Socket) *Socket {
	h, _ := s.Endpoint.(*Socket)
	return h
}

// oneWay streams from one socket to another while the sender's links are reset that often, and
// until enough says so, and checks that each message comes once and in order.
func oneWay(t *testing.T, from, to *socket.Socket, resets int, enough func() bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(rdstest.Background(t))
	defer cancel()
	sent := make(chan int, 1)
	go func() {
		rng := rand.New(rand.NewPCG(1, 2))
		n := 0
		for ; ctx.Err() == nil; n++ {
			if err := from.Send(ctx, to.LocalAddrPort(), rdstest.Payload(uint64(n), rng.IntN(3000))); err != nil {
				break
			}
		}
		sent <- n
	}()
	rng := rand.New(rand.NewPCG(3, 4))
	got := 0
	for done := 0; done < resets || !enough(); done++ {
		for range 1 + rng.IntN(200) {
			rdstest.ExpectNumber(t, to, uint64(got))
			got++
			if t.Failed() {
				return
			}
		}
		rdstest.CutLinks(nodeOf(from))
	}
	cancel()
	for n := <-sent; got < n; got++ {
		rdstest.ExpectNumber(t, to, uint64(got))
	}
	again := rdstest.Counter(t, nodeOf(to), "recv_drop_old_seq")
	t.Logf("%d messages, %d resets, %d came again", got, resets, again)
}
