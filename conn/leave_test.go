package conn

import (
	"testing"
	"time"
)

// A link that is left finishes the message that is partly written, picks no other one,
// and is closed once. What follows goes out on the next link, the first message not
// again if the final count covers it.
func TestLeave(t *testing.T) {
	t.Parallel()
	c := newConn(t, Config{})
	up(t, c, 1)
	a := enqueue(t, c, 2, Message{Payload: make([]byte, 1000)})
	var b Batch
	if !c.Fill(0, &b) {
		t.Fatal("nothing to write")
	}
	c.Leave(0)
	if n := closes(c, 1); n != 0 {
		t.Fatal("the link is closed during a write")
	}
	c.Wrote(0, take(&b, 10, 0))
	if n := closes(c, 1); n != 0 {
		t.Fatal("the link is closed inside a message")
	}
	if !c.Ready(0) || !c.Fill(0, &b) || b.Bytes != 48+1000-10 {
		t.Fatalf("%d bytes are to follow, not the rest of the message alone", b.Bytes)
	}
	c.Leave(0)
	if more := c.Wrote(0, all(&b)); more {
		t.Error("there is more to write on a link that is left")
	}
	if n := closes(c, 1); n != 1 || c.State(0) != Disconnecting {
		t.Fatalf("closed %d times, state %v", n, c.State(0))
	}
	if c.Fill(0, &b) {
		t.Error("something is picked for a link that is left")
	}
	if a := c.TakeActions(nil); len(a) > 0 || c.connector() && c.paths[0].dialing {
		t.Errorf("before the end: %v", a)
	}
	c.LinkClosed(epochTime.Add(time.Second), 1, c.paths[0].written)
	if f := c.TakeFates(nil); len(f) != 1 || f[0].Token != 1 || f[0].Status != Success {
		t.Errorf("fates %v", f)
	}
	c.Tick(epochTime.Add(time.Hour))
	c.Dialed(epochTime.Add(time.Hour), 0, 2)
	c.Leave(1) // a path without a link
	total := 0
	for c.Fill(0, &b) {
		total += b.Bytes
		c.Wrote(0, all(&b))
	}
	if a.Messages() != 1 || c.State(0) != Up || total < 1048 || total >= 2*1048+8192+48 {
		t.Errorf("%d messages, %v, %d bytes written", a.Messages(), c.State(0), total)
	}
	checkConn(t, c)
}

// An operation that has begun ends with Dropped when its link is left before it is
// done; one that waits goes on with the next link.
func TestLeaveWithOperations(t *testing.T) {
	t.Parallel()
	c := newConn(t, Config{})
	up(t, c, 1)
	enqueue(t, c, 1, Message{Op: &Operation{Silent: true}})
	var b Batch
	if !c.Fill(0, &b) || len(b.Ops) == 0 {
		t.Fatal("no operation")
	}
	enqueue(t, c, 1, Message{Op: &Operation{Silent: true}})
	c.Leave(0)
	c.Wrote(0, take(&b, 0, 1))
	if n := closes(c, 1); n != 1 {
		t.Fatalf("closed %d times", n)
	}
	c.LinkClosed(epochTime, 1, c.paths[0].written)
	if f := c.TakeFates(nil); len(f) != 1 || f[0].Token != 1 || f[0].Status != Dropped {
		t.Errorf("fates %v", f)
	}
	up(t, c, 2)
	if !c.Fill(0, &b) || len(b.Ops) == 0 {
		t.Error("the operation that waited is not shown on the next link")
	}
	checkConn(t, c)
}

// Close in the middle of a message: a peer that reads slowly leaves one partly written.
// Close cancels the message and its link takes no more, so nothing of it counts as
// begun any more, neither with a write under way nor without one.
func TestCloseWithAMessagePartlyWritten(t *testing.T) {
	t.Parallel()
	for _, writing := range []bool{false, true} {
		o := newOpBench(t)
		o.send(nil)
		o.send(nil)
		o.fill(2 * opSize)
		o.wrote(opSize + 7) // the link is full within the second message
		if writing {
			o.fill(opSize - 7)
		}
		o.Close()
		if writing {
			o.fates()
			o.wrote(3)
		}
		o.check()
		o.fates(Fate{Token: 1, Status: Canceled}, Fate{Token: 2, Status: Canceled})
		if n, bytes := o.Cancel(&o.acct, 0, true); n != 0 || bytes != 0 {
			t.Errorf("%d messages, %d bytes canceled after Close", n, bytes)
		}
		o.check()
		o.LinkClosed(epochTime, o.link, 0)
		o.check()
		o.rest()
	}
}
