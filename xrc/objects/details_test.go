//go:build !live

package objects

import (
	"context"
	"testing"
	"time"

	"github.com/rds-go/rds/transport/iwarp"
)

// climb takes an initiator from state to state.
func (g *rig) climb(i *Initiator, a Attr, states ...State) {
	g.Helper()
	for _, s := range states {
		a.State = s
		g.ok(i.Modify(a, stepMask[s]))
	}
}

func TestCommunicationIsEstablishedOnceInEachLife(t *testing.T) {
	g, p := oneProcess(t)
	tgt, _ := p.up(peer(1))
	g.ok(tgt.Raise(EventCommEstablished, nil))
	g.ok(tgt.Raise(EventCommEstablished, nil))
	g.events(p.Session, EventCommEstablished)
	g.ok(p.ModifyTarget(p.dom, tgt.ref.Number, Attr{State: StateReset}, MaskState))
	g.ok(tgt.Raise(EventCommEstablished, nil)) // it is not in RTR
	g.events(p.Session)
	p.connect(tgt.Info().Ref, peer(1))
	g.ok(tgt.Raise(EventCommEstablished, nil))
	g.events(p.Session, EventCommEstablished)
	other, _ := p.up(peer(2))
	a := upAttr(peer(2))
	a.State = StateRTS
	g.ok(p.ModifyTarget(p.dom, other.ref.Number, a, MaskState|rtsMask))
	g.ok(other.Raise(EventCommEstablished, nil))
	g.events(p.Session)
}

// A connection that is lost is not ours to close; the one that takes its place is.
func TestConnectionsOfASuspendedTarget(t *testing.T) {
	t.Parallel()
	h := newPair(t, Config{})
	lost := &conn{}
	h.cut()
	h.want(h.tgt.Attach(lost), ErrState) // only Resume knows where to go on
	h.want(h.ini.Attach(lost), ErrState)
	if i := h.tgt.Info(); i.Connected || !i.Suspended {
		t.Errorf("%+v", i)
	}
	from := h.tgt.Info().Peer
	back, backI := &conn{}, &conn{}
	h.ok(h.tgt.Resume(h.clk.now(), back, from))
	h.ok(h.ini.Resume(h.clk.now(), backI, Peer{Host: hostB, Incarnation: h.Incarnation(), QP: h.tgt.Info().Ref}))
	h.PeerGone(hostA, h.ini.Ref())
	h.ended(back, ErrPeerGone)
	h.PeerGone(hostB, h.tgt.Info().Ref)
	h.ended(backI, ErrPeerGone)
	h.events(h.ini.session, EventQPFatal, EventLastWQE, EventQPFatal)

	p := h.process("p", h.file("another job"))
	tgt, c := p.up(peer(5))
	h.ok(tgt.Suspend(h.clk.now()))
	h.ok(tgt.Raise(EventQPFatal, ErrPeerGone))
	h.alive(c) // nobody's to close: it is gone
}

func TestMissingComparesBothEnds(t *testing.T) {
	g, p := oneProcess(t)
	tgt, _ := p.up(peer(1))
	old := tgt.ref
	old.Generation--
	initiator := old
	initiator.Kind = KindInitiator
	for _, c := range []struct {
		name string
		pair Pair
		gone bool
	}{
		{"as it is", Pair{peer(1).QP, tgt.ref}, false},
		{"another generation of ours", Pair{peer(1).QP, old}, true},
		{"another kind", Pair{peer(1).QP, initiator}, true},
		{"connected with another", Pair{peer(2).QP, tgt.ref}, true},
	} {
		if gone := g.Missing(hostA, []Pair{c.pair}); len(gone) == 1 != c.gone || c.gone && gone[0] != c.pair.Theirs {
			t.Errorf("%s: %v", c.name, gone)
		}
	}
}

// Nothing says that the clock never goes back.
func TestDeadlinesKeepTheirOrder(t *testing.T) {
	g, p := oneProcess(t)
	late, _ := p.up(peer(1))
	early, _ := p.up(peer(2))
	now := g.clk.now()
	g.ok(late.Suspend(now.Add(5 * time.Second)))
	g.ok(early.Suspend(now))
	if next := g.Expire(now.Add(30 * time.Second)); !next.Equal(now.Add(35 * time.Second)) {
		t.Errorf("next after %v", next.Sub(now))
	}
	if early.State() != StateError || late.State() != StateRTR {
		t.Errorf("%v, %v", early.State(), late.State())
	}
}

func TestOldestDeadMayBeATombstone(t *testing.T) {
	g, p := oneProcess(t)
	start := g.clk.now()
	for n := range uint32(2) {
		tgt, _ := p.up(peer(n))
		g.ok(tgt.Raise(EventQPFatal, ErrPeerGone))
		g.clk.advance(40 * time.Second)
		g.Expire(g.clk.now())
	}
	if s := g.Stats(); s.Tombstones != 1 || s.Targets[StateError] != 2 || !s.OldestDead.Equal(start) {
		t.Errorf("%+v", s)
	}
}

func TestConnectWithoutHostUp(t *testing.T) {
	g := parallelRig(t, Config{})
	g.advertised("p", g.file("job"), serviceID)
	_, old := g.connected(request(peer(1), serviceID))
	r := request(peer(1), serviceID)
	r.From.Incarnation++
	r.From.QP.Generation -= 5 // of another life: neither older nor newer
	reply, _ := g.connected(r)
	if reply.Reused || old.State() != StateError {
		t.Errorf("%+v", reply)
	}
}

