//go:build !live

package objects

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
)

func TestCreateSRQ(t *testing.T) {
	t.Parallel()
	g, h := newRig(t, Config{MaxWR: 64}), newRig(t, Config{})
	p, stranger, far := g.process("p", g.file("job")), g.process("stranger", g.file("other")), h.process("far", h.file("job"))
	good := SRQAttr{Domain: p.dom, CQ: p.cq, PD: p.pd, MaxWR: 8, Limit: 8}
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
		{"limit above the room", func(a *SRQAttr) { a.Limit = 9 }},
		{"a limit below 0", func(a *SRQAttr) { a.Limit = -1 }},
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
	g.ok(errOf(p.CreateSRQ(good)))
}

func TestPostReceive(t *testing.T) {
	g := parallelRig(t, Config{})
	p, other := g.process("p", g.file("job")), g.process("other", g.file("other"))
	q := p.srq(5)
	m, err := p.pd.RegMR(make([]byte, 64), mr.LocalWrite, 0)
	g.ok(err)
	theirs, err := other.pd.RegMR(make([]byte, 64), mr.LocalWrite, 0)
	g.ok(err)
	good := iwarp.ReceiveRequest{ID: 2, SGE: []iwarp.SGE{m.SGE(8, 9)}}
	pieces := iwarp.ReceiveRequest{}
	for range iwarp.MaxSGE + 1 {
		pieces.SGE = append(pieces.SGE, m.SGE(0, 1))
	}
	n, err := q.PostReceive(iwarp.ReceiveRequest{ID: 1}, good, pieces, good, good)
	if n != 2 || !errors.Is(err, syscall.EINVAL) {
		t.Errorf("took %d: %v", n, err)
	}
	n, err = q.PostReceive(good, iwarp.ReceiveRequest{SGE: []iwarp.SGE{m.SGE(0, 1), theirs.SGE(0, 1)}}, good)
	if n != 1 || !errors.Is(err, iwarp.ErrForeign) {
		t.Errorf("took %d: %v", n, err)
	}
	n, err = q.PostReceive(make([]iwarp.ReceiveRequest, 5)...)
	if n != 2 || !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("took %d: %v", n, err)
	}
	if i := q.Query(); i != (SRQInfo{MaxWR: 5, Posted: 5}) {
		t.Errorf("%+v", i)
	}
}

// A completion queue may be closed by another goroutine before the SRQ.Close of the last queue
// that completes there has returned.
func TestCompletionQueueEndsBeforeItsSRQ(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, Config{})
		p := g.process("p", g.file("job"))
		q, d := p.srq(1), p.dev
		waited := make(chan error)
		go func() { waited <- p.cq.Wait(ctx) }()
		synctest.Wait()
		d.mu.Lock()
		q.abandonLocked()
		rest := d.pending // what SRQ.Close has still to do when CQ.Close comes
		d.pending = nil
		d.mu.Unlock()
		g.ok(p.cq.Close(ctx))
		for _, f := range rest {
			f()
		}
		g.want(<-waited, iwarp.ErrClosed)
	})
}

func TestResizeSRQ(t *testing.T) {
	g := parallelRig(t, Config{MaxWR: 32, Limits: Limits{Receives: 40}})
	p := g.process("p", g.file("job"))
	q := p.srq(8)
	posted(t, q, 6)
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
	if i := q.Query(); i != (SRQInfo{MaxWR: 6, Limit: 4, Posted: 6}) {
		t.Errorf("%+v", i)
	}
	if u := p.Used(); u.Receives != 22 {
		t.Errorf("%d receives counted", u.Receives)
	}
	sink, err := p.CreateSRQ(SRQAttr{Domain: p.dom, PD: p.pd, Sink: true})
	g.ok(err)
	g.want(sink.Modify(SRQMaxWR, 4, 0), syscall.EINVAL)
	g.want(sink.Modify(SRQLimit, 0, 1), ErrAttribute)
}

// A queue whose completions have nowhere to go gives no more receives, and its
// initiators fail; the target, which others use, does not.
func TestOverrunCompletionQueue(t *testing.T) {
	g := parallelRig(t, Config{})
	f := g.file("job")
	p, other := g.process("p", f), g.process("other", f)
	_, c := other.up(peer(1))
	q, i := p.srq(4), p.initiator()
	posted(t, q, 2)
	g.ok(i.Modify(Attr{State: StateInit}, MaskState|initMask))
	p.cq.Push(make([]iwarp.Completion, cqEntries+1)...)
	p.cq.Push(iwarp.Completion{})
	g.want(p.cq.Wait(ctx), iwarp.ErrOverrun)
	g.events(p.Session, EventCQError, EventSRQError)
	if i.State() != StateError {
		t.Errorf("initiator in %v", i.State())
	}
	g.alive(c)
	g.events(other.Session)
	g.want(errOf(p.CreateSRQ(SRQAttr{Domain: p.dom, CQ: p.cq, PD: p.pd, MaxWR: 1})), ErrForeign)
}
