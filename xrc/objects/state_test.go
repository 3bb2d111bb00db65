//go:build !live

package objects

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rds-go/rds/mr"
)

// toRTR are the two steps up, as masks of a program that uses one for both ends.
const (
	rcRTR = MaskState | rtrMask | responding
	rcRTS = MaskState | rtsMask | initiating
)

// modifiable is a queue pair of either type.
type modifiable struct {
	modify func(Attr, Mask) error
	info   func() Info
}

func (p *process) qp(t Type) modifiable {
	if t == TypeInitiator {
		i := p.initiator()
		return modifiable{i.Modify, func() Info {
			info, err := i.Query()
			p.g.ok(err)
			return info
		}}
	}
	r := p.target()
	return modifiable{
		func(a Attr, m Mask) error { return p.ModifyTarget(p.dom, r.Number, a, m) },
		func() Info {
			info, err := p.QueryTarget(p.dom, r.Number)
			p.g.ok(err)
			return info
		}}
}

// steps is the way to each state.
var steps = map[State][]State{StateReset: nil, StateInit: {StateInit}, StateRTR: {StateInit, StateRTR},
	StateRTS: {StateInit, StateRTR, StateRTS}, StateSQD: {StateInit, StateRTR, StateRTS, StateSQD},
	StateError: {StateInit, StateError}}

var stepMask = map[State]Mask{StateInit: MaskState | initMask, StateRTR: rcRTR, StateRTS: rcRTS,
	StateSQD: MaskState, StateError: MaskState, StateReset: MaskState}

func (p *process) at(typ Type, s State) modifiable {
	p.g.Helper()
	q := p.qp(typ)
	for _, to := range steps[s] {
		a := upAttr(peer(1))
		a.State = to
		p.g.ok(q.modify(a, stepMask[to]))
	}
	if got := q.info().Attr.State; got != s {
		p.g.Fatalf("state %v, want %v", got, s)
	}
	return q
}

// Every pair of states, for both types: those of the table work, all others are
// refused with nothing changed.
func TestTransitions(t *testing.T) {
	_, p := oneProcess(t)
	allowed := map[[2]State]bool{
		{StateReset, StateInit}: true, {StateInit, StateRTR}: true, {StateRTR, StateRTS}: true,
		{StateRTS, StateSQD}: true, {StateSQD, StateRTS}: true,
		{StateInit, StateInit}: true, {StateRTS, StateRTS}: true, {StateSQD, StateSQD}: true,
	}
	for _, typ := range []Type{TypeInitiator, TypeTarget} {
		for from := range steps {
			for to := StateReset; to <= StateUnknown; to++ {
				want := allowed[[2]State{from, to}] || to == StateReset || to == StateError && from != StateReset
				m := MaskState | stepMask[to]
				switch {
				case from == to:
					m = MaskState
				case to == StateRTS && from == StateSQD:
					m = MaskState
				}
				q := p.at(typ, from)
				before := q.info()
				a := upAttr(peer(1))
				a.State = to
				err := q.modify(a, m)
				after := q.info()
				switch {
				case want && (err != nil || after.Attr.State != to):
					t.Errorf("type %d, %v to %v: %v, now %v", typ, from, to, err, after.Attr.State)
				case !want && (err == nil || after != before):
					t.Errorf("type %d, %v to %v: %v, %+v", typ, from, to, err, after)
				}
			}
		}
	}
}

func TestXRCREQ11TargetsReceiveFromRTROn(t *testing.T) {
	g := parallelRig(t, Config{})
	a := g.process("a", g.file("job"))
	q := a.srq(8)
	posted(t, q, 8)
	n := q.Num()
	r := a.target()
	tgt, err := g.Target(r)
	g.ok(err)
	step := func(s State, want error) {
		t.Helper()
		attr := upAttr(peer(1))
		attr.State = s
		g.ok(a.ModifyTarget(a.dom, r.Number, attr, stepMask[s]))
		g.want(g.send(tgt, n), want)
		if tgt.State() != s {
			t.Errorf("state %v", tgt.State())
		}
	}
	g.want(g.send(tgt, n), ErrNotReady)
	step(StateInit, ErrNotReady)
	step(StateRTR, nil)
	step(StateRTS, nil)
	step(StateSQD, nil)
	step(StateError, ErrNotReady)
	step(StateReset, ErrNotReady)
}

