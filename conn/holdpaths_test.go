package conn

import (
	"slices"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/wire"
)

// shake has the peer answer the probe of path 0: it has so many paths.
func (o *opBench) shake(paths int, generation uint32) {
	o.t.Helper()
	h := wire.Header{Dport: wire.PortProbe}
	wire.Handshake{HasPaths: true, Paths: uint16(paths), Generation: generation, SourceIndex: true}.Put(&h.Extensions)
	o.HandleControl(epochTime, 0, &h, nil)
	o.check()
}

// open makes a link for path i, which writes to these ports at once.
func (o *opBench) open(i int, ports ...uint16) {
	o.t.Helper()
	p := &o.paths[i]
	if p.state == Down {
		p.must(Connecting)
	}
	o.link++
	o.Dialed(epochTime, i, o.link)
	o.Proved(epochTime, i)
	o.wrotePorts(i, ports...)
}

// newPathsBench is a bench whose path 0 is up, before the handshake that settles
// how many paths there are.
func newPathsBench(t testing.TB) *opBench {
	o := &opBench{Conn: newConn(t, Config{Paths: MaxPaths}), t: t, link: 1}
	o.acct.SetLimit(1 << 30)
	up(t, o.Conn, 1)
	o.Acked(0, o.paths[0].written)
	return o
}

// pathOf is where messages of port 4000 go with 8 paths.
const pathOf = 1

// What was held back before the handshake goes where the messages after it go,
// in order; and path 0, where nothing is left, keeps nobody waiting.
func TestHeldMessagesFollowTheHandshake(t *testing.T) {
	t.Parallel()
	for _, picked := range []bool{false, true} {
		o := newPathsBench(t)
		if picked { // the peer must have this one first
			o.sendTo(5000, nil)
			o.fill(opSize)
		}
		o.held(true, 5000)
		first := o.sendTo(5000, &Operation{})
		if picked {
			o.wrote(opSize)
		}
		o.shake(MaxPaths, 7)
		if i := o.PathFor(4000); i != pathOf {
			t.Fatalf("path %d", i)
		}
		second := o.sendTo(5000, nil)
		o.sendTo(5001, nil)
		if picked {
			o.open(pathOf)
			o.held(false, 5000)
			o.wrotePorts(pathOf)
			o.TakeActions(nil)
			o.drain(0)
			o.shake(MaxPaths, 7) // the answer to the probe behind it
			o.acts(Action{Kind: Transmit, Path: pathOf})
			o.wrotePorts(pathOf, 5001, 5000, 5000)
		} else {
			o.open(pathOf, 5001)
			o.held(false, 5000)
			o.wrotePorts(pathOf, 5000, 5000)
		}
		for i := range o.paths {
			o.Acked(i, o.paths[i].written)
		}
		var ends []uint64
		for _, f := range o.TakeFates(nil) {
			if f.Status == Success && (f.Token == first || f.Token == second) {
				ends = append(ends, f.Token)
			}
		}
		if !slices.Equal(ends, []uint64{first, second}) {
			t.Errorf("messages ended as %v", ends)
		}
		o.rest()
		o.HandleControl(epochTime, 0, &wire.Header{Sport: 5000, Dport: wire.PortHost}, nil) // path 0 has memory of its own
		o.check()
	}
}

// What other paths wait for on path 0 is not held back: nor are they, by a port
// that takes nothing.
func TestHoldDoesNotHoldTheBarrier(t *testing.T) {
	t.Parallel()
	o := newPathsBench(t)
	o.sendTo(5000, nil)
	o.shake(MaxPaths, 7)
	o.held(true, 5000)
	if o.HeldBytes(0) != 0 {
		t.Fatal("path 0's message is held back, and other paths wait for it")
	}
	o.sendTo(5001, nil)
	o.open(pathOf)
	o.wrotePorts(pathOf)
	o.wrotePorts(0, 5000)
	o.shake(MaxPaths, 7)
	o.wrotePorts(pathOf, 5001)
}

