package xrc

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rds-go/rds/internal/invariants"
	"github.com/rds-go/rds/transport/iwarp"
)

func TestCreateSRQ(t *testing.T) {
	t.Parallel()
	g, h := newRig(t, Config{MaxWR: 64}), newRig(t, Config{})
	p, stranger, far := g.process("p", g.file("job")), g.process("stranger", g.file("other")), h.process("far", h.file("job"))
	good := SRQAttr{Type: SRQXRC, Domain: p.dom, CQ: p.cq, PD: p.pd, MaxWR: 8, MaxSGE: 1, Limit: 8}
	for _, c := range []struct {
		name   string
		change func(*SRQAttr)
	}{
		{"no domain", func(a *SRQAttr) { a.Domain = nil }},
		{"no completion queue", func(a *SRQAttr) { a.CQ = nil }},
		{"no protection domain", func(a *SRQAttr) { a.PD = nil }},
		{"domain of another device", func(a *SRQAttr) { a.Domain = far.dom }},
		{"completion queue of another device", func(a *SRQAttr) { a.CQ = far.cq }},
		{"protection domain of another device", func(a *SRQAttr) { a.PD = far.pd }},
		{"domain of another session", func(a *SRQAttr) { a.Domain = stranger.dom }},
		{"completion queue of another session", func(a *SRQAttr) { a.CQ = stranger.cq }},
		{"no room", func(a *SRQAttr) { a.MaxWR, a.Limit = 0, 0 }},
		{"too much room", func(a *SRQAttr) { a.MaxWR = 65 }},
		{"no pieces", func(a *SRQAttr) { a.MaxSGE = 0 }},
		{"too many pieces", func(a *SRQAttr) { a.MaxSGE = 17 }},
		{"limit above the room", func(a *SRQAttr) { a.Limit = 9 }},
		{"a limit below 0", func(a *SRQAttr) { a.Limit = -1 }},
		{"basic, with a domain", func(a *SRQAttr) { a.Type = SRQBasic }},
		{"a type there is not", func(a *SRQAttr) { a.Type = 2 }},
	} {
		a := good
		c.change(&a)
		before := p.Used()
		if _, err := p.CreateSRQ(a); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v", c.name, err)
		}
		if p.Used() != before {
			t.Errorf("%s: used %+v", c.name, p.Used())
		}
	}
	_, err := p.CreateSRQ(good)
	g.ok(err)
}

func TestBasicQueuesHaveNoNumber(t *testing.T) {
	t.Parallel()
	g := newRig(t, Config{})
	p := g.process("p", g.file("job"))
	tgt, _ := p.up(peer(1))
	q, err := p.CreateSRQ(SRQAttr{PD: p.pd, MaxWR: 4, MaxSGE: 1})
	g.ok(err)
	_, err = q.Number()
	g.want(err, syscall.EOPNOTSUPP)
	posted(t, q, 1)
	g.want(g.send(tgt, q.Ref().Number), ErrUnknownSRQ)
	g.ok(q.Use())
	g.want(q.Close(ctx), ErrBusy)
	q.Unuse()
	g.ok(q.Close(ctx))
	g.want(q.Close(ctx), ErrForeign)
	g.want(q.Use(), ErrForeign)
	g.want(p.srq(1).Use(), ErrAttribute) // other queue pairs do not receive from these
}

func TestPostReceive(t *testing.T) {
	t.Parallel()
	g := newRig(t, Config{})
	p := g.process("p", g.file("job"))
	q := p.srq(5)
	three := iwarp.ReceiveRequest{ID: 9, SGE: make([]iwarp.SGE, 3)}
	n, err := q.PostReceive(iwarp.ReceiveRequest{ID: 1}, iwarp.ReceiveRequest{ID: 2, SGE: []iwarp.SGE{{Key: 7, Addr: 8, Len: 9}}}, three, iwarp.ReceiveRequest{}, iwarp.ReceiveRequest{})
	if n != 2 || !errors.Is(err, syscall.EINVAL) {
		t.Errorf("took %d: %v", n, err)
	}
	n, err = q.PostReceive(make([]iwarp.ReceiveRequest, 5)...)
	if n != 3 || !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("took %d: %v", n, err)
	}
	var r iwarp.ReceiveRequest
	for i, want := range []uint64{1, 2, 0, 0, 0} {
		if err := q.Take(&r); err != nil || r.ID != want || i == 1 && (len(r.SGE) != 1 || r.SGE[0] != (iwarp.SGE{Key: 7, Addr: 8, Len: 9})) {
			t.Errorf("%d: %+v, %v", i, r, err)
		}
		q.Done()
	}
	if err := q.Take(&r); err != ErrEmpty {
		t.Error(err)
	}
	if i := q.Query(); i != (SRQInfo{MaxWR: 5, MaxSGE: 2}) {
		t.Errorf("%+v", i)
	}
}

