//go:build !live

package objects

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rds-go/rds/transport/iwarp"
)

// sharers are a creator, two that opened the target and one that registered.
func (g *rig) sharers() (all []*process, t *Target) {
	g.Helper()
	f := g.file("job")
	creator := g.process("creator", f)
	t, _ = creator.up(peer(1))
	all = append(all, creator)
	for _, name := range []string{"opener", "opener too", "registered"} {
		p := g.process(name, f)
		if name == "registered" {
			g.ok(errOf(p.Register(p.dom, t.ref.Number)))
		}
		for range 2 { // events do not go by handles
			if name == "registered" {
				continue
			}
			g.ok(errOf(p.OpenTarget(p.dom, t.ref.Number)))
		}
		all = append(all, p)
	}
	return all, t
}

func TestXRCREQ24EverySessionHearsEachEventOnce(t *testing.T) {
	g := parallelRig(t, Config{})
	all, tgt := g.sharers()
	for _, k := range []EventKind{EventCommEstablished, EventCommEstablished} {
		g.ok(tgt.Raise(k, nil))
	}
	for _, p := range all {
		g.events(p.Session, EventCommEstablished)
	}
	for _, k := range []EventKind{EventQPAccess, EventQPRequest, EventQPFatal} { // the first one ends it
		g.ok(tgt.Raise(k, ErrUnknownSRQ))
	}
	for _, p := range all {
		g.events(p.Session, EventQPAccess, EventLastWQE)
	}
	g.want(tgt.Raise(EventSRQLimit, nil), ErrAttribute)
	if i := tgt.Info(); i.Attr.State != StateError || i.Cause != ErrUnknownSRQ || i.Registered != 4 || i.Connected {
		t.Errorf("%+v", i)
	}
	for _, k := range []EventKind{EventQPFatal, EventQPRequest} {
		p := all[0]
		tgt, c := p.up(peer(2))
		g.ok(tgt.Raise(k, ErrUnknownSRQ))
		g.events(p.Session, k, EventLastWQE)
		g.ended(c, ErrUnknownSRQ)
	}
}

// One of those registered moves the target to error: all hear of it.
func TestOneOpenerEndsTheTargetForAll(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.InfoLevel)
	g := newRig(t, Config{Logger: zap.New(core)})
	all, tgt := g.sharers()
	g.ok(all[1].ModifyTarget(all[1].dom, tgt.ref.Number, Attr{State: StateError}, MaskState))
	for _, p := range all {
		g.events(p.Session, EventLastWQE)
	}
	same(t, "lines name who did it", logs.FilterMessage("target modified").FilterField(zap.String("session", "opener")).Len(), 1)
}

func TestXRCREQ25EventsSayWhatTheyAreAbout(t *testing.T) {
	g, p := oneProcess(t)
	tgt, _ := p.up(peer(1))
	q := p.srq(4)
	q.reached(q.SRQ)
	i := p.initiator()
	i.Fail(EventQPFatal, ErrPeerGone) // in RESET: nothing can fail
	g.ok(i.Modify(Attr{State: StateInit}, MaskState|initMask))
	i.Fail(EventQPFatal, ErrPeerGone)
	g.tell(tgt)
	p.cq.Push(make([]iwarp.Completion, cqEntries+1)...)
	want := []Ref{q.Ref(), i.Ref(), tgt.Info().Ref, p.cq.Ref(), q.Ref()}
	for n, e := range g.events(p.Session, EventSRQLimit, EventQPFatal, EventCommEstablished, EventCQError, EventSRQError) {
		if e.Object != want[n] {
			t.Errorf("%v is about %v, want %v", e.Kind, e.Object, want[n])
		}
		if k := KindOf(e.Object.Number); e.Kind != EventCQError && k != e.Object.Kind {
			t.Errorf("%v: its number is that of a kind %v", e.Object, k)
		}
	}
}

func TestXRCREQ26WhoComesLateFindsTheError(t *testing.T) {
	g, a, b := twoProcesses(t)
	tgt, _ := a.up(peer(1))
	g.ok(tgt.Raise(EventQPFatal, ErrPeerGone))
	info, err := b.Register(b.dom, tgt.ref.Number)
	g.ok(err)
	if info.Attr.State != StateError || info.Cause != ErrPeerGone || info.Registered != 2 {
		t.Errorf("%+v", info)
	}
	g.events(b.Session)
	g.events(a.Session, EventQPFatal, EventLastWQE)
}

