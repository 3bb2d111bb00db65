//go:build live

package daemon

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/transport"
)

// valve is a transport whose links take nothing while it is shut.
type valve struct {
	transport.Transport
	mu      sync.Mutex
	shut    bool
	waiting []transport.Handler
}

func (v *valve) Listen(a netip.Addr, accept func(transport.Link)) error {
	return v.Transport.Listen(a, func(l transport.Link) { accept(&valveLink{Link: l, v: v}) })
}

func (v *valve) Dial(ctx context.Context, local, remote netip.Addr, path int) (transport.Link, error) {
	l, err := v.Transport.Dial(ctx, local, remote, path)
	if err != nil {
		return nil, err
	}
	return &valveLink{Link: l, v: v}, nil
}

func (v *valve) close() { v.mu.Lock(); v.shut = true; v.mu.Unlock() }

func (v *valve) open() {
	v.mu.Lock()
	w := v.waiting
	v.shut, v.waiting = false, nil
	v.mu.Unlock()
	for _, h := range w {
		h.Writable()
	}
}

type valveLink struct {
	transport.Link
	v *valve
	h transport.Handler
}

func (l *valveLink) Start(h transport.Handler) error { l.h = h; return l.Link.Start(h) }

func (l *valveLink) Send(frames []transport.Frame) (transport.Taken, error) {
	l.v.mu.Lock()
	if l.v.shut {
		l.v.waiting = append(l.v.waiting, l.h)
		l.v.mu.Unlock()
		return transport.Taken{}, nil
	}
	l.v.mu.Unlock()
	return l.Link.Send(frames)
}

// floodBudget sends until the daemon takes no more.
func floodBudget(t *testing.T, x *session, s *socket.Socket, to netip.AddrPort) {
	t.Helper()
	rdstest.Must(t, s.SetWriteBuffer(64<<20))
	rdstest.Eventually(t, "the budget to be used up", func() bool {
		for s.TrySend(to, make([]byte, 8<<10)) == nil {
		}
		return x.overBudget.Load()
	})
	if n := x.queued.Load(); n < x.budget || n > x.budget+16<<10 {
		t.Errorf("%d bytes are queued, the budget is %d", n, x.budget)
	}
}

// What a flooding session has queued for a link that stalls is not before the
// messages of others: they wait for 256 KiB and a quantum at most.
func TestFairShareOfALink(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		v := &valve{Transport: l.Net.Transport()}
		_, svc, path := served(t, l, config.Node{Transport: v}, config.Service{})
		to := bound(t, l.node(config.Node{}), rdstest.AddrOf(rdstest.NewAddr(), 9))
		c1 := dialed(t, path)
		flooding := budget(lastSession(svc), 6<<20)
		c2 := dialed(t, path)
		x := lastSession(svc)
		here := rdstest.NewAddr()
		big, small := bound(t, c1, rdstest.AddrOf(here, 11)), bound(t, c2, rdstest.AddrOf(here, 2))
		rdstest.MustSend(t, big, to.LocalAddrPort(), []byte("first"))
		rdstest.Expect(t, to, "first")
		v.close()
		floodBudget(t, flooding, big, to.LocalAddrPort())
		rdstest.MustSend(t, small, to.LocalAddrPort(), []byte("small"))
		rdstest.Eventually(t, "the small message to be accepted", func() bool { return x.sentMessages.Load() == 1 })
		v.open()
		before := 0
		for {
			m := rdstest.MustRecv(t, to)
			from, n := m.From.Port(), len(m.Data)
			m.Release()
			if from == 2 {
				break
			}
			before += n
		}
		const gate, quantum = 256 << 10, 64 << 10 // docs/ARCHITECTURE.md, "Fair service"
		if limit := gate + quantum + 8<<10; before > limit {
			t.Errorf("%d bytes of the flood came first, want at most %d", before, limit)
		}
	})
}

