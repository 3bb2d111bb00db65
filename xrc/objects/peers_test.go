//go:build !live

package objects

import (
	"net/netip"
	"testing"
	"time"
)

func TestXRCREQ33TheEndOfAnInitiatorIsAnnounced(t *testing.T) {
	g, p := oneProcess(t)
	tgt, c := p.up(peer(1))
	other, alive := p.up(peer(2))
	later := peer(1).QP
	later.Generation++
	for _, r := range []Ref{later, {KindTarget, peer(1).QP.Number, 7}, {KindInitiator, 5, 7}} {
		if n := g.PeerGone(hostA, r); n != 0 {
			t.Errorf("%v ended %d", r, n)
		}
	}
	same(t, "another host ended", g.PeerGone(hostB, peer(1).QP), 0)
	g.alive(c)
	same(t, "ended", g.PeerGone(hostA, peer(1).QP), 1)
	g.ended(c, ErrPeerGone)
	g.events(p.Session, EventQPFatal, EventLastWQE)
	if n := g.PeerGone(hostA, peer(1).QP); n != 0 || tgt.State() != StateError {
		t.Errorf("again: %d", n)
	}
	g.alive(alive)
	// And the same for the end of a target.
	i := p.initiator()
	a := upAttr(peer(1))
	a.DestQPN = firstTarget + 5
	g.climb(i, a, StateInit, StateRTR)
	at := Peer{Host: hostA, Incarnation: incarnationA, QP: Ref{KindTarget, firstTarget + 5, 9}}
	g.ok(i.Rename(at))
	if n := g.PeerGone(hostA, at.QP); n != 1 || i.State() != StateError {
		t.Errorf("ended %d, %v", n, i.State())
	}
	g.events(p.Session, EventQPFatal)
	if other.State() != StateRTR {
		t.Error("another one ended")
	}
	g.HostDown(hostA) // nothing is left of it
	g.ended(alive, ErrPeerGone)
	g.HostDown(hostA)
}

func TestRenameAfterSetUp(t *testing.T) {
	g, p := oneProcess(t)
	r := p.target()
	tgt, err := g.Target(r)
	g.ok(err)
	g.want(tgt.Rename(peer(1)), ErrState)
	g.ok(errOf(p.EnsureConnected(p.dom, r.Number, upAttr(peer(1)))))
	g.ok(tgt.Rename(peer(1)))
	g.ok(tgt.Attach(&conn{}))
	g.want(tgt.Attach(&conn{}), ErrState) // it has one
}

// 10,000 queue pairs that nothing happens on: one frame asks about all of them.
func TestXRCREQ36OneFrameForEachPairOfHosts(t *testing.T) {
	t.Parallel()
	const n = 10000
	here, there := newRig(t, Config{Limits: Limits{Targets: n}}), newRig(t, Config{Limits: Limits{Initiators: n}})
	p, far := here.process("here", here.file("job")), there.process("there", there.file("job"))
	var inis []*Initiator
	for range n {
		i := far.initiator()
		me := Peer{Host: hostA, Incarnation: there.Incarnation(), QP: i.Ref()}
		tgt, _ := p.up(me)
		a := upAttr(me)
		a.Host, a.DestQPN, a.State = hostB, tgt.ref.Number, StateInit
		there.ok(i.Modify(a, stepMask[StateInit]))
		a.State = StateRTR
		there.ok(i.Modify(a, stepMask[StateRTR]))
		there.ok(i.Rename(Peer{Host: hostB, Incarnation: here.Incarnation(), QP: tgt.ref}))
		inis = append(inis, i)
	}
	ask := here.Pairs(hostA)
	if len(ask) != n || len(here.Pairs(hostB)) != 0 {
		t.Fatalf("%d pairs in a frame", len(ask))
	}
	if gone := there.Missing(hostB, ask); len(gone) != 0 {
		t.Errorf("%d are missing", len(gone))
	}
	if gone := here.Missing(hostA, there.Pairs(hostB)); len(gone) != 0 {
		t.Errorf("%d targets are missing", len(gone))
	}
	there.ok(inis[7].Destroy(ctx))
	inis[8].Fail(EventLastWQE, ErrPeerGone)
	there.ok(inis[9].Modify(Attr{State: StateReset}, MaskState)) // another generation
	gone := there.Missing(hostB, ask)
	if len(gone) != 3 {
		t.Errorf("%v are missing", gone)
	}
	if n := here.PeerGone(hostA, gone...); n != 3 || here.Stats().PeerGone != 3 {
		t.Errorf("ended %d, %+v", n, here.Stats())
	}
	// Who is connected with somebody else is not there for the one who asks.
	if gone := there.Missing(hostA, ask[:1]); len(gone) != 1 {
		t.Error("answered another host")
	}
}