func TestXRCREQ27ASessionThatDoesNotReadDelaysNobody(t *testing.T) {
	g := parallelRig(t, Config{Limits: Limits{Events: 8}})
	f := g.file("job")
	a, deaf := g.process("a", f), g.process("deaf", f)
	tgt, _ := a.up(peer(1))
	g.ok(errOf(deaf.Register(deaf.dom, tgt.ref.Number)))
	const n = 1000
	for range n {
		g.tell(tgt)
		g.events(a.Session, EventCommEstablished)
	}
	if s := g.Stats(); s.EventsLost < n-8 {
		t.Errorf("%d lost", s.EventsLost)
	}
	// What is left is the marker, and at most what came after it.
	e, err := deaf.NextEvent(ctx)
	g.ok(err)
	if e.Kind != EventsLost || e.Lost < n-8 || len(deaf.events.queue) >= 8 {
		t.Errorf("%+v, then %v", e, deaf.events.queue)
	}
	g.ok(deaf.Ack(e))
	for _, ok := deaf.PollEvent(); ok; _, ok = deaf.PollEvent() {
	}
	// One who reads and acknowledges nothing has no more than the limit either.
	for range n {
		g.tell(tgt)
	}
	if q := &deaf.events; len(q.queue)+len(q.unacked) > 9 || q.queue[0].Kind != EventsLost {
		t.Errorf("%d waiting, %d not acknowledged", len(q.queue), len(q.unacked))
	}
	if e, ok := a.PollEvent(); !ok || e.Kind != EventsLost {
		t.Errorf("%+v", e)
	}
}

func TestXRCREQ29DestructionWaitsForAcknowledgement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.WarnLevel)
		g := newRig(t, Config{Logger: zap.New(core)})
		p := g.process("p", g.file("job"))
		tgt, c := p.up(peer(1))
		g.ok(tgt.Raise(EventCommEstablished, nil))
		g.tell(tgt)
		e, err := p.NextEvent(ctx)
		g.ok(err)
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		err = p.Unregister(short, p.dom, tgt.ref.Number)
		g.want(err, ErrUnacked)
		g.want(err, context.DeadlineExceeded)
		g.alive(c) // nothing has happened
		done := make(chan error, 1)
		go func() { done <- p.Unregister(ctx, p.dom, tgt.ref.Number) }()
		synctest.Wait()
		if len(done) != 0 {
			t.Fatal("did not wait")
		}
		if logs.Len() != 0 {
			t.Error("a warning at once")
		}
		<-time.After(2 * ackWarning)
		if logs.Len() != 1 {
			t.Errorf("%d warnings", logs.Len())
		}
		g.ok(p.Ack(e))
		g.want(p.Ack(e), ErrAcked)
		g.ok(<-done)
		g.events(p.Session) // the one never read is gone
		g.ended(c, ErrDestroyed)
	})
}

func TestXRCREQ29DeathDiscardsWhatWasNotAcknowledged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, Config{})
		p := g.process("p", g.file("job"))
		tgt, _ := p.up(peer(1))
		g.ok(tgt.Raise(EventCommEstablished, nil))
		g.ok(errOf(p.NextEvent(ctx)))
		var wg sync.WaitGroup
		wg.Go(func() { // waits for an acknowledgement that never comes
			if err := p.Unregister(ctx, p.dom, tgt.ref.Number); err != nil && err != ErrClosed {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if _, err := p.NextEvent(ctx); err != ErrClosed {
				t.Error(err)
			}
		})
		synctest.Wait()
		g.ok(p.Session.Close(ctx))
		wg.Wait()
		g.empty()
	})
}

func TestNextEventEndsWithItsContext(t *testing.T) {
	g := parallelRig(t, Config{})
	s := g.session("s")
	c, cancel := context.WithCancel(ctx)
	cancel()
	g.want(errOf(s.NextEvent(c)), context.Canceled)
}
