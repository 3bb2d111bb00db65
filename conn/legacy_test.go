package conn

import (
	"testing"
	"time"

	"github.com/rds-go/rds/internal/wire"
)

// probeOf is the header of the first probe that c writes on path 0.
func probeOf(t *testing.T, c *Conn) wire.Header {
	t.Helper()
	var b Batch
	for c.Fill(0, &b) {
		for i := range b.Frames {
			var h wire.Header
			if err := h.Decode(b.Frames[i].Head); err == nil && h.Sport == wire.PortProbe {
				return h
			}
		}
		c.Wrote(0, all(&b))
	}
	t.Fatal("no probe")
	return wire.Header{}
}

// A connection that continues another process's states the same generation in its probe
// (the handshake ping of net/rds/send.c, rds_send_ping), numbers on from where that one
// was, on each path, and knows the peer's generation and paths: to the peer, a Linux one
// too, it is the same incarnation that connects again.
func TestInheritedConnectionIsTheSameIncarnation(t *testing.T) {
	t.Parallel()
	cfg := Config{Paths: MaxPaths, Generation: 99, FirstSequence: 1000}
	old := newConn(t, cfg)
	up(t, old, 1)
	pong(old, 0)
	for range 5 {
		old.Enqueue(epochTime, 0, &Message{Sport: 5, Dport: 6, Account: new(Account)})
	}
	written(old, 0)
	was := old.Legacy()
	if was.Next[0] < 1006 || was.Next[1] != 1000 || was.Generation != 7 || was.Paths != MaxPaths || !was.Multipath {
		t.Fatalf("%+v", was)
	}
	cfg.FirstSequence = 1 // what an heir would begin with counts for nothing
	c := newConn(t, cfg)
	was.Linked = true
	c.Inherit(was)
	if c.PeerGeneration() != 7 || c.Paths() != MaxPaths || c.Epoch() != 0 {
		t.Errorf("generation %d, %d paths, epoch %d", c.PeerGeneration(), c.Paths(), c.Epoch())
	}
	c.Reconnect(epochTime)
	if as := c.TakeActions(nil); len(as) != 1 || as[0].Kind != Dial || as[0].Path != 0 {
		t.Fatalf("%+v", as)
	}
	c.Dialed(epochTime, 0, 1)
	h := probeOf(t, c)
	if hs := wire.ParseHandshake(&h.Extensions); hs.Generation != 99 || h.Sequence != was.Next[0] {
		t.Errorf("generation %d and number %d, want 99 and %d", hs.Generation, h.Sequence, was.Next[0])
	}
	pong(c, 0) // the peer's generation is the same
	if c.Epoch() != 0 || c.Counters().Generations != 0 {
		t.Error("the peer seems to be another")
	}
	now := c.Legacy()
	for i := 1; i < MaxPaths; i++ {
		if now.Next[i] < was.Next[i] {
			t.Errorf("path %d: number %d, was %d", i, now.Next[i], was.Next[i])
		}
	}
}

// After Return links are dialed and taken as before Retire and Depart.
func TestReturn(t *testing.T) {
	t.Parallel()
	c := newConn(t, Config{})
	up(t, c, 1)
	pong(c, 0)
	c.Retire()
	c.Depart()
	c.TakeActions(nil)
	c.LinkClosed(epochTime, 1, 0)
	c.Enqueue(epochTime, 0, &Message{Sport: 5, Dport: 6, Account: new(Account)})
	later := epochTime.Add(time.Minute)
	c.Tick(later)
	if as := c.TakeActions(nil); len(as) != 0 {
		t.Fatalf("a connection that has departed does %+v", as)
	}
	c.Return(later)
	if as := c.TakeActions(nil); len(as) != 1 || as[0].Kind != Dial {
		t.Fatalf("%+v", as)
	}
	c.Dialed(later, 0, 2)
	if c.Link(0) != 2 {
		t.Error("the link is not taken")
	}
	if c.TakeActions(nil); c.Retired() {
		t.Log("nothing is surveyed")
	}
}