func TestXRCREQ38AskingChangesNothing(t *testing.T) {
	g, p := oneProcess(t)
	q := p.srq(4)
	posted(t, q, 2)
	for n := range uint32(100) {
		p.up(peer(n))
	}
	tgt, _ := p.up(peer(100))
	stats, info, queue := g.Stats(), tgt.Info(), q.Query()
	for range 1000 {
		pairs := g.Pairs(hostA)
		mirrored := []Pair{{Ours: pairs[0].Theirs, Theirs: pairs[0].Ours}, {Theirs: Ref{KindTarget, 0xFFFFFF, 1}}, {Theirs: Ref{KindSRQ, 1, 1}}}
		if gone := g.Missing(hostA, mirrored); len(gone) != 2 {
			t.Fatalf("missing: %v", gone)
		}
	}
	if g.Stats() != stats || tgt.Info() != info || q.Query() != queue {
		t.Errorf("%+v\n%+v", g.Stats(), stats)
	}
	g.events(p.Session)
}

// hostPair is an initiator and a target whose connection may be lost.
type hostPair struct {
	*rig
	tgt *Target
	ini *Initiator
}

func newPair(t *testing.T, c Config) *hostPair {
	g := newRig(t, c)
	p := g.process("p", g.file("job"))
	i := p.initiator()
	from := Peer{Host: hostA, Incarnation: incarnationA, QP: i.Ref()}
	r := p.target()
	g.ok(errOf(p.EnsureConnected(p.dom, r.Number, upAttr(from))))
	tgt, err := g.Target(r)
	g.ok(err)
	g.ok(tgt.Rename(from))
	g.ok(tgt.Attach(&conn{}))
	a := upAttr(from)
	a.Host, a.DestQPN = hostB, r.Number
	g.climb(i, a, StateInit, StateRTR, StateRTS)
	g.ok(i.Rename(Peer{Host: hostB, Incarnation: g.Incarnation(), QP: r}))
	g.ok(i.Attach(&conn{}))
	return &hostPair{rig: g, tgt: tgt, ini: i}
}

func (h *hostPair) cut() {
	h.Helper()
	h.ok(h.tgt.Suspend(h.clk.now()))
	h.ok(h.ini.Suspend(h.clk.now()))
}

func (h *hostPair) resume() {
	h.Helper()
	to := Peer{Host: hostB, Incarnation: h.Incarnation(), QP: h.tgt.Info().Ref}
	h.ok(h.tgt.Resume(h.clk.now(), &conn{}, h.tgt.Info().Peer))
	h.ok(h.ini.Resume(h.clk.now(), &conn{}, to))
}

// Both ends go on where they were: under their names, in their states. Which messages came is
// for the transport to find out, and in its test of the same requirement.
func TestXRCREQ37EveryMessageOnceAcrossLostConnections(t *testing.T) {
	t.Parallel()
	h := newPair(t, Config{Grace: 10 * time.Second})
	tgt := h.tgt.Info()
	ini, err := h.ini.Query()
	h.ok(err)
	for range 100 {
		h.cut()
		h.clk.advance(8 * time.Second) // 80 % of grace
		if next := h.Expire(h.clk.now()); !next.Equal(h.clk.now().Add(2 * time.Second)) {
			t.Fatalf("next at %v, now %v", next, h.clk.now())
		}
		h.resume()
	}
	if now, err := h.ini.Query(); err != nil || now != ini || h.tgt.Info() != tgt {
		t.Errorf("%+v, %+v, %v", now, h.tgt.Info(), err)
	}
	h.events(h.ini.session) // nobody heard of any of it
	if s := h.Stats(); s.Suspended != 0 {
		t.Errorf("%+v", s)
	}
}

