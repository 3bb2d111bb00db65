package conn

import (
	"net/netip"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

// The last message in front of the barrier that other paths wait for may end in several ways
// without having been written. The probe that lifts the barrier follows all the same.
func TestBarrierBehindAnOperationThatDoesNotBegin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		op             Operation
		again, refused bool
	}{
		{name: "begun", op: Operation{Silent: true}},
		{name: "not now", again: true},
		{name: "refused", refused: true},
		{name: "of another generation", op: Operation{Epoch: 9}},
	} {
		o := newPathsBench(t)
		o.cfg.Begins = func(int, *Operation) bool { return !c.again }
		o.sendTo(5000, &c.op)
		o.shake(MaxPaths, 7)
		o.sendTo(5001, nil) // on another path
		o.open(pathOf)
		if o.barrier == 0 {
			t.Fatal("no barrier")
		}
		for range 10 {
			switch {
			case !o.Fill(0, &o.b): // or what was passed by
			case c.refused && len(o.b.Ops) > 0:
				o.Wrote(0, transport.Taken{})
				o.OpRefused(o.b.Ops[0].Op)
			default:
				o.Wrote(0, all(&o.b))
			}
		}
		if o.fence == 0 {
			t.Errorf("%s: no probe was sent that lifts the barrier", c.name)
		}
	}
}

// An operation is refused whose message, when Wrote was called, went to path 0 and was held
// back there.
func TestRefusedOperationThatHasMigrated(t *testing.T) {
	t.Parallel()
	o := newPathsBench(t)
	o.shake(MaxPaths, 7)
	o.open(pathOf)
	for range 3 {
		o.queue(0, Message{Dport: 5001})
	}
	op := &Operation{Epoch: o.Epoch()}
	o.sendTo(5000, op)
	if !o.Fill(pathOf, &o.b) || len(o.b.Ops) != 1 {
		t.Fatal("the operation is not shown")
	}
	o.held(true, 5000)
	o.shake(1, 7)
	o.Wrote(pathOf, transport.Taken{})
	o.check()
	o.OpRefused(op)
	o.check()
	o.fates(Fate{Token: 4, Status: OtherError})
	if n := o.HeldBytes(0); n != 0 {
		t.Errorf("%d bytes are held back", n)
	}
}

// A peer whose link states one generation after the other, while another link comes and goes
// that contradicts it, changes nothing that a write under way is showing.
func TestGenerationStatedDuringAWrite(t *testing.T) {
	t.Parallel()
	c := newConn(t, Config{Paths: MaxPaths, Local: netip.MustParseAddr("10.0.0.2"), Remote: netip.MustParseAddr("10.0.0.1")})
	says := func(i int, gen uint32) {
		h := wire.Header{Dport: wire.PortProbe}
		wire.Handshake{HasPaths: true, Paths: MaxPaths, Generation: gen, SourceIndex: true}.Put(&h.Extensions)
		c.Proved(epochTime, i)
		c.HandleControl(epochTime, i, &h, nil)
	}
	c.Accepted(epochTime, 1, 0)
	c.Meets(epochTime, 0, 7)
	written(c, 0)
	says(0, 7)
	written(c, 0)
	c.Accepted(epochTime, 2, 1)
	c.Meets(epochTime, 1, 8) // contradicts
	c.LinkClosed(epochTime, 1, 0)
	c.Accepted(epochTime, 3, 0)
	c.Meets(epochTime, 0, 8)
	written(c, 0)
	says(0, 8)
	written(c, 0)
	written(c, 1)
	c.Proved(epochTime, 1)
	a := new(Account)
	a.SetLimit(1 << 20)
	for k := range 3 {
		a.Charge(10)
		mustEnqueue(t, c, 1, &Message{Sport: 4000, Dport: 5000, Account: a, Token: uint64(k), Notify: true, Payload: make([]byte, 10)})
	}
	var b Batch
	c.Fill(1, &b)
	c.Wrote(1, take(&b, 5, 0))
	if !c.Fill(1, &b) {
		t.Fatal("nothing to write")
	}
	says(1, 9)
	c.LinkClosed(epochTime, 3, 0)
	checkConn(t, c)
	c.Wrote(1, all(&b))
	c.Acked(1, c.paths[1].written)
	checkConn(t, c)
	if f := c.TakeFates(nil); len(f) != 3 || f[0].Status != Success {
		t.Errorf("fates %v", f)
	}
}

// What waits behind an operation that the link has no room for is not picked: it may
// expire, or be held back.
func TestMessagesBehindAnOperationWithoutRoom(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	o.send(&Operation{})
	for range 5 {
		o.queue(0, Message{Dport: 5000, Deadline: epochTime.Add(time.Second)})
	}
	for range 3 {
		o.Fill(0, &o.b)
		o.Wrote(0, transport.Taken{})
	}
	o.Tick(epochTime.Add(time.Hour))
	if f := o.TakeFates(nil); len(f) != 5 || f[0].Status != Expired {
		t.Errorf("fates %v", f)
	}
}

// Fill shows as many operations as the link has shown to have room for, and some more.
func TestFillShowsAsManyOperationsAsTheLinkTakes(t *testing.T) {
	t.Parallel()
	for _, one := range []bool{false, true} {
		o := newOpBench(t)
		o.cfg.OneOperation = one
		for range 200 {
			o.send(&Operation{Silent: true})
		}
		for k, c := range []struct{ shown, taken int }{{1, 1}, {2, 2}, {4, 4}, {8, 3}, {3, 3}, {6, 0}, {1, 1}, {2, 2}} {
			if one {
				c.shown, c.taken = 1, min(1, c.taken)
			}
			if !o.Fill(0, &o.b) || len(o.b.Ops) != c.shown {
				t.Fatalf("one by one: %v; step %d: %d operations are shown, want %d", one, k, len(o.b.Ops), c.shown)
			}
			o.Wrote(0, take(&o.b, 0, c.taken))
		}
	}
}

// A path that the peer does not use any more may have a link of its last process, which
// brings its map late: that says nothing of the present process's ports.
func TestMapOfAnUnusedPathIsIgnored(t *testing.T) {
	t.Parallel()
	o := newPathsBench(t)
	o.shake(MaxPaths, 7)
	o.open(pathOf)
	o.shake(1, 8)
	var m wire.CongestionMap
	m.Set(5000)
	congested := wire.Header{Flags: wire.FlagCongestion, Length: wire.CongestionMapSize}
	o.HandleControl(epochTime, pathOf, &congested, m[:])
	if o.Congested(5000) {
		t.Error("the map is taken")
	}
	o.HandleControl(epochTime, 0, &congested, m[:])
	if !o.Congested(5000) {
		t.Error("the map of the path in use is not taken")
	}
}
