package conn

import (
	"bytes"
	"errors"
	"fmt"
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
		mustEnqueue(t, c, 0, &each)
	}
	return a
}

// mustEnqueue has a path take a message.
func mustEnqueue(t testing.TB, c *Conn, path int, m *Message) {
	if _, err := c.Enqueue(epochTime, path, m); err != nil {
		t.Helper()
		t.Fatal(err)
	}
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
	if err := check(c); err != nil {
		t.Helper() // here alone, because it costs more than all of check
		t.Fatal(err)
	}
}

// census counts what the messages of a core keep.
type census struct {
	live   map[*chunk]int // messages in a chunk
	queued int            // bytes
	pongs  int
}

func (n *census) count(e *entry) {
	n.live[e.chunk]++
	n.queued += wire.HeaderSize + int(e.length) + entryOverhead
	if e.flags&entryPong != 0 {
		n.pongs++
	}
}

func check(c *Conn) error {
	n := census{live: map[*chunk]int{}}
	for i := range c.paths {
		if err := checkPath(c, &c.paths[i], &n); err != nil {
			return fmt.Errorf("path %d: %w", i, err)
		}
	}
	for ck, messages := range n.live {
		if ck.live != messages {
			return fmt.Errorf("a chunk counts %d messages and has %d", ck.live, messages)
		}
	}
	if ports := countPorts(c.holds); ports != c.holding || (ports == 0) != (c.holds == nil) {
		return fmt.Errorf("%d ports held, counted %d", ports, c.holding)
	}
	if c.remote != nil && *c.remote == (wire.CongestionMap{}) {
		return errors.New("an empty congestion map is kept")
	}
	if n.queued != c.queued {
		return fmt.Errorf("%d bytes queued, counted %d", n.queued, c.queued)
	}
	return nil
}

func checkPath(c *Conn, p *path, n *census) error {
	n.pongs = 0
	for _, of := range [...]func(*Conn, *path, *census) error{checkQueue, checkShelf, checkOps} {
		if err := of(c, p, n); err != nil {
			return err
		}
	}
	if n.pongs != p.pongs {
		return fmt.Errorf("%d pongs, counted %d", n.pongs, p.pongs)
	}
	if (p.link == 0) != (p.state == Down || p.state == Connecting) {
		return fmt.Errorf("%v with link %d", p.state, p.link)
	}
	if tail := p.log.tail; tail != nil {
		n.live[tail] += 0
	}
	return nil
}

func checkQueue(c *Conn, p *path, n *census) error {
	q := &p.q
	if q.first > q.next || q.next > q.tail || q.first > q.fresh || q.fresh > q.tail || q.len() > len(q.ring) {
		return fmt.Errorf("first %d, next %d, fresh %d, tail %d, ring %d", q.first, q.next, q.fresh, q.tail, len(q.ring))
	}
	if p.nextOff > 0 && (q.next == q.fresh || p.nextOff >= q.at(q.next).size()) {
		return fmt.Errorf("%d bytes of nothing are written", p.nextOff)
	}
	var last, end uint64
	unsent := 0
	for pos := q.first; pos < q.tail; pos++ {
		e := q.at(pos)
		if e.flags&entryHole != 0 {
			continue // see checkOps
		}
		if e.chunk == nil || e.chunk.b == nil {
			return fmt.Errorf("the message at %d has no memory", pos)
		}
		n.count(e)
		switch {
		case pos < q.fresh && e.seq <= last && e.flags&entrySilent == 0:
			return fmt.Errorf("number %d after %d", e.seq, last)
		case pos < q.fresh && e.flags&entryLimited != 0:
			return fmt.Errorf("the message at %d was picked and has a limit", pos)
		case pos >= q.fresh && e.flags&(entryWritten|entryRetrans|entryRefused|entryUnknown) != 0:
			return fmt.Errorf("the message at %d was never picked and has flags %b", pos, e.flags)
		case pos < q.next && (e.end < end || e.end > p.written):
			return fmt.Errorf("message ends at %d after %d of %d", e.end, end, p.written)
		case pos < q.next && p.proved && e.end <= p.settled && e.flags&entryQuiet == 0:
			return fmt.Errorf("the message at %d ends at %d of %d acknowledged", pos, e.end, p.settled)
		case pos >= q.fresh && c.stopped(e.dport) && e.flags&entryCanceled == 0 && (p.index > 0 || pos >= c.barrier):
			return fmt.Errorf("the message at %d is to a held port", pos)
		}
		if pos < q.fresh && e.flags&entrySilent == 0 {
			last = e.seq
		}
		if pos < q.next {
			end = e.end
		} else {
			unsent += wire.HeaderSize + int(e.length)
		}
	}
	if unsent != q.unsent {
		return fmt.Errorf("%d bytes unsent, counted %d", unsent, q.unsent)
	}
	return nil
}

