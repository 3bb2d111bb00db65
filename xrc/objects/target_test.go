//go:build !live

package objects

import (
	"sync"
	"testing"
)

func TestXRCREQ1TargetOutlivesItsCreator(t *testing.T) {
	g, a, b := twoProcesses(t)
	q := b.srq(4)
	posted(t, q, 1)
	tgt, c := a.up(peer(1))
	g.ok(errOf(b.Register(b.dom, tgt.ref.Number)))
	g.ok(a.Session.Close(ctx))
	g.alive(c)
	g.ok(g.send(tgt, q.Num()))
	g.events(b.Session)
}

func TestXRCREQ2CreatorIsRegisteredFromTheBeginning(t *testing.T) {
	g := parallelRig(t, Config{})
	a := g.process("a", g.file("job"))
	r := a.target()
	info, err := a.QueryTarget(a.dom, r.Number)
	g.ok(err)
	if info.Registered != 1 || info.Ref != r || info.Attr.State != StateReset || info.MaxSend != 0 {
		t.Errorf("%+v", info)
	}
	g.ok(a.Unregister(ctx, a.dom, r.Number))
	if n := g.Stats(); n.TotalTargets() != 0 {
		t.Errorf("%d targets without registration", n.TotalTargets())
	}
}

func TestXRCREQ3RegisterNeedsTheDomainAndALiveTarget(t *testing.T) {
	g := parallelRig(t, Config{})
	f := g.file("job")
	a, b, other := g.process("a", f), g.process("b", f), g.process("other", g.file("other"))
	r, dead := a.target(), a.target()
	g.ok(a.Unregister(ctx, a.dom, dead.Number))
	srqn := a.srq(1).Num()
	before := b.Used()
	for _, c := range []struct {
		name   string
		dom    *Domain
		number uint32
		want   error
	}{
		{"unknown", b.dom, r.Number + 100, ErrNumber},
		{"an initiator", b.dom, a.initiator().Ref().Number, ErrNumber},
		{"a shared receive queue", b.dom, srqn, ErrNumber},
		{"destroyed", b.dom, dead.Number, ErrNumber},
		{"no domain", nil, r.Number, ErrForeign},
		{"another session's handle", a.dom, r.Number, ErrForeign},
	} {
		if _, err := b.Register(c.dom, c.number); err != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := other.Register(other.dom, r.Number); err != ErrNumber {
		t.Errorf("in another domain: %v", err)
	}
	closed, err := b.OpenDomain(int(f.Fd()), 0)
	g.ok(err)
	g.ok(closed.Close())
	if _, err := b.Register(closed, r.Number); err != ErrForeign {
		t.Errorf("by a closed handle: %v", err)
	}
	if b.Used() != before {
		t.Errorf("used %+v, before %+v", b.Used(), before)
	}
	if _, err := b.Register(b.dom, r.Number); err != nil {
		t.Error(err)
	}
}

func TestXRCREQ4NumbersRegisterOnceHandlesCount(t *testing.T) {
	g, a, b := twoProcesses(t)
	r := a.target()
	for range 3 {
		info, err := b.Register(b.dom, r.Number)
		g.ok(err)
		if info.Registered != 2 {
			t.Errorf("%d sessions", info.Registered)
		}
	}
	g.ok(b.Unregister(ctx, b.dom, r.Number))
	g.want(b.Unregister(ctx, b.dom, r.Number), ErrNotRegistered)
	h1, err := b.OpenTarget(b.dom, r.Number)
	g.ok(err)
	h2, err := b.OpenTarget(b.dom, r.Number)
	g.ok(err)
	g.ok(a.Unregister(ctx, a.dom, r.Number))
	g.ok(h1.Destroy(ctx))
	if info, err := h2.Query(); err != nil || info.Registered != 1 {
		t.Errorf("%+v, %v", info, err)
	}
	g.want(h1.Destroy(ctx), ErrForeign)
	g.ok(h2.Destroy(ctx))
	g.want(errOf(b.Register(b.dom, r.Number)), ErrNumber)
}

func TestXRCREQ5StrangersCannotUnregister(t *testing.T) {
	g := parallelRig(t, Config{})
	f := g.file("job")
	a, b, c := g.process("a", f), g.process("b", f), g.process("c", f)
	tgt, link := a.up(peer(1))
	g.ok(errOf(b.OpenTarget(b.dom, tgt.ref.Number)))
	g.want(c.Unregister(ctx, c.dom, tgt.ref.Number), ErrNotRegistered)
	g.want(b.Unregister(ctx, b.dom, tgt.ref.Number), ErrNotRegistered) // it has a handle, which is another thing
	g.want(c.ModifyTarget(c.dom, tgt.ref.Number, Attr{State: StateError}, MaskState), ErrNotRegistered)
	g.want(errOf(c.QueryTarget(c.dom, tgt.ref.Number)), ErrNotRegistered)
	g.alive(link)
	if i := tgt.Info(); i.Registered != 2 || i.Attr.State != StateRTR {
		t.Errorf("%+v", i)
	}
}

func TestXRCREQ6LastUnregisterDestroysTheTarget(t *testing.T) {
	g := parallelRig(t, Config{})
	a := g.process("a", g.file("job"))
	q := a.srq(1)
	posted(t, q, 1)
	tgt, c := a.up(peer(1))
	g.ok(a.Unregister(ctx, a.dom, tgt.ref.Number))
	g.ended(c, ErrDestroyed)
	g.events(a.Session)
	g.want(errOf(a.Register(a.dom, tgt.ref.Number)), ErrNumber)
	g.want(g.send(tgt, q.Num()), ErrNotReady)
	g.want(tgt.Attach(&conn{}), ErrNumber)
	g.want(errOf(g.Target(tgt.ref)), ErrNumber)
}

// Two outcomes there are: registering wins and the target lives on, or it fails
// and the target is gone.
func TestXRCREQ7RegisterRacesLastUnregister(t *testing.T) {
	t.Parallel()
	const n = 100_000
	g := newRig(t, Config{})
	f := g.file("job")
	a, b := g.process("a", f), g.process("b", f)
	numbers, results := make(chan uint32), make(chan error)
	var wg sync.WaitGroup
	wg.Go(func() {
		for number := range numbers {
			_, err := b.Register(b.dom, number)
			results <- err
		}
	})
	won := 0
	for range n {
		r := a.target()
		numbers <- r.Number
		if err := a.Unregister(ctx, a.dom, r.Number); err != nil {
			t.Fatal(err)
		}
		err := <-results
		info, queryErr := b.QueryTarget(b.dom, r.Number)
		switch {
		case err == nil && queryErr == nil && info.Registered == 1:
			won++
			g.ok(b.Unregister(ctx, b.dom, r.Number))
		case err == ErrNumber && queryErr == ErrNumber:
		default:
			t.Fatalf("register %v, query %+v, %v", err, info, queryErr)
		}
	}
	close(numbers)
	wg.Wait()
	t.Logf("registering won %d of %d", won, n)
}

func TestXRCREQ8NumbersAndHandlesAreOneReferenceSet(t *testing.T) {
	g, a, b := twoProcesses(t)
	tgt, c := a.up(peer(1))
	h, err := b.OpenTarget(b.dom, tgt.ref.Number)
	g.ok(err)
	g.ok(a.Unregister(ctx, a.dom, tgt.ref.Number))
	g.alive(c)
	if h.Number() != tgt.ref.Number || tgt.Info().Registered != 1 {
		t.Errorf("%+v", tgt.Info())
	}
	g.ok(h.Destroy(ctx))
	g.ended(c, ErrDestroyed)
	// And the other way round, with both flavours in one session.
	r := a.target()
	h, err = a.OpenTarget(a.dom, r.Number)
	g.ok(err)
	g.ok(h.Destroy(ctx))
	if i, err := a.QueryTarget(a.dom, r.Number); err != nil || i.Registered != 1 {
		t.Errorf("%+v, %v", i, err)
	}
}

func TestXRCREQ9AllWhoAreRegisteredSeeTheSame(t *testing.T) {
	g := parallelRig(t, Config{})
	f := g.file("job")
	a, b, c := g.process("a", f), g.process("b", f), g.process("c", f)
	tgt, _ := a.up(peer(3))
	registered, err := b.Register(b.dom, tgt.ref.Number)
	g.ok(err)
	h, err := c.OpenTarget(c.dom, tgt.ref.Number)
	g.ok(err)
	g.want(g.send(tgt, 0x123), ErrUnknownSRQ)
	mine, err := a.QueryTarget(a.dom, tgt.ref.Number)
	g.ok(err)
	theirs, err := b.QueryTarget(b.dom, tgt.ref.Number)
	g.ok(err)
	opened, err := h.Query()
	g.ok(err)
	if mine != theirs || mine != opened || mine.Peer != peer(3) || !mine.Connected || mine.Registered != 3 ||
		mine.UnknownSRQ != 1 {
		t.Errorf("%+v\n%+v\n%+v", mine, theirs, opened)
	}
	if registered.Registered, registered.UnknownSRQ = 3, 1; registered != mine {
		t.Errorf("registering told %+v", registered)
	}
	g.ok(b.ModifyTarget(b.dom, tgt.ref.Number, Attr{MinRNRTimer: 3, State: StateRTS, Timeout: 14}, MaskState|MaskTimeout|MaskMinRNRTimer))
	if i, err := a.QueryTarget(a.dom, tgt.ref.Number); err != nil || i.Attr.MinRNRTimer != 3 || i.Attr.State != StateRTS {
		t.Errorf("%+v, %v", i, err)
	}
}

func TestXRCREQ10DeliveryNeedsNoRegistration(t *testing.T) {
	g, a, b := twoProcesses(t)
	tgt, _ := a.up(peer(1))
	q := b.srq(4)
	posted(t, q, 3)
	g.ok(g.send(tgt, q.Num())) // b never registered
	g.ok(errOf(b.Register(b.dom, tgt.ref.Number)))
	g.ok(b.Unregister(ctx, b.dom, tgt.ref.Number))
	g.ok(g.send(tgt, q.Num()))
}