func TestLimitIsReachedOnce(t *testing.T) {
	t.Parallel()
	g := newRig(t, Config{})
	p := g.process("p", g.file("job"))
	tgt, _ := p.up(peer(1))
	q := p.srq(8)
	posted(t, q, 4)
	g.ok(q.Modify(SRQLimit, 0, 3))
	take := func(want ...EventKind) {
		t.Helper()
		g.ok(g.send(tgt, q.num(t)))
		g.events(p.Session, want...)
	}
	take()              // leaves 3, which is not fewer
	take(EventSRQLimit) // leaves 2
	if q.Query().Limit != 0 {
		t.Error("still armed")
	}
	take()
	g.ok(q.Modify(SRQLimit, 0, 8)) // armed when there are fewer already
	g.events(p.Session)
	take(EventSRQLimit)
}

func TestResizeSRQ(t *testing.T) {
	t.Parallel()
	g := newRig(t, Config{MaxWR: 32, Limits: Limits{Receives: 40}})
	p := g.process("p", g.file("job"))
	q := p.srq(8)
	var r iwarp.ReceiveRequest
	posted(t, q, 5)
	for range 3 {
		g.ok(q.Take(&r))
		q.Done()
	}
	posted(t, q, 4) // wraps around
	g.ok(q.Modify(SRQLimit, 0, 4))
	for _, c := range []struct {
		name         string
		m            SRQMask
		maxWR, limit int
		want         syscall.Errno
	}{
		{"fewer than are posted", SRQMaxWR, 5, 0, syscall.EINVAL},
		{"fewer than the limit", SRQMaxWR, 3, 0, syscall.EINVAL},
		{"none", SRQMaxWR, 0, 0, syscall.EINVAL},
		{"more than the device has", SRQMaxWR, 33, 0, syscall.EINVAL},
		{"limit above the room", SRQLimit, 0, 9, syscall.EINVAL},
		{"an unknown bit", 4, 0, 0, syscall.EINVAL},
	} {
		if err := q.Modify(c.m, c.maxWR, c.limit); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	p.srq(16)
	g.want(q.Modify(SRQMaxWR, 25, 0), ErrLimit)
	g.ok(q.Modify(SRQMaxWR, 24, 0))
	g.ok(q.Modify(SRQMaxWR, 6, 0))
	for _, want := range []uint64{3, 4, 0, 1, 2, 3} {
		g.ok(q.Take(&r))
		q.Done()
		if r.ID != want {
			t.Errorf("%d, want %d", r.ID, want)
		}
	}
	if u := p.Used(); u.Receives != 22 {
		t.Errorf("%d receives counted", u.Receives)
	}
	fixed, err := p.CreateSRQ(SRQAttr{PD: p.pd, MaxWR: 2, MaxSGE: 1, Queue: struct{ Queue }{NewRing(2, 1)}})
	g.ok(err)
	g.want(fixed.Modify(SRQMaxWR, 4, 0), ErrAttribute)
}

// A queue whose completions have nowhere to go gives no more receives, and its
// initiators fail; the target, which others use, does not.
func TestOverrunCompletionQueue(t *testing.T) {
	t.Parallel()
	g := newRig(t, Config{})
	f := g.file("job")
	p, other := g.process("p", f), g.process("other", f)
	tgt, c := other.up(peer(1))
	q, i := p.srq(4), p.initiator()
	posted(t, q, 2)
	g.ok(i.Modify(Attr{State: StateInit, Port: 1}, MaskState|initMask))
	p.cq.Push(make([]iwarp.Completion, cqEntries+1)...)
	p.cq.Push(iwarp.Completion{})
	g.want(p.cq.Wait(ctx), iwarp.ErrOverrun)
	g.events(p.Session, EventCQError, EventSRQError)
	if i.State() != StateError {
		t.Errorf("initiator in %v", i.State())
	}
	g.want(g.send(tgt, q.num(t)), ErrEmpty)
	g.alive(c)
	g.events(other.Session)
	_, err := p.CreateSRQ(SRQAttr{Type: SRQXRC, Domain: p.dom, CQ: p.cq, PD: p.pd, MaxWR: 1, MaxSGE: 1})
	g.want(err, ErrForeign)
}

func TestXRCREQ45DestructionWaitsForTheMessageInProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, Config{})
		p := g.process("p", g.file("job"))
		tgt, _ := p.up(peer(1))
		q := p.srq(4)
		posted(t, q, 2)
		n := q.num(t)
		var r iwarp.ReceiveRequest
		g.ok(q.Take(&r))
		late, err := g.Resolve(n, tgt) // before the destruction
		g.ok(err)
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		g.want(q.Close(short), ErrStuck)
		g.want(g.send(tgt, n), ErrUnknownSRQ)
		g.want(late.Take(&r), ErrUnknownSRQ)
		closed := make(chan error, 2)
		for range 2 { // whoever waits is told
			go func() { closed <- q.Close(ctx) }()
		}
		synctest.Wait()
		if len(closed) != 0 {
			t.Fatal("returned while a message uses the memory")
		}
		q.Done()
		g.ok(<-closed)
		g.ok(<-closed)
		g.want(q.Close(ctx), ErrForeign)
		if n := q.Queue().Len(); n != 0 {
			t.Errorf("%d receives are left", n)
		}
	})
}

