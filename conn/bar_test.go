package conn

import (
	"net/netip"
	"slices"
	"testing"
	"time"
)

// dialed counts the dials asked for.
func dialed(c *Conn) int { return len(dials(c.TakeActions(nil))) }

// What a barred peer was sent ends with what is known of it: acknowledged messages with
// success, those of which something was written with dropped, the rest was not delivered.
func TestBarEndsWhatIsQueued(t *testing.T) {
	t.Parallel()
	c := newConn(t, Config{})
	up(t, c, 1)
	a := enqueue(t, c, 3, Message{Payload: make([]byte, 1000)})
	held := enqueue(t, c, 1, Message{Dport: 3, Payload: make([]byte, 1000)})
	c.Hold([]uint16{3}, true)
	var b Batch
	before := c.paths[0].written
	if !c.Fill(0, &b) {
		t.Fatal("nothing to write")
	}
	c.Bar()
	if n := closes(c, 1); n != 1 || c.State(0) != Disconnecting {
		t.Fatalf("the link is closed %d times, state %v", n, c.State(0))
	}
	if c.Wrote(0, take(&b, 1048+10, 0)); c.Fill(0, &b) {
		t.Error("something is picked for a barred peer")
	}
	if _, err := c.Enqueue(epochTime, 0, &Message{Sport: 1, Dport: 2, Account: a}); err != ErrBarred {
		t.Errorf("a message is taken: %v", err)
	}
	if !c.Admits(2) {
		t.Error("senders would wait rather than hear of it")
	}
	c.LinkClosed(epochTime, 1, before+1048)
	want := []Fate{{Account: a, Token: 1, Status: Success}, {Account: a, Token: 2, Status: Dropped}, {Account: a, Token: 3, Status: OtherError}, {Account: held, Token: 1, Status: OtherError}}
	if fates := c.TakeFates(nil); !slices.Equal(fates, want) {
		t.Errorf("fates %+v, want %+v", fates, want)
	}
	if n := a.Messages() + held.Messages(); n != 0 || c.Queued() != 0 {
		t.Errorf("%d messages, %d bytes are left", n, c.Queued())
	}
	checkConn(t, c)
}

// A barred peer is neither dialed nor taken, whichever side dials, until it is unbarred.
func TestBarredPeerGetsNoLink(t *testing.T) {
	t.Parallel()
	for _, connector := range []bool{true, false} {
		cfg := Config{}
		if !connector {
			cfg.Local, cfg.Remote = netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.1")
		}
		c := newConn(t, cfg)
		enqueue(t, c, 1, Message{})
		if dialed(c) != 1 {
			t.Fatal("nothing is dialed")
		}
		c.Bar()
		if f := c.TakeFates(nil); len(f) != 1 || f[0].Status != OtherError {
			t.Errorf("fates %v", f)
		}
		canceled := false
		for _, x := range c.TakeActions(nil) {
			canceled = canceled || x.Kind == CancelDial
		}
		if !canceled {
			t.Error("the dial goes on")
		}
		c.Dialed(epochTime, 0, 1) // all the same
		if closes(c, 1) != 1 || c.State(0) != Down {
			t.Errorf("the link that was dialed is used: %v", c.State(0))
		}
		c.Accepted(epochTime, 2, 1000)
		if closes(c, 2) != 1 || c.State(0) != Down {
			t.Errorf("an inbound link is taken: %v", c.State(0))
		}
		c.Connect(epochTime)
		c.Tick(epochTime.Add(time.Hour))
		if dialed(c) != 0 || !c.Deadline().IsZero() {
			t.Errorf("something is to be dialed, at %v", c.Deadline())
		}
		c.Unbar(epochTime)
		c.TakeActions(nil)
		enqueue(t, c, 1, Message{})
		if c.Tick(epochTime.Add(2 * time.Hour)); dialed(c) == 0 && c.State(0) != Connecting {
			t.Errorf("nothing is dialed after Unbar: %v", c.State(0))
		}
		checkConn(t, c)
	}
}

// An operation that the link has when the peer is barred may have happened.
func TestBarWithOperations(t *testing.T) {
	t.Parallel()
	c := newConn(t, Config{})
	up(t, c, 1)
	enqueue(t, c, 2, Message{Op: &Operation{Silent: true}})
	var b Batch
	if !c.Fill(0, &b) || len(b.Ops) == 0 {
		t.Fatal("no operation")
	}
	c.Wrote(0, take(&b, 0, 1))
	c.Bar()
	c.LinkClosed(epochTime, 1, c.paths[0].written)
	f := c.TakeFates(nil)
	if len(f) != 2 || f[0].Token != 1 || f[0].Status != Dropped || f[1].Status != OtherError {
		t.Errorf("fates %v", f)
	}
	checkConn(t, c)
}
