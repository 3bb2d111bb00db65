package conn

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/invariants"
	"github.com/rds-go/rds/internal/wire"
)

var seedFlag = flag.Uint64("conn.seed", 0, "run the queue test with this seed only")

// The queue and its log against a model that has none of their cleverness:
// after each of many random calls both must show the same.
func TestQueueMatchesModel(t *testing.T) {
	t.Parallel()
	n := uint64(400)
	if invariants.Enabled {
		n = 100
	}
	if *seedFlag != 0 {
		queueRun(t, *seedFlag)
		return
	}
	for seed := uint64(1); seed <= n && !t.Failed(); seed++ {
		queueRun(t, seed)
	}
}

func queueRun(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	pool := new(buf.Pool)
	c := newConn(t, Config{Pool: pool, Rand: rng})
	m := &model{sequence: 1, held: map[uint16]bool{}, marked: map[uint16]bool{}}
	accounts, twins := make([]Account, 3), make([]Account, 3)
	for i := range accounts {
		accounts[i].SetLimit(1 << 30)
		twins[i].SetLimit(1 << 30)
	}
	link, now := LinkID(0), epochTime
	var batch Batch
	var expect []byte // octets of the write under way
	room := 0         // operations of that write that the link has room for
	whole := false    // the link takes all that it has room for: some of these operations have ended
	var bodies []*buf.Buf
	fail := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("seed %d: %s", seed, fmt.Sprintf(format, args...))
	}
	for op := range 600 {
		switch x := rng.IntN(26); {
		case x < 7:
			size := rng.IntN(300)
			k := rng.IntN(len(accounts))
			msg := Message{Sport: uint16(4000 + k), Dport: uint16(5000 + rng.IntN(2)), Token: uint64(op), Notify: rng.IntN(2) == 0, Account: &accounts[k],
				Admitted: true}
			if rng.IntN(15) == 0 {
				size = InlineMax + 1 + rng.IntN(1000)
				msg.Body = pool.Get(size)
				msg.Body.Retain(1)
				bodies = append(bodies, msg.Body)
			} else {
				msg.Payload = make([]byte, size)
			}
			if rng.IntN(4) == 0 {
				msg.Op = &Operation{Silent: msg.Body == nil && rng.IntN(2) == 0}
				if msg.Op.Silent {
					size, msg.Payload = 0, nil
				}
			}
			payload := msg.Payload
			if msg.Body != nil {
				payload = msg.Body.B
			}
			for i := range payload {
				payload[i] = byte(op)
			}
			e := &modelMessage{m: msg, payload: bytes.Clone(payload)}
			e.m.Account = &twins[k]
			if msg.Op != nil {
				e.op = opWaits
			}
			accounts[k].Charge(size)
			twins[k].Charge(size)
			if _, err := c.Enqueue(now, 0, &msg); err != nil {
				fail("%v", err)
			}
			m.accept(e)
		case x < 12 && expect == nil:
			want, some := m.fill(max(1, c.paths[0].opsMost))
			ok := c.Fill(0, &batch)
			if same := func(b BatchOp, e *modelMessage) bool { return b.Op == e.m.Op }; ok != some || !slices.EqualFunc(batch.Ops, m.shown, same) {
				fail("op %d: Fill is %v with %d bytes to write and %d operations, not %d", op, ok, len(want), len(batch.Ops), len(m.shown))
			}
			if got := octets(&batch); !bytes.Equal(got, want) {
				fail("op %d: Fill shows %d bytes, not %d", op, len(got), len(want))
			}
			if some {
				expect = append([]byte{}, want...)
			}
			if room = len(m.shown); rng.IntN(3) == 0 {
				room = rng.IntN(room + 1)
			}
		case x < 16 && expect != nil:
			if !bytes.Equal(octets(&batch), expect) {
				fail("op %d: what Fill showed has changed", op)
			}
			n := len(expect)
			if rng.IntN(2) == 0 && !whole {
				n = rng.IntN(n + 1)
			}
			whole = false
			t := take(&batch, n, room)
			c.Wrote(0, t)
			m.wrote(batch.Taken(t), len(begun(&batch, t)))
			expect = nil
		case x == 16 || x == 20:
			total := uint64(rng.Int64N(int64(m.written) + 1))
			c.Acked(0, total)
			m.acked(total)
		case x == 25 && expect != nil && room > 0: // the link is quicker than its writer
			e := m.shown[rng.IntN(room)]
			if t := take(&batch, len(expect), room); e.early == nil && slices.ContainsFunc(begun(&batch, t), func(b BatchOp) bool { return b.Op == e.m.Op }) {
				status := Status(rng.IntN(2)) * RemoteError
				e.early = &status
				whole = true
				c.OpDone(0, e.m.Op, status)
			}
		case x >= 23:
			if n := len(m.begun); n > 0 {
				i, status := rng.IntN(n), Status(rng.IntN(2))*RemoteError
				e := m.begun[i]
				m.begun = slices.Delete(m.begun, i, i+1)
				c.OpDone(0, e.m.Op, status)
				m.opDone(e, status)
			}
		case x == 21:
			port, on := uint16(5000+rng.IntN(2)), rng.IntN(2) == 0
			c.Hold([]uint16{port}, on)
			m.hold(port, on)
		case x == 22 && m.up:
			var h wire.Header
			h.Flags, h.Length = wire.FlagCongestion, wire.CongestionMapSize
			var cmap wire.CongestionMap
			var ports []uint16
			for port := uint16(5000); port < 5002; port++ {
				if rng.IntN(2) == 0 && cmap.Set(port) {
					ports = append(ports, port)
				}
			}
			c.HandleControl(now, 0, &h, cmap[:])
			m.mapped(ports...)
		case x == 17:
			k, port, all := rng.IntN(len(accounts)), uint16(5000+rng.IntN(2)), rng.IntN(3) == 0
			m1, b1 := c.Cancel(&accounts[k], port, all)
			if m2, b2 := m.cancel(&twins[k], port, all); m1 != m2 || b1 != b2 {
				fail("op %d: Cancel of %d messages, %d bytes, not %d, %d", op, m1, b1, m2, b2)
			}
		case x == 18 && m.up && expect == nil && rng.IntN(3) == 0:
			total := uint64(rng.Int64N(int64(m.written) + 1))
			c.LinkClosed(now, link, total)
			m.closed(total)
		case x == 19 && !m.up:
			c.invited = true // there may be nothing to send
			now = now.Add(time.Minute)
			c.Tick(now)
			link++
			c.Dialed(now, 0, link)
			c.Proved(now, 0)
			m.connect()
		case x == 19 && m.up:
			c.MapChanged()
			m.needMap = true
		}
		checkConn(t, c)
		compareQueues(t, fail, c, m)
		if got, want := c.Messages(false, 1<<20), m.waiting(); !slices.EqualFunc(got, want, sameMessage) {
			fail("op %d: waiting are %v, not %d messages", op, got, len(want))
		}
		if got, want := c.Unacked(0), m.unacked(); got != want {
			fail("op %d: %d bytes unacknowledged, not %d", op, got, want)
		}
		for i := range accounts {
			if accounts[i].Bytes() != twins[i].Bytes() || accounts[i].Messages() != twins[i].Messages() {
				fail("op %d: account %d has %d bytes, not %d", op, i, accounts[i].Bytes(), twins[i].Bytes())
			}
		}
		got := c.TakeFates(nil)
		for i := range got {
			for k := range accounts {
				if got[i].Account == &accounts[k] {
					got[i].Account = &twins[k]
				}
			}
		}
		if !slices.Equal(got, m.fates) {
			fail("op %d: fates %v, not %v", op, got, m.fates)
		}
		m.fates = nil
		c.TakeFreed(nil)
		c.TakeActions(nil)
	}
	c.Close()
	switch {
	case expect != nil:
		c.Wrote(0, take(&batch, len(expect), room))
	}
	if m.up {
		c.LinkClosed(now, link, 0)
	}
	if c.Queued() != 0 || c.paths[0].log.tail != nil || c.paths[0].pongs != 0 {
		fail("%d bytes, log %v after Close", c.Queued(), c.paths[0].log.tail)
	}
	for i := range accounts {
		if accounts[i].Bytes() != 0 || accounts[i].Messages() != 0 {
			fail("account %d keeps %d bytes", i, accounts[i].Bytes())
		}
	}
	for i, b := range bodies {
		if !b.Sole() {
			fail("body %d was not given back", i)
		}
	}
}

func sameMessage(i MessageInfo, e *modelMessage) bool {
	return i.Sequence == e.seq && i.Length == len(e.payload) && i.Sport == e.m.Sport && i.Dport == e.m.Dport
}

func compareQueues(t *testing.T, fail func(string, ...any), c *Conn, m *model) {
	t.Helper()
	q := &c.paths[0].q
	if n := q.len() - c.paths[0].holes; n != len(m.q) {
		fail("%d messages queued, not %d", n, len(m.q))
	}
	pos := q.first
	for k, e := range m.q {
		for q.at(pos).flags&entryHole != 0 {
			pos++
		}
		g := q.at(pos)
		pos++
		token := g.token
		if g.flags&entryOp != 0 {
			token = c.ops[g.token].token
		}
		if token != e.m.Token || g.seq != e.seq && g.flags&entrySilent == 0 || int(g.length) != len(e.payload) || (g.flags&entryCanceled != 0) != e.canceled ||
			(g.flags&entryRetrans != 0) != e.retrans || (pos <= q.next) != e.done() {
			fail("message %d of %d is %+v, not %+v", k, len(m.q), *g, *e)
		}
	}
}