// A session that floods a peer nobody reaches stops at its budget, does not
// hinder others, and leaves nothing with that peer.
func TestFloodOfAPeerThatIsAway(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		n, svc, path := served(t, l, config.Node{PeerBudget: 1 << 20}, config.Service{})
		to := bound(t, l.node(config.Node{}), rdstest.AddrOf(rdstest.NewAddr(), 9))
		here, nobody := rdstest.NewAddr(), rdstest.NewAddr()
		c1 := dialed(t, path)
		x := budget(lastSession(svc), 6<<20)
		c2 := dialed(t, path)
		floodBudget(t, x, bound(t, c1, rdstest.AddrOf(here, 11)), rdstest.AddrOf(nobody, 9))
		rdstest.NoError(t, rdstest.Stream(rdstest.Background(t), bound(t, c2, rdstest.AddrOf(here, 2)), to, 200, rdstest.Fixed(9000)))
		p := n.Known(here, nobody)
		flows := func() int {
			p.Lock()
			defer p.Unlock()
			return len(p.Flows)
		}
		if flows() != 1 {
			t.Errorf("%d flows wait", flows())
		}
		go c1.Close()
		<-x.done
		rdstest.Eventually(t, "nothing to be left", func() bool { return flows() == 0 && x.queued.Load() == 0 })
	})
}

// A cell belongs to the socket that has it now: what becomes of messages of its
// predecessor, which lingers, does not show there.
func TestCellOfALingeringSocket(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	_, _, path := served(t, l, config.Node{}, config.Service{})
	e := intrude(t, path)
	defer e.leave()
	here, nobody := rdstest.NewAddr(), rdstest.NewAddr()
	old, _ := e.bind(rdstest.AddrOf(here, 5))
	e.submit(ipc.MakeEntry(ipc.OpSend, 0, 9, old, e.resolve(here, nobody), 100, 0, 0, 0))
	rdstest.Must(t, e.conn.Send(&ipc.Request{ID: 1000, Op: ipc.CallClose, Socket: old, Linger: 20 * time.Millisecond}))
	now, _ := e.bind(rdstest.AddrOf(here, 5)) // the port is free at once
	if now == old || now&0xffff != old&0xffff {
		t.Fatalf("socket %#x after %#x", now, old)
	}
	if r := e.reply(1000); r.Messages != 1 || r.Bytes != 100 {
		t.Fatalf("%+v", r)
	}
	if b, m := e.word(rawCells).Load(), e.word(rawCells+8).Load(); b != 0 || m != 0 {
		t.Errorf("the new socket's cell tells of %d bytes, %d messages", b, m)
	}
}

// A drain waits for what an application has sent that is gone.
func TestDrainAfterDeath(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	v := &valve{Transport: l.Net.Transport()}
	_, svc, path := served(t, l, config.Node{Transport: v, Linger: rdstest.Patience}, config.Service{})
	to := bound(t, l.node(config.Node{}), rdstest.AddrOf(rdstest.NewAddr(), 9))
	e := intrude(t, path)
	here := rdstest.NewAddr()
	id, _ := e.bind(rdstest.AddrOf(here, 11))
	x := ipc.MakeEntry(ipc.OpSend, 0, 9, id, e.resolve(here, to.LocalAddrPort().Addr()), 8, 0, 0, 0)
	e.submit(x)
	rdstest.Drop(t, to, 1)
	v.close()
	for range 100 {
		e.submit(x)
	}
	e.leave()
	rdstest.Eventually(t, "the end of the session", func() bool { return len(svc.Sessions()) == 0 })
	done := make(chan error, 1)
	go func() { done <- svc.Drain() }()
	if rdstest.Holds(20*time.Millisecond, func() bool { return len(done) > 0 }) {
		t.Error("drained, though nothing was delivered")
	}
	v.open()
	rdstest.NoError(t, <-done)
	rdstest.Drop(t, to, 100)
}
