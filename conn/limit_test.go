package conn

import (
	"testing"
	"time"

	"github.com/rds-go/rds/internal/wire"
)

// sendBy queues a message of 10 bytes to a port with a time limit.
func (o *opBench) sendBy(port uint16, limit time.Duration, op *Operation) uint64 {
	o.t.Helper()
	return o.queue(o.PathFor(4000), Message{Dport: port, Op: op, Admitted: true, Deadline: epochTime.Add(limit)})
}

// tickUntil has the owner's timer go off when the core has asked for it, until the time is
// by.
func (o *opBench) tickUntil(by time.Duration) {
	o.t.Helper()
	for range 1000 {
		at := o.Deadline()
		if at.IsZero() || at.After(epochTime.Add(by)) {
			return
		}
		o.Tick(at)
		o.check()
	}
	o.t.Fatal("the core asks for ever")
}

// A message that waits for a peer that cannot be reached ends with Expired at its
// deadline. Others wait on.
func TestExpiredWithoutALink(t *testing.T) {
	t.Parallel()
	for _, role := range []Role{Connector, Acceptor} {
		o := &opBench{Conn: newConn(t, Config{Role: role}), t: t}
		o.acct.SetLimit(1 << 30)
		o.sendBy(5000, 300*time.Millisecond, nil)
		o.send(nil)
		o.sendBy(5000, 100*time.Millisecond, &Operation{})
		o.sendBy(5001, 200*time.Millisecond, nil)
		o.tickUntil(99 * time.Millisecond)
		o.fates()
		o.tickUntil(100*time.Millisecond + expireSlack)
		o.fates(Fate{Token: 3, Status: Expired})
		o.tickUntil(250 * time.Millisecond)
		o.fates(Fate{Token: 4, Status: Expired})
		o.tickUntil(time.Hour)
		o.fates(Fate{Token: 1, Status: Expired})
		if o.acct.Messages() != 1 || o.Counters().SendExpired != 3 {
			t.Errorf("%d messages are left, %d counted", o.acct.Messages(), o.Counters().SendExpired)
		}
		if !o.limits.next.IsZero() {
			t.Error("it goes on looking")
		}
	}
}

// What was picked in time goes on, whatever the link does with it; what lies behind it
// expires.
func TestPickedInTime(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	o.sendBy(5000, time.Millisecond, nil)
	o.fill(opSize)
	o.sendBy(5000, time.Millisecond, nil)
	o.tickUntil(time.Second)
	o.fates(Fate{Token: 2, Status: Expired})
	o.wrote(7)
	o.lose()
	o.tickUntil(time.Minute)
	o.fates()
	o.write(1)
	o.probe()
	o.end(1)
}

// Messages that are held back expire where they are, and those that go on keep order.
func TestExpiredWhileHeld(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	o.held(true, 5000)
	o.sendBy(5000, time.Second, nil)
	o.sendBy(5000, time.Millisecond, &Operation{})
	o.sendTo(5000, nil)
	o.sendBy(5000, time.Millisecond, nil)
	o.tickUntil(100 * time.Millisecond)
	o.fates(Fate{Token: 2, Status: Expired}, Fate{Token: 4, Status: Expired})
	o.held(false, 5000)
	o.wrotePorts(0, 5000, 5000)
	o.tickUntil(time.Minute)
	o.end(1, 3)
}

// Other paths wait for a message on path 0 that expires: nothing is left to wait for.
func TestExpiredInFrontOfTheBarrier(t *testing.T) {
	t.Parallel()
	o := newPathsBench(t)
	o.sendBy(5000, time.Millisecond, nil)
	o.shake(MaxPaths, 7)
	o.sendTo(5000, nil)
	o.open(pathOf)
	o.TakeActions(nil)
	o.tickUntil(10 * time.Millisecond)
	o.fates(Fate{Token: 1, Status: Expired})
	o.acts(Action{Kind: Transmit, Path: 0})
	o.drain(0)
	o.shake(MaxPaths, 7)
	o.wrotePorts(pathOf, 5000)
	o.Acked(pathOf, o.paths[pathOf].written)
	o.fates(Fate{Token: 2})
	o.rest()
}

