package conn

import (
	"testing"
	"time"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
)

// What one connection has queued, another one sends: with the numbers that it has, flagged
// RETRANSMITTED where the peer may have it, the rest behind it, in order, and with its
// time limit.
func TestQueueIsContinued(t *testing.T) {
	t.Parallel()
	c := newConn(t, Config{FirstSequence: 1000})
	up(t, c, 1)
	pong(c, 0)
	a := new(Account)
	pool := new(buf.Pool)
	queue := func(port uint16, limit time.Time) {
		m := Message{Sport: 5, Dport: port, Payload: []byte{byte(port)}, Account: a, Token: uint64(port), Notify: true, Deadline: limit}
		if port == 103 {
			m.Payload, m.Body = nil, pool.Get(InlineMax+1)
		}
		a.Admit(m.Size())
		if _, err := c.Enqueue(epochTime, 0, &m); err != nil {
			t.Fatal(err)
		}
	}
	for port := uint16(100); port < 104; port++ {
		queue(port, time.Time{})
	}
	var b Batch
	for c.Fill(0, &b) { // all but 103 is written whole
		c.Wrote(0, min(b.Bytes, 3*(wire.HeaderSize+1)))
		break
	}
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
	for d.Fill(0, &b) {
		var all []byte
		for _, s := range b.Bufs {
			all = append(all, s...)
		}
		for len(all) > 0 {
			var h wire.Header
			if err := h.Decode(all); err != nil {
				t.Fatal(err)
			}
			all = all[wire.HeaderSize+int(h.Length):]
			if h.IsCongestion() || h.Sport == wire.PortProbe {
				continue
			}
			if h.Dport != port || h.Retransmitted() != (port < 103) || h.Sequence <= last {
				t.Errorf("%+v, want port %d", h, port)
			}
			last = h.Sequence
			port++
		}
		d.Wrote(0, b.Bytes)
	}
	if port != 106 || last < legacy.Next[0] {
		t.Errorf("the last message is for port %d, its number %d", port-1, last)
	}
	e := newConn(t, Config{})
	op := &Operation{}
	if _, err := e.Enqueue(epochTime, 0, &Message{Sport: 5, Dport: 6, Account: new(Account), Op: op}); err != nil {
		t.Fatal(err)
	}
	if e.Queue(func(*QueuedMessage) {}) {
		t.Error("an operation is left")
	}
}