func TestOneMoreServiceBehindATargetIsARegistration(t *testing.T) {
	g := parallelRig(t, Config{Limits: Limits{Registrations: 1}})
	f := g.file("job")
	g.advertised("p", f, 1)
	other, _, _ := g.advertised("other", f, 2)
	_, tgt := g.connected(request(peer(1), 1))
	busy := other.target()
	if _, st := g.Connect(request(peer(1), 2)); st != StatusBusy || tgt.Info().Registered != 1 {
		t.Errorf("%v, %+v", st, tgt.Info())
	}
	g.ok(other.Unregister(ctx, other.dom, busy.Number))
	g.connected(request(peer(1), 2))
	same(t, "registered", tgt.Info().Registered, 2)
}

// While it waits for the session to acknowledge an event, a service that is being
// withdrawn finds nobody any more.
func TestWithdrawStopsFirst(t *testing.T) {
	g, p := oneProcess(t)
	v, err := p.Advertise(ServiceAttr{ID: 5, Domain: p.dom})
	g.ok(err)
	g.want(p.dom.Close(), ErrBusy) // a service is a reference
	_, tgt := g.connected(request(peer(1), 5))
	g.tell(tgt)
	e, err := p.NextEvent(ctx)
	g.ok(err)
	soon, cancel := context.WithCancel(ctx)
	cancel()
	g.want(v.Withdraw(soon), ErrUnacked)
	if _, st := g.Connect(request(peer(2), 5)); st != StatusNotFound {
		t.Errorf("connected: %v", st)
	}
	g.ok(p.Ack(e))
	g.ok(v.Withdraw(ctx))
	g.ok(p.dom.Close())
}

func TestADestroyedQueueLeavesNoEvents(t *testing.T) {
	g, p := oneProcess(t)
	tgt, _ := p.up(peer(1))
	q := p.srq(1)
	posted(t, q, 1)
	n := q.Num()
	q.Fail()
	g.ok(q.Close(ctx))
	g.want(g.send(tgt, n), ErrUnknownSRQ)
	g.want(q.Close(ctx), ErrForeign)
	g.want(errOf(q.PostReceive(iwarp.ReceiveRequest{})), iwarp.ErrClosed)
	g.events(p.Session)
}

func TestDrainedIsToldOnce(t *testing.T) {
	g, p := oneProcess(t)
	i := p.initiator()
	g.climb(i, upAttr(peer(1)), StateInit, StateRTR, StateRTS)
	i.Drained() // not in SQD
	g.ok(i.Modify(Attr{State: StateSQD, SQDNotify: true}, MaskState|MaskSQDNotify))
	i.Drained()
	i.Drained()
	g.events(p.Session, EventSQDrained)
	g.ok(i.Modify(Attr{State: StateRTS}, MaskState))
	g.ok(i.Modify(Attr{State: StateSQD}, MaskState)) // asks for nothing
	i.Drained()
	g.events(p.Session)
}

// The list of numbers at rest does not grow with the number of allocations.
func TestRestingNumbersAreFew(t *testing.T) {
	t.Parallel()
	var n numbers
	n.init(1, 1<<20, &Config{Rest: time.Hour, RestCount: 1000})
	now := time.Unix(1, 0)
	for range 100000 {
		number, ok := n.take(now)
		if !ok {
			t.Fatal("used up")
		}
		n.give(number, now)
	}
	if n.atRest() != 1001 || len(n.resting) > 5000 || n.next != 1002 {
		t.Errorf("%d at rest in a list of %d, %d numbers were used", n.atRest(), len(n.resting), n.next-1)
	}
}

func TestXRCREQ19RestartsAreFewAndWaitLonger(t *testing.T) {
	g := parallelRig(t, Config{RestartWait: 8 * time.Millisecond, Restarts: 10})
	p := g.process("p", g.file("job"))
	i := p.initiator()
	seen := map[Ref]bool{i.Ref(): true}
	up := func() {
		g.climb(i, upAttr(peer(1)), StateInit, StateRTR)
	}
	for range 2 {
		for n := range 10 {
			g.ok(i.Modify(Attr{State: StateInit}, MaskState|initMask))
			wait, err := i.Restart()
			g.ok(err)
			if most := 8 * time.Millisecond << min(n, 6); wait < most/2 || wait > most {
				t.Errorf("restart %d waits %v", n, wait)
			}
			if r := i.Ref(); seen[r] || i.State() != StateReset {
				t.Errorf("%v, %v", r, i.State())
			}
			seen[i.Ref()] = true
		}
		up()
		_, err := i.Restart()
		g.want(err, ErrRestarts)
		if i.State() != StateRTR {
			t.Errorf("state %v", i.State())
		}
		c := &conn{}
		g.ok(i.Attach(c))
		_, err = i.Restart() // it was connected: the first of another series
		g.ok(err)
		g.ended(c, ErrReset)
		up()
		g.ok(i.Attach(&conn{}))
		g.ok(i.Modify(Attr{State: StateReset}, MaskState))
	}
	g.ok(i.Destroy(ctx))
	g.want(errOf(i.Restart()), ErrForeign)
}
