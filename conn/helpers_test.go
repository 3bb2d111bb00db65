package conn

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"
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
		c.Wrote(0, b.Bytes)
	}
	c.TakeActions(nil)
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
			if e.chunk == nil || e.chunk.b == nil {
				t.Fatalf("path %d: the message at %d has no memory", i, pos)
			}
			live[e.chunk]++
			queued += e.size() + entryOverhead
			if e.flags&entryPong != 0 {
				pongs++
			}
			switch {
			case pos < q.fresh && e.seq <= last:
				t.Fatalf("path %d: number %d after %d", i, e.seq, last)
			case pos >= q.fresh && e.flags&(entryWritten|entryRetrans) != 0:
				t.Fatalf("path %d: the message at %d was never picked and has flags %b", i, pos, e.flags)
			case pos < q.next && (e.end < end || e.end > p.written):
				t.Fatalf("path %d: message ends at %d after %d of %d", i, e.end, end, p.written)
			case e.flags&entrySkip != 0:
				t.Fatalf("path %d: a canceled message was met by Fill", i)
			}
			if pos < q.fresh {
				last = e.seq
			}
			if pos < q.next {
				end = e.end
			}
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
	if queued != c.queued {
		t.Fatalf("%d bytes queued, counted %d", queued, c.queued)
	}
}
