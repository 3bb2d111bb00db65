//go:build !live

package objects

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rds-go/rds/transport/iwarp"
)

// Processes live and die while peers connect, vanish, are restarted and ask,
// messages arrive, connections are lost and the clock runs. Whatever happens,
// nothing is left at the end, no connection is closed twice, and no queue gives
// its memory to a message after it was destroyed.
func TestManyProcessesAtOnce(t *testing.T) {
	t.Parallel()
	rounds := 60
	if testing.Short() {
		rounds = 20
	}
	const seed = 17
	g := newRig(t, Config{Grace: 10 * time.Millisecond, Reap: 20 * time.Millisecond, Limits: Limits{Events: 8}})
	f := g.file("job")
	keeper := g.process("keeper", f)
	stop := make(chan struct{})
	var carried atomic.Int64
	var world, procs sync.WaitGroup
	world.Go(func() {
		rnd := rand.New(rand.NewPCG(seed, 1))
		for n := uint64(1); ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			g.clk.advance(time.Millisecond)
			g.Expire(g.clk.now())
			g.PeerGone(hostA, peer(rnd.Uint32N(8)).QP)
			if n%64 == 0 {
				g.HostUp(hostA, incarnationA+n/64%2)
			}
			g.Missing(hostA, g.Pairs(hostA))
			if s := g.Stats(); s.TotalTargets() < s.Tombstones || s.PeerGone > s.Targets[StateError] {
				t.Errorf("%+v", s)
			}
		}
	})
	for w := range uint64(4) {
		procs.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, 2+w))
			for range rounds {
				g.lifetime(rnd, keeper, w, &carried)
			}
		})
	}
	procs.Wait()
	close(stop)
	world.Wait()
	g.ok(keeper.Session.Close(ctx))
	if carried.Load() == 0 {
		t.Error("no message was ever carried")
	}
	g.HostDown(hostA)
	if s := g.Stats(); s.Hosts != 0 {
		t.Errorf("%+v", s)
	}
}

// allowed fails on what must never be: processes run at once, and the world may do anything
// in between.
func (g *rig) allowed(err error) {
	for _, ok := range []error{ErrClosed, ErrNumber, ErrNotRegistered, ErrState, ErrAttribute, ErrStale, errEmpty, ErrUnknownSRQ,
		ErrNotReady, ErrForeign, ErrGrace, ErrIncarnation, iwarp.ErrQueueFull, iwarp.ErrClosed, context.Canceled} {
		if err == nil || errors.Is(err, ok) {
			return
		}
	}
	g.Error(err)
}

// visit has a peer connect to a service, send to a queue, lose the connection and come back.
// It returns the connection, nil if there is none.
func (g *rig) visit(from Peer, service uint64, queue uint32, carried *atomic.Int64) *conn {
	reply, st := g.Connect(request(from, service))
	if st != StatusFound {
		return nil
	}
	t, err := g.Target(reply.Target)
	g.allowed(err)
	c := &conn{}
	if err != nil || t.Attach(c) != nil {
		return nil
	}
	err = g.send(t, queue)
	g.allowed(err)
	if err == nil {
		carried.Add(1)
	}
	g.allowed(t.Suspend(g.clk.now()))
	g.allowed(t.Resume(g.clk.now(), c, from))
	return c
}

// lifetime is one process, which may be killed in the middle of a call.
func (g *rig) lifetime(rnd *rand.Rand, keeper *process, id uint64, carried *atomic.Int64) {
	p := g.process("p", keeper.dom.xrcd.file)
	q := p.srq(8)
	n := q.Num()
	g.ok(errOf(p.Advertise(ServiceAttr{ID: id, Domain: p.dom, SRQ: q})))
	shared := keeper.target()
	var conns []*conn
	var threads sync.WaitGroup
	seeds := [2]uint64{rnd.Uint64(), rnd.Uint64()}
	var mu sync.Mutex
	for _, seed := range seeds {
		threads.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, 0))
			soon, cancel := context.WithCancel(ctx)
			cancel() // nobody acknowledges anything here
			for range 30 {
				switch rnd.IntN(8) {
				case 0:
					from := peer(rnd.Uint32N(8))
					from.Incarnation += rnd.Uint64N(2)
					if c := g.visit(from, id, n, carried); c != nil {
						mu.Lock()
						conns = append(conns, c)
						mu.Unlock()
					}
				case 1:
					_, err := p.Register(p.dom, shared.Number)
					g.allowed(err)
				case 2:
					if err := p.Unregister(soon, p.dom, shared.Number); !errors.Is(err, ErrUnacked) {
						g.allowed(err)
					}
				case 3:
					_, err := p.EnsureConnected(p.dom, shared.Number, upAttr(peer(9)))
					g.allowed(err)
				case 4:
					g.allowed(p.ModifyTarget(p.dom, shared.Number, Attr{State: []State{StateReset, StateError}[rnd.IntN(2)]}, MaskState))
				case 5:
					_, err := q.PostReceive(iwarp.ReceiveRequest{}, iwarp.ReceiveRequest{})
					g.allowed(err)
				case 6:
					p.PollEvent()
				case 7:
					g.Lookup(id, hostA)
				}
			}
		})
	}
	if rnd.IntN(2) == 0 {
		threads.Wait()
	}
	g.ok(p.Session.Close(ctx))
	threads.Wait()
	if _, err := q.PostReceive(iwarp.ReceiveRequest{}); err != iwarp.ErrClosed {
		g.Errorf("a dead process's queue: %v", err)
	}
	g.ok(keeper.Unregister(ctx, keeper.dom, shared.Number))
	for _, c := range conns {
		c.mu.Lock()
		if c.n > 1 {
			g.Errorf("closed %d times", c.n)
		}
		c.mu.Unlock()
	}
}