// A message that moves from a path which is given up keeps its limit, unless it was
// picked.
func TestExpiredAfterMigration(t *testing.T) {
	t.Parallel()
	o := newPathsBench(t)
	o.shake(MaxPaths, 7)
	o.sendBy(5000, time.Second, nil)
	o.sendBy(5000, 10*time.Second, nil)
	o.shake(1, 8) // their path never had a link
	o.tickUntil(2 * time.Second)
	o.fates(Fate{Token: 1, Status: Expired})
	o.tickUntil(time.Minute)
	o.fates(Fate{Token: 2, Status: Expired})
	o.rest()
}

// Canceled messages have had their fate, and so have those of a core that is closed.
func TestExpiredAfterTheEnd(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	o.sendBy(5000, time.Millisecond, nil)
	o.fill(opSize)
	o.sendBy(5000, time.Millisecond, nil)
	o.Cancel(&o.acct, 0, true)
	o.tickUntil(time.Second)
	o.fates(Fate{Token: 1, Status: Canceled}, Fate{Token: 2, Status: Canceled})
	o.wrote(opSize)
	o.sendBy(5000, time.Hour, nil)
	o.Close()
	o.tickUntil(time.Hour)
	o.fates(Fate{Token: 3, Status: Canceled})
	o.rest()
}

// However many deadlines pass one after the other, looking for them takes little: each
// look is followed by a pause that grows with what waits.
func TestExpiryIsBounded(t *testing.T) {
	t.Parallel()
	c := newConn(t, Config{})
	const n = 20_000
	for i := range n {
		m := Message{Sport: 4000, Dport: 5000, Deadline: epochTime.Add(time.Duration(i) * 10 * time.Microsecond)}
		mustEnqueue(t, c, 0, &m)
	}
	ticks := 0
	for !c.limits.next.IsZero() {
		at := c.limits.next
		c.Tick(at)
		ticks++
		passed := int(at.Sub(epochTime) / (10 * time.Microsecond))
		if left := int(c.paths[0].q.len()); left > n-min(passed, n) {
			t.Fatalf("at %v %d messages are left", at.Sub(epochTime), left)
		}
	}
	if ticks > 150 || c.Queued() != 0 { // 200 ms
		t.Errorf("%d looks, %d bytes left", ticks, c.Queued())
	}
}

// Messages without a limit are never looked through.
func TestNoLimitNoLook(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	o.sendTo(5000, nil)
	if !o.limits.next.IsZero() {
		t.Error("something is to be looked for")
	}
	o.write(1)
	o.ack()
	o.fates(Fate{Token: 1})
	o.rest()
}

// A message whose deadline has passed when it comes is not queued, be its path up or not,
// and ends as others do.
func TestExpiredBeforeItIsQueued(t *testing.T) {
	t.Parallel()
	down := &opBench{Conn: newConn(t, Config{}), t: t}
	down.acct.SetLimit(1 << 30)
	for _, o := range []*opBench{newOpBench(t), down} {
		o.TakeActions(nil)
		o.sendBy(5000, 0, &Operation{})
		o.sendBy(5000, -time.Hour, nil)
		o.fates(Fate{Token: 1, Status: Expired}, Fate{Token: 2, Status: Expired})
		if o.acct.Messages() != 0 || o.Queued() != 0 || o.Counters().SendExpired != 2 {
			t.Errorf("%d messages of %d bytes are left, %d counted", o.acct.Messages(), o.Queued(), o.Counters().SendExpired)
		}
		o.acts()
	}
}

// A deadline that lies centuries ahead does not hide those that others have.
func TestDeadlineCenturiesAhead(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	m := Message{Sport: 4000, Dport: 5000, Account: &o.acct, Token: 1, Notify: true, Deadline: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
	o.last++
	o.acct.Charge(0)
	mustEnqueue(t, o.Conn, 0, &m)
	o.sendBy(5000, time.Hour, nil)
	o.sendBy(5000, time.Second, nil)
	o.tickUntil(time.Minute)
	o.fates(Fate{Token: 3, Status: Expired})
	o.tickUntil(2 * time.Hour)
	o.fates(Fate{Token: 2, Status: Expired})
	o.fill(wire.HeaderSize)
	o.wrote(wire.HeaderSize)
	o.probe()
	o.ack()
	o.fates(Fate{Token: 1})
	o.rest()
}