// checkShelf checks what a path holds back.
func checkShelf(c *Conn, p *path, n *census) error {
	held := 0
	for k := range p.shelf.list {
		e := &p.shelf.list[k]
		n.count(e)
		held += e.size()
		if !c.stopped(e.dport) || e.seq != 0 && e.flags&entryLimited == 0 || e.flags&(entryCanceled|entryWritten|entryRetrans|entryQuiet|entryHole) != 0 {
			return fmt.Errorf("held back is %+v", *e)
		}
		if e.flags&entryOp == 0 {
			continue
		}
		if op := c.ops[e.token]; op == nil || op.pos != shelved || op.path != p.index || op.begun {
			return fmt.Errorf("a message that is held back has operation %+v", op)
		}
	}
	if held != p.shelf.bytes || p.shelf.list != nil && len(p.shelf.list) == 0 {
		return fmt.Errorf("%d bytes held back, counted %d, list %v", held, p.shelf.bytes, p.shelf.list)
	}
	return nil
}

// checkOps checks what a path keeps of operations and of messages that ended
// before those in front of them.
func checkOps(c *Conn, p *path, _ *census) error {
	q := &p.q
	var holes, quiet, pending int
	for pos := q.first; pos < q.tail; pos++ {
		e := q.at(pos)
		if e.flags&entryHole != 0 {
			holes++
			if pos == q.first || pos >= q.next || e.chunk != nil || e.acct != nil || e.body != nil {
				return fmt.Errorf("a hole at %d of %d to %d is %+v", pos, q.first, q.next, *e)
			}
			continue
		}
		if e.flags&entryQuiet != 0 {
			quiet++
		}
		if e.flags&entryOp == 0 {
			if e.flags&(entrySilent|entryQuiet) != 0 {
				return fmt.Errorf("the message at %d has no operation and flags %b", pos, e.flags)
			}
			continue
		}
		op := c.ops[e.token]
		if op == nil || op.pos != pos || op.path != p.index {
			return fmt.Errorf("the message at %d has operation %+v", pos, op)
		}
		if op.begun && !op.done {
			pending++
		}
		switch {
		case pos < q.next && !op.begun, pos > q.next && op.begun, op.begun && p.link == 0:
			return fmt.Errorf("the operation at %d, where %d is next, was begun: %v", pos, q.next, op.begun)
		case e.flags&entryQuiet != 0 && (pos >= q.next || op.done):
			return fmt.Errorf("the message at %d waits for an operation that is done: %v", pos, op.done)
		}
	}
	if holes != p.holes || quiet != p.quiet || pending != p.pending || 2*holes > max(1, int(q.next-q.first)) {
		return fmt.Errorf("%d holes, %d quiet, %d pending in %d; counted %d, %d, %d", holes, quiet, pending, q.next-q.first, p.holes, p.quiet, p.pending)
	}
	if p.hold && !p.bound {
		return fmt.Errorf("held and not bound")
	}
	if p.bound {
		if e := q.at(q.next); q.next == q.tail || e.flags&entryOp == 0 || !c.ops[e.token].begun {
			return fmt.Errorf("bound to a message without an operation")
		}
	}
	return nil
}

// countPorts is how many ports a map marks. Most of a map is 0.
func countPorts(m *wire.CongestionMap) (n int) {
	if m == nil {
		return 0
	}
	var zero [256]byte
	for i := 0; i < len(m); i += len(zero) {
		if block := m[i : i+len(zero)]; !bytes.Equal(block, zero[:]) {
			for _, b := range block {
				n += bits.OnesCount8(b)
			}
		}
	}
	return n
}
