package conn

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/invariants"
	"github.com/rds-go/rds/internal/wire"
)

// sendTo queues a message of 10 bytes to a port that may be held and returns its
// token.
func (o *opBench) sendTo(port uint16, op *Operation) uint64 {
	o.t.Helper()
	return o.queue(o.PathFor(4000), Message{Dport: port, Op: op, Admitted: true})
}

func (o *opBench) held(on bool, ports ...uint16) {
	o.t.Helper()
	o.Hold(ports, on)
	o.check()
}

// drain writes all that path i has to write, ends the operations it begins, and
// returns the destination ports of the messages in order.
func (o *opBench) drain(i int) (ports []uint16) {
	o.t.Helper()
	var written []byte
	for o.Fill(i, &o.b) {
		written = append(written, octets(&o.b)...)
		o.Wrote(i, all(&o.b))
		for _, b := range o.b.Ops {
			o.OpDone(i, b.Op, Success)
		}
		o.check()
	}
	last := uint64(0)
	for _, h := range headers(o.t, written) {
		if h.Sport != 4000 {
			continue
		}
		if h.Sequence <= last {
			o.t.Fatalf("number %d after %d", h.Sequence, last)
		}
		last = h.Sequence
		ports = append(ports, h.Dport)
	}
	return ports
}

func (o *opBench) wrotePorts(i int, want ...uint16) {
	o.t.Helper()
	if got := o.drain(i); !slices.Equal(got, want) {
		o.t.Fatalf("path %d: written to %v, not %v", i, got, want)
	}
}

// acts expects what the core asks for.
func (o *opBench) acts(want ...Action) {
	o.t.Helper()
	if got := o.TakeActions(nil); !slices.Equal(got, want) {
		o.t.Fatalf("actions %v, not %v", got, want)
	}
}

// To a held port a message is refused, unless it was admitted.
func TestHeldPortRefuses(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	o.held(true, 5000)
	if _, err := o.Enqueue(epochTime, 0, &Message{Dport: 5000}); !errors.Is(err, ErrCongested) {
		t.Errorf("%v", err)
	}
	if o.Admits(5000) || !o.Admits(5001) {
		t.Error("Admits does not tell")
	}
	if ready, err := o.Enqueue(epochTime, 0, &Message{Dport: 5000, Admitted: true}); ready || err != nil {
		t.Errorf("ready %v, %v", ready, err)
	}
	o.idle()
	o.held(false, 5000)
	if !o.Admits(5000) || !o.Ready(0) {
		t.Error("the port was let go")
	}
}

// Letting go wakes who waits for the port, and the transmitter if it had nothing
// to do; nothing else asks for anything.
func TestHoldActions(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	o.held(true, 5000, 5001)
	o.held(true, 5001)
	o.sendTo(5000, nil)
	o.sendTo(5001, nil)
	o.acts()
	o.held(false, 5002)
	o.acts()
	o.held(false, 5000)
	o.acts(Action{Kind: Transmit}, Action{Kind: WakeAll})
	o.held(false, 5001) // the transmitter has been told
	o.acts(Action{Kind: WakeAll})
	o.held(true, 5003)
	o.held(false, 5003)
	o.acts(Action{Kind: WakeAll})
	o.drain(0)
	o.ack()
	o.LinkFailed(o.link)
	o.TakeActions(nil)
	o.held(true, 5000)
	o.sendTo(5000, nil)
	o.held(false, 5000)
	o.acts(Action{Kind: WakeAll})
	o.Close()
	o.TakeActions(nil)
	o.held(true, 5000)
	o.held(false, 5000)
	o.acts()
}

// Operations that are held back are not begun, those that are not go on, and
// nothing that is said of one that is held back counts.
func TestHoldOfOperations(t *testing.T) {
	t.Parallel()
	for _, op := range []*Operation{{}, {Fence: true}, {Silent: true}, {Silent: true, Fence: true}} {
		o := newOpBench(t)
		first, other := &Operation{}, &Operation{}
		o.sendTo(5001, first)
		o.begin(first)
		o.sendTo(5000, op)
		o.sendTo(5001, other)
		o.sendTo(5000, nil)
		o.held(true, 5000)
		o.begin(other)
		o.idle()
		o.done(op, RemoteError) // it was not begun
		o.done(other, Success)
		o.done(first, Success)
		o.ack()
		o.fates(Fate{Token: 1}, Fate{Token: 3})
		o.held(false, 5000)
		o.begin(op)
		if op.Fence && !op.Silent {
			o.idle()
		}
		o.done(op, Success)
		o.drain(0)
		o.end(2, 4)
	}
}