// Messages come as fast as they can while their queue is destroyed: after the
// return of Close none uses it.
func TestXRCREQ45DestructionUnderLoad(t *testing.T) {
	t.Parallel()
	g := newRig(t, Config{})
	p := g.process("p", g.file("job"))
	tgt, _ := p.up(peer(1))
	for range 200 {
		q := p.srq(64)
		posted(t, q, 64)
		n := q.num(t)
		var closed atomic.Bool
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for {
					s, err := g.Resolve(n, tgt)
					if err != nil {
						return
					}
					var r iwarp.ReceiveRequest
					if err := s.Take(&r); err != nil {
						return
					}
					if closed.Load() {
						t.Error("memory used after the return of Close")
					}
					s.Done()
				}
			})
		}
		g.ok(q.Close(ctx))
		closed.Store(true)
		wg.Wait()
	}
}

// Memory that a message still fills when its session is gone is released by the
// message.
func TestXRCREQ45TheLastMessageOfADeadSession(t *testing.T) {
	t.Parallel()
	g := newRig(t, Config{})
	f := g.file("job")
	p := g.process("p", f)
	q := p.srq(4)
	posted(t, q, 1)
	var r iwarp.ReceiveRequest
	g.ok(q.Take(&r))
	gone, cancel := context.WithCancel(ctx)
	cancel()
	g.want(p.Session.Close(gone), ErrStuck)
	if s := g.Stats(); s.Leaks == 0 || s.SRQs != 1 || s.Domains != 1 {
		t.Errorf("%+v", s)
	}
	q.Done()
	s := g.Stats()
	if s.SRQs != 0 || s.Domains != 0 {
		t.Errorf("%+v", s)
	}
	g.Device.counters.leaks = 0 // they were expected
	again, err := g.session("again").OpenDomain(DomainAttr{Mask: allDomain, FD: int(f.Fd()), Flags: os.O_CREATE | os.O_EXCL})
	g.ok(err)
	g.ok(again.Close())
}

func TestDoneWithoutTake(t *testing.T) {
	t.Parallel()
	if !invariants.Enabled {
		t.Skip("needs -tags invariants or -race")
	}
	g := newRig(t, Config{})
	q := g.process("p", g.file("job")).srq(1)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
		q.holds.Store(0)
	}()
	q.Done()
}
