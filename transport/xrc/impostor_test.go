//go:build !live

package xrc

import (
	"io"
	"runtime"
	"testing"

	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp"
)

// reach dials path i of a host as if from an address.
func reach(t testing.TB, from *Transport, as, to *host, i int) transport.Link {
	t.Helper()
	l, err := from.Dial(within(t), as.addr, to.addr, i)
	must(t, err)
	return l
}

// An impostor has another incarnation than the peer. By a path that the peer does not use it
// ends nothing that the peer has: neither links, nor the queue pairs of RDS and of channels.
func TestImpostorsLinkEndsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, a, b := linked(t, hostOptions{})
		server, client := b.app(""), a.app("")
		server.serve(1, 8, 64)
		ch := client.connect(2, 1)
		before, _ := b.path0()
		impostor := a.another()
		l := reach(t, impostor, a, b, 3)
		must(t, l.Start(newSorting()))
		n.until("the impostor's link is in use", func() bool { return b.connections() == 2 })
		n.until("the impostor's link waits", when(&b.Transport.mu, func() bool { return len(b.waiting[a.addr]) == 1 }))
		client.send(ch, iwarp.WorkRequest{ID: 1, Queue: ch.Queue().SRQN, Flags: iwarp.Signaled, Inline: []byte("alive")})
		client.want(1, iwarp.Success, iwarp.OpSend)
		server.next()
		if after, ok := b.path0(); !ok || after != before || a.connections() != 1 || b.connections() != 2 {
			t.Errorf("%+v after %+v, %d and %d links", after, before, a.connections(), b.connections())
		}
		client.quiet()
		x := b.pathOf(a, 3)
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.link != nil {
			t.Error("queue pairs of two incarnations")
		}
	})
}

// A hello that names other queue pairs than those there are ends nothing while nobody has put
// its connection to use.
func TestImpostorsHelloEndsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, a, b := linked(t, hostOptions{})
		q, err := b.NewQueue("application")
		must(t, err)
		defer q.Close()
		b.theLink(0).Home(4000, q.Number())
		before, _ := b.path0()
		b.apart.Store(true) // closes what is accepted
		impostor := a.another()
		for range 3 {
			reach(t, impostor, a, b, 0).Close(transport.Abort)
		}
		n.until("the impostor's links have ended", when(&b.Transport.mu, func() bool { return len(b.links) == 1 }))
		after, ok := b.path0()
		if !ok || after != before {
			t.Errorf("%+v after %+v", after, before)
		}
		wantRegistered(t, b.Transport, 2)
		if s := b.objects.Stats(); s.Initiators != 1 || s.TotalTargets() != 1 {
			t.Errorf("%d initiators, %d targets", s.Initiators, s.TotalTargets())
		}
	})
}

// The peer's next life is taken for the peer when the links of the last one have ended.
func TestNextLifeOfAPeer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, a, b := linked(t, hostOptions{})
		before, _ := b.path0()
		next := a.another()
		l := reach(t, next, a, b, 1)
		h := newSorting()
		must(t, l.Start(h))
		n.until("two links", func() bool { return b.connections() == 2 })
		a.apart.Store(true)
		b.theLink(0).Close(transport.Abort)
		n.until("the next life's queue pairs are carried", func() bool {
			x := b.pathOf(a, 1)
			x.mu.Lock()
			defer x.mu.Unlock()
			return x.link != nil
		})
		n.until("those of the last life have ended", func() bool {
			p, ok := b.path0()
			return !ok || p == before && b.paths() == 1
		})
		select {
		case <-h.over:
			t.Error("the link of the next life has ended")
		default:
		}
		l.Close(transport.Abort)
		n.until("no lifetimes", when(&b.Transport.mu, func() bool { return len(b.lifetimes)+len(b.waiting) == 0 }))
	})
}

// slow is a handler that notes its end.
type slow struct {
	*sorting
	cause error
}

func (s *slow) Closed(cause error, acked uint64) {
	s.cause = cause
	s.sorting.Closed(cause, acked)
}

// A link that ends while Start puts it to use leaves nothing that carries queue pairs, or
// channels, and its handler hears of the end when Start is over.
func TestLinkThatEndsInStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, a, b := twoHosts(t, hostOptions{})
		taken := make(chan transport.Link, 1)
		b.Unlisten()
		must(t, b.Listen(b.addr, func(l transport.Link) { taken <- l }))
		theirs := reach(t, a.Transport, a, b, 0)
		l := (<-taken).(*link)
		x := l.path
		x.mu.Lock() // Start comes to where it makes the link carry the queue pairs
		h := &slow{sorting: newSorting()}
		started := make(chan error, 1)
		go func() { started <- l.Start(h) }()
		n.spin("Start has begun", when(&l.mu, func() bool { return l.h != nil }))
		theirs.Close(transport.Abort)
		n.spin("the link has ended", when(&l.mu, func() bool { return l.over }))
		for range 1000 { // who follows the end comes as far as it can
			runtime.Gosched()
		}
		select {
		case <-h.over:
			t.Error("the handler has heard of the end before Start is over")
		default:
		}
		x.mu.Unlock()
		if err := <-started; err != nil {
			t.Error(err)
		}
		<-h.over
		if h.cause == io.EOF {
			t.Error(h.cause)
		}
		n.until("the link is gone", when(&b.Transport.mu, func() bool { return len(b.links) == 0 }))
		l.p.mu.Lock()
		m := l.p.mux
		l.p.mu.Unlock()
		x.mu.Lock()
		carrying := x.link
		x.mu.Unlock()
		if m != nil || carrying != nil {
			t.Errorf("a link that has ended carries queue pairs: %v, channels: %v", carrying != nil, m != nil)
		}
	})
}

// An application is not registered with a target that has ended while the link goes on, and is
// with the one of a link that comes to carry its path later.
func TestRegistrationsFollowTheTarget(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, _, b := linked(t, hostOptions{})
		q, err := b.NewQueue("application")
		must(t, err)
		defer q.Close()
		l := b.theLink(0)
		l.path.end()
		if !l.Home(4000, q.Number()) {
			t.Fatal("not told")
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		if len(q.with) != 0 || l.targetNumber.Load() != 0 {
			t.Errorf("registered with %v, target %#x", q.with, l.targetNumber.Load())
		}
	})
}