// When the peer has one path after all, what had to stay in path 0's queue is
// held back, before what came later.
func TestHoldWhenTheBarrierFalls(t *testing.T) {
	t.Parallel()
	o := newPathsBench(t)
	o.sendTo(5000, nil)
	o.shake(MaxPaths, 7)
	o.held(true, 5000)
	o.sendTo(5000, nil) // on another path
	m := Message{Sport: 4000, Dport: 5000, Account: &o.acct, Token: 3, Notify: true, Admitted: true}
	o.acct.Charge(0)
	mustEnqueue(t, o.Conn, 0, &m) // as from a socket whose path is 0
	o.shake(1, 8)
	if o.HeldBytes(0) != 2*opSize+wire.HeaderSize || o.HeldBytes(pathOf) != 0 {
		t.Fatalf("%d bytes held back", o.HeldBytes(0))
	}
	o.drain(0)
	o.held(false, 5000)
	o.wrotePorts(0, 5000, 5000, 5000)
	o.end(1, 3, 2)
}

// Paths that are no longer used leave what they hold back to path 0, and what
// was numbered there is held back, too, for it gets another number.
func TestHeldMessagesMigrate(t *testing.T) {
	t.Parallel()
	o := newPathsBench(t)
	o.shake(MaxPaths, 7)
	o.open(pathOf)
	op := &Operation{Epoch: o.Epoch() + 1} // for the generation that comes
	o.sendTo(5000, nil)
	o.sendTo(5001, nil)
	if !o.Fill(pathOf, &o.b) {
		t.Fatal("nothing to write")
	}
	o.Wrote(pathOf, take(&o.b, 0, 0))
	o.held(true, 5000)
	o.sendTo(5000, op)
	o.sendTo(5001, nil)
	o.shake(1, 8)
	if o.HeldBytes(0) != 2*opSize || o.HeldBytes(pathOf) != 0 || op.path != 0 {
		t.Fatalf("%d bytes held back, %d on the other path; the operation is on %d", o.HeldBytes(0), o.HeldBytes(pathOf), op.path)
	}
	o.wrotePorts(0, 5001, 5001)
	o.Trim()
	o.held(false, 5000)
	o.wrotePorts(0, 5000, 5000)
	o.end(2, 4, 1, 3)
}

// A peer that has restarted gets what was held back: nobody has seen it.
func TestNewGenerationKeepsHeld(t *testing.T) {
	t.Parallel()
	o := newPathsBench(t)
	o.shake(1, 7)
	o.sendTo(5000, nil)
	o.drain(0)
	o.held(true, 5000)
	o.sendTo(5000, nil)
	o.shake(1, 8)
	o.lose()
	o.fates(Fate{Token: 1, Status: Dropped})
	o.drain(0)
	o.held(false, 5000)
	o.wrotePorts(0, 5000)
	o.end(2)
}

// A loss lets nothing go, and what is held back asks for the next link like
// anything else that waits.
func TestHeldMessagesWantALink(t *testing.T) {
	t.Parallel()
	for _, role := range []Role{Connector, Acceptor} { // one dials, the other knocks
		c := newConn(t, Config{Role: role})
		c.Hold([]uint16{5000}, true)
		mustEnqueue(t, c, 0, &Message{Sport: 4000, Dport: 5000, Admitted: true})
		if acts := c.TakeActions(nil); !slices.Equal(acts, []Action{{Kind: Dial}}) {
			t.Fatalf("role %d: actions %v", role, acts)
		}
		for range 3 {
			c.DialFailed(epochTime, 0)
			c.Tick(epochTime.Add(time.Minute))
			if acts := c.TakeActions(nil); !slices.Equal(acts, []Action{{Kind: Dial}}) {
				t.Fatalf("role %d: actions %v", role, acts)
			}
		}
		checkConn(t, c)
		if !c.Held(5000) || c.HeldBytes(0) == 0 {
			t.Error("something was let go")
		}
	}
}
