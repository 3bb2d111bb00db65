package conn

import (
	"slices"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
)

// leftQueue is a connection that has ended its links for good, with six messages queued, for
// the ports 100 to 105: the first three were written, the fourth, with a body of its own, was
// picked, and the last has a time limit.
func leftQueue(t *testing.T, pool *buf.Pool) *Conn {
	t.Helper()
	c := newConn(t, Config{FirstSequence: 1000})
	up(t, c, 1)
	pong(c, 0)
	a := new(Account)
	queue := func(port uint16, limit time.Time) {
		m := Message{Sport: 5, Dport: port, Payload: []byte{byte(port)}, Account: a, Token: uint64(port), Notify: true, Deadline: limit}
		if port == 103 {
			m.Payload, m.Body = nil, pool.Get(InlineMax+1)
		}
		a.Admit(m.Size())
		mustEnqueue(t, c, 0, &m)
	}
	for port := uint16(100); port < 104; port++ {
		queue(port, time.Time{})
	}
	var b Batch
	if !c.Fill(0, &b) {
		t.Fatal("nothing to write")
	}
	c.Wrote(0, take(&b, 3*(wire.HeaderSize+1), 0))
	queue(104, time.Time{})
	queue(105, epochTime.Add(time.Second))
	if c.Settled() {
		t.Error("settled with a link and messages under way")
	}
	c.Retire()
	c.Depart()
	c.LinkClosed(epochTime, 1, 0)
	if !c.Settled() {
		t.Error("not settled without a link")
	}
	return c
}

// What one connection has queued, another one sends: with the numbers that it has, flagged
// RETRANSMITTED where the peer may have it, the rest behind it, in order, and with its
// time limit.
func TestQueueIsContinued(t *testing.T) {
	t.Parallel()
	pool := new(buf.Pool)
	c := leftQueue(t, pool)
	d := newConn(t, Config{FirstSequence: 1})
	legacy := c.Legacy()
	d.Inherit(legacy)
	n := 0
	if !c.Queue(func(m *QueuedMessage) {
		n++
		if picked := m.Dport < 104; (m.Sequence != 0) != picked || m.Written != (m.Dport < 103) || (m.Lent != nil) != (m.Dport == 103) || m.Deadline.IsZero() != (m.Dport != 105) {
			t.Errorf("%+v", m)
		}
		next := *m
		next.Lent = nil
		if m.Lent != nil {
			next.Payload, next.Body = nil, pool.Get(len(m.Payload))
		}
		if err := d.Requeue(epochTime, &next); err != nil {
			t.Error(err)
		}
	}) || n != 6 {
		t.Fatalf("%d messages", n)
	}
	d.Dialed(epochTime, 0, 2) // ignored where no dial is under way
	d.Reconnect(epochTime)
	d.TakeActions(nil)
	d.Dialed(epochTime, 0, 2)
	var last uint64
	port := uint16(100)
	for _, h := range headers(t, written(d, 0)) {
		if h.IsCongestion() || h.Sport == wire.PortProbe {
			continue
		}
		if h.Dport != port || h.Retransmitted() != (port < 103) || h.Sequence <= last {
			t.Errorf("%+v, want port %d", h, port)
		}
		last = h.Sequence
		port++
	}
	if port != 106 || last < legacy.Next[0] {
		t.Errorf("the last message is for port %d, its number %d", port-1, last)
	}
}

// What another one continues has the operations that have not begun: one whose message has
// its number, one that is silent, which has none, and one that was never picked. One that
// has begun ends with its link, and before that nothing can be continued.
func TestQueuedOperationsAreContinued(t *testing.T) {
	t.Parallel()
	for _, silent := range []bool{false, true} { // the operation that was picked
		o := newOpBench(t)
		lost, picked, last := &Operation{Work: "lost"}, &Operation{Work: "picked", Fence: true, Silent: silent}, &Operation{Work: "last"}
		o.send(lost)
		o.begin(lost)
		if o.Queue(func(*QueuedMessage) {}) {
			t.Error("an operation that has begun is left")
		}
		o.send(picked)
		o.show(picked)
		o.wrote(0) // the link is full
		o.send(last)
		o.send(nil)
		o.Depart()
		o.LinkClosed(epochTime, o.link, 0)
		o.fates(Fate{Token: 1, Status: Dropped})
		next := newOpBench(t)
		next.Inherit(o.Legacy())
		next.LinkClosed(epochTime, next.link, 0)
		var works []any
		if !o.Queue(func(m *QueuedMessage) {
			if (m.Sequence != 0) != (m.Op == picked && !silent) || m.Token != uint64(len(works)+2) {
				t.Errorf("%+v", m)
			}
			q := *m
			q.Account, q.Lent = &next.acct, nil
			next.acct.Charge(m.Size())
			works = append(works, nil)
			if m.Op != nil {
				works[len(works)-1] = m.Op.Work
				q.Op = &Operation{Work: m.Op.Work, Fence: m.Op.Fence, Silent: m.Op.Silent}
			}
			if err := next.Requeue(epochTime, &q); err != nil {
				t.Error(err)
			}
			next.check()
		}) || !slices.Equal(works, []any{"picked", "last", nil}) {
			t.Fatalf("operations %v", works)
		}
		next.invited = true
		next.Tick(epochTime.Add(2 * next.cfg.ReconnectMax))
		next.link++
		next.Dialed(epochTime, 0, next.link)
		next.Proved(epochTime, 0)
		var ops []*Operation
		for next.Fill(0, &next.b) {
			next.Wrote(0, all(&next.b))
			for _, b := range next.b.Ops {
				ops = append(ops, b.Op)
				next.done(b.Op, Success)
			}
		}
		if len(ops) != 2 || ops[0].Work != picked.Work || ops[1].Work != last.Work {
			t.Fatalf("%d operations are shown", len(ops))
		}
		if silent {
			next.fates(Fate{Token: 2})
			next.end(3, 4)
		} else {
			next.end(2, 3, 4)
		}
	}
}