func TestXRCREQ37WhatEndsASuspendedQueuePair(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		do    func(h *hostPair) error
		err   error
		cause error // nil: it is still suspended
	}{
		{"grace is over", func(h *hostPair) error {
			h.clk.advance(30 * time.Second)
			h.Expire(h.clk.now())
			return nil
		}, nil, ErrGrace},
		{"not quite", func(h *hostPair) error {
			h.clk.advance(30*time.Second - 1)
			h.Expire(h.clk.now())
			return nil
		}, nil, nil},
		{"resumed too late", func(h *hostPair) error {
			h.clk.advance(30 * time.Second)
			return h.tgt.Resume(h.clk.now(), &conn{}, h.tgt.Info().Peer)
		}, ErrGrace, ErrGrace},
		{"another incarnation resumes", func(h *hostPair) error {
			from := h.tgt.Info().Peer
			from.Incarnation++
			return h.tgt.Resume(h.clk.now(), &conn{}, from)
		}, ErrIncarnation, ErrIncarnation},
		{"another incarnation is connected", func(h *hostPair) error {
			h.HostUp(hostA, incarnationA+1)
			return nil
		}, nil, ErrIncarnation},
		{"another queue pair resumes", func(h *hostPair) error {
			from := h.tgt.Info().Peer
			from.QP.Generation++
			return h.tgt.Resume(h.clk.now(), &conn{}, from)
		}, ErrStale, nil},
		{"another host resumes", func(h *hostPair) error {
			from := h.tgt.Info().Peer
			from.Host = hostB
			return h.tgt.Resume(h.clk.now(), &conn{}, from)
		}, ErrStale, nil},
		{"the peer says it is gone", func(h *hostPair) error {
			h.PeerGone(hostA, h.ini.Ref())
			return nil
		}, nil, ErrPeerGone},
		{"suspended twice", func(h *hostPair) error { return h.tgt.Suspend(h.clk.now()) }, ErrState, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newPair(t, Config{})
			h.cut()
			h.want(c.do(h), c.err)
			i := h.tgt.Info()
			switch {
			case c.cause == nil:
				if !i.Suspended || i.Attr.State != StateRTR {
					t.Errorf("%+v", i)
				}
				h.resume()
			case i.Cause != c.cause || i.Attr.State != StateError:
				t.Errorf("%+v", i)
			}
		})
	}
	h := newPair(t, Config{})
	h.want(h.tgt.Resume(h.clk.now(), &conn{}, h.tgt.Info().Peer), ErrState) // it is not suspended
}

func TestXRCREQ48AnotherIncarnationIsAnotherLife(t *testing.T) {
	g := parallelRig(t, Config{})
	p, _, _ := g.advertised("p", g.file("job"), serviceID)
	same(t, "ended", g.HostUp(hostA, incarnationA), 0)
	_, tgt := g.connected(request(peer(1), serviceID))
	plain, c := p.up(Peer{Host: hostA, QP: Ref{Number: firstInitiator + 2}}) // nothing said of incarnations
	_, elsewhere := p.up(Peer{Host: hostB, QP: Ref{Number: firstInitiator + 2}})
	if n := g.HostUp(hostA, incarnationA); n != 0 || plain.Info().Peer.Incarnation != incarnationA {
		t.Errorf("the same again: %d, %+v", n, plain.Info().Peer)
	}
	stale := request(peer(3), serviceID)
	stale.From.Incarnation--
	if _, st := g.Connect(stale); st != StatusNotReady {
		t.Errorf("a request of another life: %v", st)
	}
	same(t, "ended", g.HostUp(hostA, incarnationA+1), 2)
	g.ended(c, ErrIncarnation)
	g.alive(elsewhere)
	if i := tgt.Info(); i.Attr.State != StateError || i.Cause != ErrIncarnation {
		t.Errorf("%+v", i)
	}
	g.events(p.Session, EventQPFatal, EventLastWQE, EventQPFatal, EventLastWQE)
	if _, st := g.Connect(request(peer(1), serviceID)); st != StatusNotReady {
		t.Errorf("the old life asks: %v", st)
	}
}

func TestXRCREQ48SessionsHearThatTheDeviceIsGone(t *testing.T) {
	g := parallelRig(t, Config{})
	p, q, _ := g.advertised("p", g.file("job"), serviceID)
	tgt, c := p.up(peer(1))
	i := p.initiator()
	if other := newRig(t, Config{Seed: 99}); other.Incarnation() == g.Incarnation() {
		t.Error("two lives with one incarnation")
	}
	g.ok(g.Device.Close())
	g.want(g.Device.Close(), ErrClosed)
	g.ended(c, ErrClosed)
	g.events(p.Session, EventDeviceFatal)
	g.want(g.send(tgt, q.Num()), ErrNotReady)
	g.want(errOf(p.CreateTarget(TargetAttr{Domain: p.dom})), ErrClosed)
	g.want(errOf(g.NewSession(SessionConfig{})), ErrClosed)
	if _, st := g.Lookup(serviceID, netip.Addr{}); st != StatusNotReady {
		t.Errorf("lookup: %v", st)
	}
	g.ok(i.Destroy(ctx)) // objects can be put away all the same
	g.ok(q.Close(ctx))
	g.ok(p.Session.Close(ctx))
}
