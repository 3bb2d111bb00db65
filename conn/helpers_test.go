package conn

import (
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/wire"
)

// epochTime is when tests begin.
var epochTime = time.Unix(1_700_000_000, 0)

// newConn makes a core that, unless cfg says otherwise, is the smaller side.
func newConn(t testing.TB, cfg Config) *Conn {
	t.Helper()
	if !cfg.Local.IsValid() {
		cfg.Local, cfg.Remote = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	}
	if cfg.Generation == 0 {
		cfg.Generation = 1
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.New(rand.NewPCG(1, 2))
	}
	return New(cfg)
}

// up brings path 0 of a connector up, its map and probe written.
func up(t testing.TB, c *Conn, link LinkID) {
	t.Helper()
	if c.State(0) == Down {
		c.invited = true
		c.Tick(epochTime.Add(time.Hour))
	}
	c.Dialed(epochTime, 0, link)
	c.Proved(epochTime, 0)
	var b Batch
	for range 2 {
		if !c.Fill(0, &b) {
			t.Fatal("nothing to write on a new link")
		}
		c.Wrote(0, all(&b))
	}
	c.TakeActions(nil)
}

// enqueue has a connection take n messages like m to port 2, with the tokens 1 to n, and returns
// the account that they are charged to.
func enqueue(t testing.TB, c *Conn, n int, m Message) *Account {
	t.Helper()
	a := new(Account)
	a.SetLimit(1 << 20)
	m.Sport, m.Account, m.Notify = 1, a, true
	if m.Dport == 0 {
		m.Dport = 2
	}
	for k := range n {
		a.Charge(len(m.Payload))
		each := m
		each.Token = uint64(k + 1)
		if m.Op != nil {
			op := *m.Op
			each.Op = &op
		}
		if _, err := c.Enqueue(epochTime, 0, &each); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

// closes takes the connection's actions, and tells how many close a link.
func closes(c *Conn, link LinkID) (n int) {
	for _, a := range c.TakeActions(nil) {
		if a.Kind == CloseLink && a.Link == link {
			n++
		}
	}
	return n
}

// checkConn checks what holds between any two calls.
func checkConn(t testing.TB, c *Conn) {
	t.Helper()
	live := map[*chunk]int{}
	queued := 0
	for i := range c.paths {
		p := &c.paths[i]
		q := &p.q
		if q.first > q.next || q.next > q.tail || q.first > q.fresh || q.fresh > q.tail || q.len() > len(q.ring) {
			t.Fatalf("path %d: first %d, next %d, fresh %d, tail %d, ring %d", i, q.first, q.next, q.fresh, q.tail, len(q.ring))
		}
		pongs := 0
		var last, end uint64
		for pos := q.first; pos < q.tail; pos++ {
			e := q.at(pos)
			if e.flags&entryHole != 0 {
				continue // see checkOps
			}
			if e.chunk == nil || e.chunk.b == nil {
				t.Fatalf("path %d: the message at %d has no memory", i, pos)
			}
			live[e.chunk]++
			queued += wire.HeaderSize + int(e.length) + entryOverhead
			if e.flags&entryPong != 0 {
				pongs++
			}
			switch {
			case pos < q.fresh && e.seq <= last && e.flags&entrySilent == 0:
				t.Fatalf("path %d: number %d after %d", i, e.seq, last)
			case pos < q.fresh && e.flags&entryLimited != 0:
				t.Fatalf("path %d: the message at %d was picked and has a limit", i, pos)
			case pos >= q.fresh && e.flags&(entryWritten|entryRetrans|entryRefused|entryUnknown) != 0:
				t.Fatalf("path %d: the message at %d was never picked and has flags %b", i, pos, e.flags)
			case pos < q.next && (e.end < end || e.end > p.written):
				t.Fatalf("path %d: message ends at %d after %d of %d", i, e.end, end, p.written)
			case pos < q.next && p.proved && e.end <= p.acked && e.flags&entryQuiet == 0:
				t.Fatalf("path %d: the message at %d ends at %d of %d acknowledged", i, pos, e.end, p.acked)
			case pos >= q.fresh && c.stopped(e.dport) && e.flags&entryCanceled == 0 && (i > 0 || pos >= c.barrier):
				t.Fatalf("path %d: the message at %d is to a held port", i, pos)
			}
			if pos < q.fresh && e.flags&entrySilent == 0 {
				last = e.seq
			}
			if pos < q.next {
				end = e.end
			}
		}
		checkOps(t, c, p)
		bytes := 0
		for k := range p.shelf.list {
			e := &p.shelf.list[k]
			live[e.chunk]++
			queued += wire.HeaderSize + int(e.length) + entryOverhead
			bytes += e.size()
			if e.flags&entryPong != 0 {
				pongs++
			}
			if !c.stopped(e.dport) || e.seq != 0 && e.flags&entryLimited == 0 || e.flags&(entryCanceled|entryWritten|entryRetrans|entryQuiet|entryHole) != 0 {
				t.Fatalf("path %d: held back is %+v", i, *e)
			}
			if e.flags&entryOp == 0 {
				continue
			}
			if op := c.ops[e.token]; op == nil || op.pos != shelved || op.path != i || op.begun {
				t.Fatalf("path %d: a message that is held back has operation %+v", i, op)
			}
		}
		if bytes != p.shelf.bytes || p.shelf.list != nil && len(p.shelf.list) == 0 {
			t.Fatalf("path %d: %d bytes held back, counted %d, list %v", i, bytes, p.shelf.bytes, p.shelf.list)
		}
		if pongs != p.pongs {
			t.Fatalf("path %d: %d pongs, counted %d", i, pongs, p.pongs)
		}
		if p.nextOff > 0 && (q.next == q.fresh || p.nextOff >= q.at(q.next).size()) {
			t.Fatalf("path %d: %d bytes of nothing are written", i, p.nextOff)
		}
		if (p.link == 0) != (p.state == Down || p.state == Connecting) {
			t.Fatalf("path %d: %v with link %d", i, p.state, p.link)
		}
		if tail := p.log.tail; tail != nil {
			live[tail] += 0
		}
	}
	for ck, n := range live {
		if ck.live != n {
			t.Fatalf("a chunk counts %d messages and has %d", ck.live, n)
		}
	}
	if ports := countPorts(c); ports != c.holding || (ports == 0) != (c.holds == nil) {
		t.Fatalf("%d ports held, counted %d", ports, c.holding)
	}
	if c.remote != nil && *c.remote == (wire.CongestionMap{}) {
		t.Fatal("an empty congestion map is kept")
	}
	if queued != c.queued {
		t.Fatalf("%d bytes queued, counted %d", queued, c.queued)
	}
}

// countPorts counts the ports that are held.
func countPorts(c *Conn) (n int) {
	if c.holds != nil {
		for _, b := range c.holds {
			n += bits.OnesCount8(b)
		}
	}
	return n
}

// checkOps checks what a path keeps of operations and of messages that ended
// before those in front of them.
func checkOps(t testing.TB, c *Conn, p *path) {
	t.Helper()
	q := &p.q
	var holes, quiet, pending int
	for pos := q.first; pos < q.tail; pos++ {
		e := q.at(pos)
		if e.flags&entryHole != 0 {
			holes++
			if pos == q.first || pos >= q.next || e.chunk != nil || e.acct != nil || e.body != nil {
				t.Fatalf("path %d: a hole at %d of %d to %d is %+v", p.index, pos, q.first, q.next, *e)
			}
			continue
		}
		if e.flags&entryQuiet != 0 {
			quiet++
		}
		if e.flags&entryOp == 0 {
			if e.flags&(entrySilent|entryQuiet) != 0 {
				t.Fatalf("path %d: the message at %d has no operation and flags %b", p.index, pos, e.flags)
			}
			continue
		}
		op := c.ops[e.token]
		if op == nil || op.pos != pos || op.path != p.index {
			t.Fatalf("path %d: the message at %d has operation %+v", p.index, pos, op)
		}
		if op.begun && !op.done {
			pending++
		}
		switch {
		case pos < q.next && !op.begun, pos > q.next && op.begun, op.begun && p.link == 0:
			t.Fatalf("path %d: the operation at %d, where %d is next, was begun: %v", p.index, pos, q.next, op.begun)
		case e.flags&entryQuiet != 0 && (pos >= q.next || op.done):
			t.Fatalf("path %d: the message at %d waits for an operation that is done: %v", p.index, pos, op.done)
		}
	}
	if holes != p.holes || quiet != p.quiet || pending != p.pending || 2*holes > max(1, int(q.next-q.first)) {
		t.Fatalf("path %d: %d holes, %d quiet, %d pending in %d; counted %d, %d, %d", p.index, holes, quiet, pending, q.next-q.first, p.holes, p.quiet, p.pending)
	}
	if p.hold && !p.bound {
		t.Fatalf("path %d: held and not bound", p.index)
	}
	if p.bound {
		if e := q.at(q.next); q.next == q.tail || e.flags&entryOp == 0 || !c.ops[e.token].begun {
			t.Fatalf("path %d: bound to a message without an operation", p.index)
		}
	}
}
