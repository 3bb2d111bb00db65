//go:build !live

package objects

import (
	"runtime"
	"testing"
	"time"
	"unsafe"
)

// Not parallel: it measures the heap.
func TestXRCREQ28TargetsInErrorHoldNothing(t *testing.T) {
	const n = 10000
	g := newRig(t, Config{Limits: Limits{Targets: 1, Events: 2}})
	p := g.process("p", g.file("job"))
	baseline := heap()
	for i := range uint32(n) {
		tgt, c := p.up(peer(i))
		g.ok(tgt.Raise(EventQPFatal, ErrPeerGone))
		g.ended(c, ErrPeerGone)
	}
	if s := g.Stats(); s.Targets[StateError] != n || s.PeerGone != n || s.Hosts != 0 {
		t.Errorf("%+v", s)
	}
	errored := heap() - baseline
	if errored > n*1024 {
		t.Errorf("%d bytes for each target in error", errored/n)
	}
	g.clk.advance(time.Minute)
	g.Expire(g.clk.now())
	tombs := heap() - baseline
	if s := g.Stats(); s.Tombstones != n || tombs > errored-n*int64(unsafe.Sizeof(Attr{}))/2 {
		t.Errorf("%+v, %d bytes for each tombstone, %d before", s, tombs/n, errored/n)
	}
	t.Logf("%d bytes for each target in error, %d for each tombstone, with their maps", errored/n, tombs/n)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A queue pair in the daemon costs less than 2 KiB.
func TestSizeOfAQueuePair(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]uintptr{
		"target":    unsafe.Sizeof(Target{}) + unsafe.Sizeof(Attr{}) + unsafe.Sizeof(Handle{}),
		"initiator": unsafe.Sizeof(Initiator{}) + unsafe.Sizeof(Attr{}),
	} {
		if n > 1024 {
			t.Errorf("%s: %d bytes", name, n)
		}
	}
}

// The sender is connected and killed 10,000 times. Of targets that the session has registered
// with by itself one is dead at a time, if it handles its events.
func TestXRCREQ34DeadTargetsDoNotPileUp(t *testing.T) {
	g := parallelRig(t, Config{Limits: Limits{Registrations: 4}})
	p, _, _ := g.advertised("app", g.file("job"), serviceID)
	for n := range uint32(10000) {
		reply, tgt := g.connected(request(peer(n), serviceID))
		g.ok(errOf(p.Register(p.dom, reply.Target.Number)))
		g.clk.advance(time.Millisecond)
		since := g.clk.now()
		g.PeerGone(hostA, peer(n).QP)
		g.clk.advance(time.Millisecond)
		if s := g.Stats(); s.PeerGone != 1 || s.TotalTargets() != 1 || !s.OldestDead.Equal(since) || s.Targets[StateError] != 1 {
			t.Fatalf("%d: %+v, dead since %v", n, s, since)
		}
		for e, ok := p.PollEvent(); ok; e, ok = p.PollEvent() {
			g.ok(p.Ack(e))
		}
		g.ok(p.Unregister(ctx, p.dom, reply.Target.Number))
		g.want(p.Unregister(ctx, p.dom, reply.Target.Number), ErrNumber) // the service has let go
		g.want(tgt.Raise(EventQPFatal, nil), ErrNumber)
	}
	if s := g.Stats(); s.TotalTargets() != 0 || s.PeerGone != 0 || !s.OldestDead.IsZero() || s.Hosts != 0 {
		t.Errorf("%+v", s)
	}
	// One that handles none has no more than its limit of those, and they refuse nobody.
	for n := range uint32(100) {
		reply, _ := g.connected(request(peer(20000+n), serviceID))
		g.ok(errOf(p.Register(p.dom, reply.Target.Number)))
		g.PeerGone(hostA, peer(20000+n).QP)
	}
	if s := g.Stats(); s.TotalTargets() != 4 || p.Used().Registrations != 0 || p.Used().Targets != 0 {
		t.Errorf("%+v, the limit is 4; %+v", s, p.Used())
	}
}