// One attribute after the other is left out, and one after the other is too
// much, in each transition.
func TestXRCREQ12EachAttributeBit(t *testing.T) {
	_, p := oneProcess(t)
	for _, typ := range []Type{TypeInitiator, TypeTarget} {
		foreign := Mask(responding)
		if typ == TypeTarget {
			foreign = initiating
		}
		for from := range steps {
			for to := StateReset; to <= StateError; to++ {
				rule := &rules[from][to]
				if !rule.exists {
					continue
				}
				required, optional := rule.required[of(typ)], rule.optional[of(typ)]
				for bit := Mask(1); bit != 0; bit <<= 1 {
					q := p.at(typ, from)
					before := q.info()
					a := upAttr(peer(1))
					a.State, a.CurState = to, from
					err := q.modify(a, (MaskState|required)^bit)
					var want error
					switch known := bit&allMask != 0; {
					case bit == MaskState && from == to, bit == MaskState && required == 0:
						continue // the same state, or the transition to itself
					case bit == MaskState:
						want = ErrAttribute
						if !rules[from][from].exists {
							want = ErrState
						}
					case !known:
						want = ErrMask
					case bit == MaskCurState && optional&bit != 0 && (from < StateRTR || from > StateSQE):
						want = ErrAttribute
					case required&bit != 0, (optional|foreign)&bit == 0:
						want = ErrAttribute
					}
					if err != want {
						t.Fatalf("type %d, %v to %v, bit %#x: %v, want %v", typ, from, to, bit, err, want)
					}
					if after := q.info(); err != nil && after != before {
						t.Fatalf("type %d, %v to %v, bit %#x: changed to %+v", typ, from, to, bit, after)
					}
				}
			}
		}
	}
}

func TestAttributeValues(t *testing.T) {
	g := parallelRig(t, Config{MTU: 4096})
	p := g.process("p", g.file("job"))
	for _, c := range []struct {
		name string
		typ  Type
		from State
		to   State
		m    Mask
		set  func(*Attr)
	}{
		{"unknown right", TypeTarget, StateReset, StateInit, MaskState | initMask, func(a *Attr) { a.Access = 1 << 7 }},
		{"min_rnr_timer 32", TypeTarget, StateInit, StateRTR, rcRTR, func(a *Attr) { a.MinRNRTimer = 32 }},
		{"timeout 32", TypeTarget, StateRTR, StateRTS, rcRTS, func(a *Attr) { a.Timeout = 32 }},
		{"retry_cnt 8", TypeInitiator, StateRTR, StateRTS, rcRTS, func(a *Attr) { a.RetryCount = 8 }},
		{"rnr_retry 8", TypeInitiator, StateRTR, StateRTS, rcRTS, func(a *Attr) { a.RNRRetry = 8 }},
		{"MTU above the device's", TypeInitiator, StateInit, StateRTR, rcRTR, func(a *Attr) { a.PathMTU = 4097 }},
		{"MTU too small", TypeInitiator, StateInit, StateRTR, rcRTR, func(a *Attr) { a.PathMTU = 255 }},
		{"responder depth 129", TypeTarget, StateInit, StateRTR, rcRTR, func(a *Attr) { a.MaxDestRdAtomic = 129 }},
		{"responder depth below 0", TypeTarget, StateInit, StateRTR, rcRTR, func(a *Attr) { a.MaxDestRdAtomic = -1 }},
		{"initiator depth 129", TypeInitiator, StateRTR, StateRTS, rcRTS, func(a *Attr) { a.MaxRdAtomic = 129 }},
		{"another current state", TypeTarget, StateRTR, StateRTS, rcRTS | MaskCurState, func(a *Attr) { a.CurState = StateRTS }},
		{"state 7", TypeTarget, StateRTR, StateUnknown, MaskState, func(*Attr) {}},
	} {
		q := p.at(c.typ, c.from)
		before := q.info()
		a := upAttr(peer(1))
		a.State = c.to
		c.set(&a)
		if err := q.modify(a, c.m); !errors.Is(err, ErrAttribute) || !strings.HasPrefix(err.Error(), "xrc: Attr.") {
			t.Errorf("%s: %v", c.name, err)
		}
		same(t, c.name, q.info(), before)
	}
	q := p.at(TypeTarget, StateInit)
	a := upAttr(peer(1))
	a.State, a.DestQPN = StateRTR, 0xAB400001
	g.ok(q.modify(a, rcRTR))
	if i := q.info(); i.Attr.DestQPN != 0x400001 || i.Peer.QP.Number != 0x400001 {
		t.Errorf("the number is not cut to 24 bits: %+v", i)
	}
}