// Reports have what is held back as what waits.
func TestHeldInReports(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	o.sendTo(5000, nil)
	o.sendTo(5001, nil)
	o.sendTo(5000, nil)
	queued, unsent := o.Queued(), o.Unsent(0)
	o.held(true, 5000)
	o.held(true, 5000, 5002)
	if o.Queued() != queued || o.Unsent(0) != unsent || o.HeldBytes(0) != 2*opSize || o.Unacked(0) != 0 {
		t.Errorf("%d queued, %d unsent, %d held back", o.Queued(), o.Unsent(0), o.HeldBytes(0))
	}
	if info := o.PathInfos()[0]; info.Unsent != 3 || info.Unacked != 0 {
		t.Errorf("%+v", info)
	}
	var ports []uint16
	for _, m := range o.Messages(false, 10) {
		ports = append(ports, m.Dport)
	}
	if !slices.Equal(ports, []uint16{5001, 5000, 5000}) || len(o.Messages(false, 2)) != 2 || len(o.Messages(true, 10)) != 0 {
		t.Errorf("messages to %v", ports)
	}
	o.held(false, 5000)
	o.held(true, 5000) // each counts once, however often it is held back
	if n := o.Counters().Held; n != 2 {
		t.Errorf("%d messages were held back", n)
	}
	if !o.Held(5000) || !o.Held(5002) || o.Held(5001) {
		t.Error("Held does not tell")
	}
}

// The host's own ports are not held: probes would not be answered. Pings of
// sockets are not answered while their port is held, and an answer that waits is
// held back.
func TestHoldOfPings(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	ping := func(port uint16) {
		o.HandleControl(epochTime, 0, &wire.Header{Sport: port, Dport: wire.PortHost}, nil)
		o.check()
	}
	o.held(true, wire.PortHost, wire.PortProbe)
	ping(wire.PortProbe)
	o.fill(wire.HeaderSize)
	o.wrote(wire.HeaderSize)
	ping(5000)
	o.held(true, 5000)
	o.idle()
	ping(5000)
	if c := o.Counters(); c.CongSendError != 1 || c.Held != 1 {
		t.Errorf("%+v", c)
	}
	o.held(false, 5000)
	o.fill(wire.HeaderSize)
	o.wrote(wire.HeaderSize)
	o.ack()
	o.rest()
}

// While a port is held messages to others allocate nothing, and when none is,
// nothing is kept.
func TestHoldCostsNothing(t *testing.T) {
	o := newOpBench(t)
	o.held(true, 5000)
	o.sendTo(5000, nil)
	m := &Message{Sport: 4000, Dport: 5001, Payload: make([]byte, 64), Account: &o.acct}
	run := func() {
		for range 100 {
			cycle(t, o.Conn, &o.b, m)
		}
	}
	run()
	if n := testing.AllocsPerRun(20, run); n > 0 && !invariants.Enabled {
		t.Errorf("%v allocations per 100 messages", n)
	}
	o.held(false, 5000)
	if o.holds != nil || o.paths[0].shelf.list != nil {
		t.Error("something is kept")
	}
	o.held(true, wire.PortProbe)
	if o.holds != nil {
		t.Error("something is kept for a port that is not held")
	}
}

// What is held back for one application is no reason to refuse others, who hear of the
// room that it makes; it counts again when it is let go.
func TestHeldIsNotChargedToOthers(t *testing.T) {
	t.Parallel()
	c := New(Config{Role: Connector, Budget: 4000})
	send := func(port uint16) error {
		_, err := c.Enqueue(time.Time{}, 0, &Message{Dport: port, Payload: make([]byte, 1000), Account: new(Account)})
		return err
	}
	for send(7) == nil {
	}
	if err := send(8); err != ErrBudget {
		t.Fatalf("a full budget: %v", err)
	}
	before := c.Queued()
	c.TakeActions(nil)
	c.Hold([]uint16{7}, true)
	if as := c.TakeActions(nil); !slices.ContainsFunc(as, func(a Action) bool { return a.Kind == WakeAll }) {
		t.Errorf("nobody hears that there is room: %v", as)
	}
	n := 0
	for ; send(8) == nil; n++ {
	}
	if n < 3 || c.Queued() < 2*before-1200 {
		t.Errorf("%d messages beside what is held, %d bytes queued, %d before", n, c.Queued(), before)
	}
	c.Hold([]uint16{7}, false)
	if err := send(8); err != ErrBudget || c.Admits(8) {
		t.Errorf("with all of it: %v", err)
	}
	c.Close()
	if c.Queued() != 0 || c.shelved != 0 {
		t.Errorf("%d, %d bytes left", c.Queued(), c.shelved)
	}
}

// Close cancels what is held back.
func TestCloseOfHeld(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	o.held(true, 5000)
	o.sendTo(5000, &Operation{})
	o.sendTo(5000, nil)
	o.Close()
	o.fates(Fate{Token: 1, Status: Canceled}, Fate{Token: 2, Status: Canceled})
	o.rest()
}

// A link without operations ends those that are held back, too.
func TestPlainLinkOfHeld(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	o.held(true, 5000)
	o.sendTo(5000, nil)
	o.sendTo(5000, &Operation{})
	o.Plain(0)
	o.check()
	o.fates(Fate{Token: 2, Status: OtherError})
	o.held(false, 5000)
	o.wrotePorts(0, 5000)
	o.end(1)
}
