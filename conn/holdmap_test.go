package conn

import (
	"slices"
	"testing"

	"github.com/rds-go/rds/internal/invariants"
	"github.com/rds-go/rds/internal/wire"
)

// mapped has the core take a congestion map of the peer that marks ports.
func (o *opBench) mapped(ports ...uint16) {
	o.t.Helper()
	var m wire.CongestionMap
	for _, port := range ports {
		m.Set(port)
	}
	h := wire.Header{Flags: wire.FlagCongestion, Length: wire.CongestionMapSize}
	o.HandleControl(epochTime, 0, &h, m[:])
	o.check()
}

// A congestion map holds back what is queued for the ports it marks and was not
// picked; messages to other ports pass. The messages follow in order when a later
// map clears the port.
func TestMapHoldsBackWhatIsQueued(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	o.sendTo(5000, nil)
	o.fill(opSize) // picked: it is under way
	for _, port := range []uint16{5000, 5001, 5000, 5002, 5001} {
		o.sendTo(port, nil)
	}
	o.mapped(5000, 5002)
	o.wrote(opSize)
	o.sendTo(5000, nil) // admitted before the map came
	o.wrotePorts(0, 5001, 5001)
	o.idle()
	o.ack()
	o.fates(Fate{Token: 1}, Fate{Token: 3}, Fate{Token: 6})
	if n := o.Counters().Held; n != 4 || o.HeldBytes(0) != 4*opSize {
		t.Errorf("%d messages, %d bytes were held back", n, o.HeldBytes(0))
	}
	o.TakeActions(nil)
	o.mapped(5002)
	o.acts(Action{Kind: Transmit}, Action{Kind: WakeAll})
	o.wrotePorts(0, 5000, 5000, 5000)
	o.mapped(5000)
	o.wrotePorts(0, 5002)
	o.end(2, 4, 7, 5)
}

// The map is forgotten with the last link. What it held back has the core ask
// for a link, and is written on that link until its map comes.
func TestMapForgottenFreesWhatWasHeld(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	o.mapped(5000)
	op := &Operation{}
	o.sendTo(5000, nil)
	o.sendTo(5000, op)
	o.idle()
	o.lose()
	if o.HeldBytes(0) != 0 || o.Congested(5000) {
		t.Errorf("%d bytes held back by a map that was forgotten", o.HeldBytes(0))
	}
	o.mapped(5000)
	o.wrotePorts(0)
	o.mapped()
	o.wrotePorts(0, 5000, 5000)
	o.end(1, 2)
}

// Cancel and Close end what a map holds back.
func TestEndOfWhatAMapHolds(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	o.sendTo(5000, nil)
	o.mapped(5000)
	o.sendTo(5000, &Operation{})
	o.sendTo(5001, nil)
	if n, b := o.Cancel(&o.acct, 5000, false); n != 2 || b != 20 {
		t.Errorf("%d messages, %d bytes canceled", n, b)
	}
	o.sendTo(5000, nil)
	o.Close()
	o.fates(Fate{Token: 1, Status: Canceled}, Fate{Token: 2, Status: Canceled}, Fate{Token: 3, Status: Canceled}, Fate{Token: 4, Status: Canceled})
	o.rest()
}

// A congested port does not use up the budget of the peer's other ports, and
// who met the budget hears of the room that the map makes.
func TestMapFreesBudget(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	o.cfg.Budget = 10 * (opSize + entryOverhead)
	for range 10 {
		o.sendTo(5000, nil)
	}
	if _, err := o.Enqueue(epochTime, 0, &Message{Dport: 5001}); err != ErrBudget {
		t.Fatalf("a full budget: %v", err)
	}
	o.TakeActions(nil)
	o.mapped(5000)
	if as := o.TakeActions(nil); !slices.Contains(as, Action{Kind: WakeAll}) {
		t.Errorf("nobody hears of the room: %v", as)
	}
	if !o.Admits(5001) || o.Admits(5000) {
		t.Error("the congested port takes up the budget of the others")
	}
	o.sendTo(5001, nil)
	o.wrotePorts(0, 5001)
}

// The host's own ports cannot be congested: probes would not be answered.
func TestMapOfHostPorts(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	o.mapped(wire.PortHost, wire.PortProbe)
	if o.remote != nil {
		t.Error("a map of nothing is kept")
	}
	o.HandleControl(epochTime, 0, &wire.Header{Sport: wire.PortProbe, Dport: wire.PortHost}, nil)
	o.check()
	o.fill(wire.HeaderSize)
	o.wrote(wire.HeaderSize)
}

// Maps that say the same again, or mark other ports, cost no allocation and move
// nothing.
func TestMapsCostNothing(t *testing.T) {
	o := newOpBench(t)
	o.mapped(5000)
	o.sendTo(5000, nil)
	o.sendTo(5001, nil)
	h := wire.Header{Flags: wire.FlagCongestion, Length: wire.CongestionMapSize}
	var same, other wire.CongestionMap
	same.Set(5000)
	other.Set(5000)
	other.Set(6000)
	var acts []Action
	n := testing.AllocsPerRun(100, func() {
		o.HandleControl(epochTime, 0, &h, same[:])
		o.HandleControl(epochTime, 0, &h, other[:])
		acts = o.TakeActions(acts[:0])
	})
	if n > 0 && !invariants.Enabled {
		t.Errorf("%v allocations for two maps", n)
	}
	if o.HeldBytes(0) != opSize || o.Counters().Held != 1 {
		t.Errorf("%d bytes held back, %d messages counted", o.HeldBytes(0), o.Counters().Held)
	}
}

func BenchmarkCongestionMap(b *testing.B) {
	o := newOpBench(b)
	for range 1000 {
		o.sendTo(5001, nil)
	}
	h := wire.Header{Flags: wire.FlagCongestion, Length: wire.CongestionMapSize}
	var maps [2]wire.CongestionMap
	maps[0].Set(5000)
	var acts []Action
	for i := 0; b.Loop(); i++ {
		o.HandleControl(epochTime, 0, &h, maps[i%2][:])
		acts = o.TakeActions(acts[:0])
	}
}