// Of targets that peers had made by a service nothing is left when the peer has ended, however
// it did, though nobody reads events or lets go; the session finds that it has lost events.
func TestXRCREQ34NobodyHasToReadEvents(t *testing.T) {
	g := parallelRig(t, Config{Limits: Limits{Targets: 1, Registrations: 1, Events: 2}})
	p, _, v := g.advertised("app", g.file("job"), serviceID)
	ends := []func(n uint32, tgt *Target){
		func(n uint32, _ *Target) { g.PeerGone(hostA, peer(n).QP) },
		func(n uint32, tgt *Target) {
			g.ok(tgt.Suspend(g.clk.now()))
			g.clk.advance(time.Minute)
			g.Expire(g.clk.now())
		},
		func(_ uint32, tgt *Target) { g.ok(tgt.Raise(EventQPRequest, ErrForbidden)) },
		func(n uint32, tgt *Target) {
			g.ok(p.ModifyTarget(p.dom, tgt.ref.Number, Attr{State: StateError}, MaskState))
		},
	}
	for n := range uint32(10000) {
		_, tgt := g.connected(request(peer(n), serviceID))
		c := &conn{}
		g.ok(tgt.Attach(c))
		ends[n%4](n, tgt)
		if s := g.Stats(); s.TotalTargets() != 0 || s.Hosts != 0 || len(v.targets) != 0 || p.Used().Registrations+p.Used().Targets != 0 {
			t.Fatalf("%d: %+v, %+v", n, s, p.Used())
		}
	}
	if e, ok := p.PollEvent(); !ok || e.Kind != EventsLost || e.Lost < 10000 {
		t.Errorf("%+v", e)
	}
}

// A target that is reset is as one that is made: it counts again, if there is room.
func TestATargetThatIsResetCountsAgain(t *testing.T) {
	g := parallelRig(t, Config{Limits: Limits{Targets: 1}})
	p := g.process("p", g.file("job"))
	tgt, _ := p.up(peer(1))
	reset := func() error { return p.ModifyTarget(p.dom, tgt.ref.Number, Attr{State: StateReset}, MaskState) }
	g.ok(tgt.Raise(EventQPFatal, ErrPeerGone))
	g.ok(reset())
	if u := p.Used(); u.Targets != 1 || u.Registrations != 1 {
		t.Errorf("%+v", u)
	}
	g.want(errOf(p.CreateTarget(TargetAttr{Domain: p.dom})), ErrLimit)
	p.connect(tgt.Info().Ref, peer(2))
	g.ok(tgt.Raise(EventQPFatal, ErrPeerGone))
	other := p.target()
	g.want(reset(), ErrLimit)
	g.ok(p.Unregister(ctx, p.dom, other.Number))
	g.ok(reset())
	g.ok(p.Unregister(ctx, p.dom, tgt.ref.Number))
	if u := p.Used(); u.Targets+u.Registrations != 0 {
		t.Errorf("%+v", u)
	}
}

func TestXRCREQ35ADeafSessionKeepsATombstone(t *testing.T) {
	g := parallelRig(t, Config{})
	f := g.file("job")
	deaf, late := g.process("deaf", f), g.process("late", f)
	tgt, _ := deaf.up(peer(1))
	n := tgt.ref.Number
	g.ok(tgt.Raise(EventQPFatal, ErrPeerGone))
	if next := g.Expire(g.clk.now()); !next.Equal(g.clk.now().Add(time.Minute)) {
		t.Errorf("next at %v", next)
	}
	g.clk.advance(time.Minute - 1)
	g.Expire(g.clk.now())
	if tgt.Info().Tombstone {
		t.Error("too early")
	}
	g.clk.advance(1)
	if next := g.Expire(g.clk.now()); !next.IsZero() {
		t.Errorf("next at %v", next)
	}
	i, err := deaf.QueryTarget(deaf.dom, n)
	if err != nil || !i.Tombstone || i.Attr.State != StateError || i.Cause != ErrPeerGone {
		t.Errorf("%+v, %v", i, err)
	}
	if s := g.Stats(); s.Tombstones != 1 || s.OldestDead.IsZero() {
		t.Errorf("%+v", s)
	}
	_, err = late.Register(late.dom, n) // nobody joins a tombstone
	g.want(err, ErrNumber)
	g.want(deaf.ModifyTarget(deaf.dom, n, Attr{State: StateReset}, MaskState), ErrNumber)
	g.want(errOf(deaf.EnsureConnected(deaf.dom, n, upAttr(peer(1)))), ErrNumber)
	g.ok(deaf.Unregister(ctx, deaf.dom, n))
	if s := g.Stats(); s.Tombstones != 0 || !s.OldestDead.IsZero() {
		t.Errorf("%+v", s)
	}
}