func TestXRCREQ13DepthOfReadsMayBeZero(t *testing.T) {
	g, p := oneProcess(t)
	r := p.target()
	a := upAttr(peer(1))
	a.MaxDestRdAtomic, a.Access = 0, mr.RemoteWrite|mr.LocalWrite
	g.ok(errOf(p.EnsureConnected(p.dom, r.Number, a)))
	tgt, err := g.Target(r)
	g.ok(err)
	// The transport goes by these; the depth is one for all queues behind the target.
	if i := tgt.Info(); i.Attr.MaxDestRdAtomic != 0 || i.Attr.Access != a.Access {
		t.Errorf("%+v", i.Attr)
	}
	for range 2 {
		q := p.srq(1)
		posted(t, q, 1)
		g.ok(g.send(tgt, q.Num()))
	}
}

func TestXRCREQ14OneOfManyBringsTheTargetUp(t *testing.T) {
	g := parallelRig(t, Config{})
	f := g.file("job")
	first := g.process("first", f)
	r := first.target()
	var done atomic.Int32
	var wg sync.WaitGroup
	for range 16 {
		p := g.process("p", f)
		g.ok(errOf(p.Register(p.dom, r.Number)))
		wg.Go(func() {
			did, err := p.EnsureConnected(p.dom, r.Number, upAttr(peer(1)))
			if err != nil {
				t.Error(err)
			}
			if did {
				done.Add(1)
			}
		})
	}
	wg.Wait()
	if done.Load() != 1 {
		t.Errorf("%d did it", done.Load())
	}
	ensure := func(a Attr, want error) {
		t.Helper()
		did, err := first.EnsureConnected(first.dom, r.Number, a)
		if err != want || did {
			t.Errorf("%v, %v, want %v", did, err, want)
		}
	}
	g.ok(first.ModifyTarget(first.dom, r.Number, Attr{State: StateRTS, Timeout: 14}, MaskState|rtsMask))
	ensure(upAttr(peer(1)), nil) // RTS is past RTR
	for _, change := range []func(*Attr){
		func(a *Attr) { a.DestQPN++ }, func(a *Attr) { a.PathMTU = 1024 }, func(a *Attr) { a.Host = hostB },
		func(a *Attr) { a.MaxDestRdAtomic = 0 }, func(a *Attr) { a.MinRNRTimer = 0 }, func(a *Attr) { a.Access = 0 },
	} {
		a := upAttr(peer(1))
		change(&a)
		ensure(a, ErrAttribute)
	}
	g.ok(first.ModifyTarget(first.dom, r.Number, Attr{State: StateError}, MaskState))
	ensure(upAttr(peer(1)), ErrState)
	// What fails leaves the target where it was.
	other := first.target()
	bad := upAttr(peer(2))
	bad.MinRNRTimer = 32
	g.want(errOf(first.EnsureConnected(first.dom, other.Number, bad)), ErrAttribute)
	if i, err := first.QueryTarget(first.dom, other.Number); err != nil || i.Attr.State != StateReset {
		t.Errorf("%+v, %v", i, err)
	}
}

func TestInitiatorPostsFromRTSOn(t *testing.T) {
	g, p := oneProcess(t)
	i := p.initiator()
	for _, s := range []State{StateReset, StateInit, StateRTR, StateRTS, StateSQD, StateError} {
		if s != StateReset {
			a := upAttr(peer(1))
			a.State, a.SQDNotify = s, true
			m := stepMask[s]
			if s == StateSQD {
				m |= MaskSQDNotify
			}
			g.ok(i.Modify(a, m))
		}
		want := error(nil)
		if s < StateRTS {
			want = ErrState
		}
		if err := i.CheckPost(); err != want {
			t.Errorf("%v: %v", s, err)
		}
		if s == StateSQD {
			i.Draining()
			g.want(i.Modify(Attr{State: StateRTS}, MaskState), ErrState)
			g.events(p.Session)
			i.Drained()
			g.events(p.Session, EventSQDrained)
		}
	}
}