func TestXRCREQ39WhatIsReapedIsTheGenerationThatWasMeant(t *testing.T) {
	g, p := oneProcess(t)
	tgt, _ := p.up(peer(1))
	old := tgt.ref
	g.ok(tgt.Raise(EventQPFatal, ErrPeerGone))
	// The reaper's time is about to come; meanwhile a session connects the target anew.
	g.clk.advance(time.Minute - 1)
	g.Expire(g.clk.now())
	g.ok(p.ModifyTarget(p.dom, old.Number, Attr{State: StateReset}, MaskState))
	again, c := p.connect(tgt.Info().Ref, peer(2))
	g.clk.advance(time.Hour)
	g.Expire(g.clk.now())
	if i := again.Info(); i.Tombstone || i.Attr.State != StateRTR || i.Ref.Generation == old.Generation {
		t.Errorf("%+v", i)
	}
	g.alive(c)
	g.want(errOf(g.Target(old)), ErrStale)
	g.ok(again.Raise(EventQPFatal, ErrPeerGone))
	g.clk.advance(time.Minute)
	g.Expire(g.clk.now())
	if !again.Info().Tombstone {
		t.Error("not reaped")
	}
}

func TestXRCREQ44NumbersRest(t *testing.T) {
	g, p := oneProcess(t)
	seen := map[uint32]bool{}
	generations := map[uint32]bool{}
	var first Ref
	const n = 70000 // more than 1<<16
	for i := range n {
		r := p.target()
		if i == 0 {
			first = r
		}
		if seen[r.Number] && i <= 1<<16 {
			t.Fatalf("%v again after %d", r, i)
		}
		if generations[r.Generation] {
			t.Fatalf("generation of %v again", r)
		}
		seen[r.Number], generations[r.Generation] = true, true
		g.ok(p.Unregister(ctx, p.dom, r.Number))
	}
	if r := p.target(); r.Number == first.Number || len(seen) != 1<<16+1 {
		t.Errorf("%v, %d numbers were used", r, len(seen))
	}
	same(t, "at rest", g.Stats().Resting, 1<<16)
}

func TestXRCREQ44NumbersComeBackAfterTheirTime(t *testing.T) {
	g, p := oneProcess(t)
	a, b := p.target(), p.target()
	g.ok(p.Unregister(ctx, p.dom, a.Number))
	g.clk.advance(time.Second)
	g.ok(p.Unregister(ctx, p.dom, b.Number))
	g.clk.advance(time.Minute - 2*time.Second)
	if r := p.target(); r.Number == a.Number || r.Number == b.Number {
		t.Errorf("%v is too early", r)
	}
	g.clk.advance(time.Second)
	r := p.target()
	if r.Number != a.Number || r.Generation == a.Generation {
		t.Errorf("%v, want the number of %v", r, a)
	}
	if next := p.target(); next.Number == b.Number {
		t.Errorf("%v is too early", next)
	}
	g.ok(errOf(p.QueryTarget(p.dom, a.Number)))
	g.want(errOf(g.Target(a)), ErrStale)
}

func TestNumbersUsedUp(t *testing.T) {
	g, p := oneProcess(t)
	g.Device.numbers[KindTarget].limit = firstTarget + 2
	r := p.target()
	p.target()
	used := p.Used()
	g.want(errOf(p.CreateTarget(TargetAttr{Domain: p.dom})), ErrLimit)
	if p.Used() != used {
		t.Errorf("%+v", p.Used())
	}
	g.ok(p.Unregister(ctx, p.dom, r.Number))
	g.want(errOf(p.CreateTarget(TargetAttr{Domain: p.dom})), ErrLimit) // at rest
}

func TestKindOf(t *testing.T) {
	t.Parallel()
	for number, want := range map[uint32]Kind{0: KindNone, 0xFF: KindNone, 0x100: KindSRQ, 0x3FFFFF: KindSRQ, 0x400000: KindInitiator,
		0x7FFFFF: KindInitiator, 0x800000: KindTarget, 0xFFFFFE: KindTarget, 0xFFFFFF: KindNone, 1 << 24: KindNone} {
		if got := KindOf(number); got != want {
			t.Errorf("%06x: %v, want %v", number, got, want)
		}
	}
}
