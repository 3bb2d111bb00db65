package conn

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/wire"
)

// written writes all that path i has, and returns it.
func written(c *Conn, i int) (stream []byte) {
	var b Batch
	for c.Fill(i, &b) {
		stream = append(stream, octets(&b)...)
		c.Wrote(i, all(&b))
	}
	return stream
}

// pong answers a probe on path i, by a peer with 8 paths.
func pong(c *Conn, i int) {
	written(c, i)
	h := wire.Header{Dport: wire.PortProbe}
	wire.Handshake{HasPaths: true, Paths: MaxPaths, Generation: 7}.Put(&h.Extensions)
	c.Proved(epochTime, i)
	c.HandleControl(epochTime, i, &h, nil)
	written(c, i)
}

// A peer whose link is only being made when a node begins to leave may have sent something
// on it that TCP has acknowledged: a link that is taken, or whose dial is done, after
// Retire is put to use and surveyed as those before it. No further one is dialed.
func TestRetireTakesLinksUnderWay(t *testing.T) {
	t.Parallel()
	for _, dials := range []bool{true, false} {
		cfg := Config{Paths: MaxPaths}
		if !dials {
			cfg.Local, cfg.Remote = netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.1")
		}
		c := newConn(t, cfg)
		if dials {
			up(t, c, 1)
		} else {
			c.Accepted(epochTime, 1, 1000)
		}
		pong(c, 0)
		if c.Dialing() != dials {
			t.Fatalf("the next path is dialed: %v", c.Dialing())
		}
		c.TakeActions(nil)
		c.Retire()
		if dials {
			c.Dialed(epochTime, 1, 2)
		} else {
			c.Accepted(epochTime, 2, 1001)
		}
		if c.State(1) != Up || c.Dialing() {
			t.Fatalf("the link that was under way: %v, dialing: %v", c.State(1), c.Dialing())
		}
		for i, path := range []int{0, 1, 0, 1} { // two surveys of each
			if c.Retired() {
				t.Fatalf("after %d answers of 4 nothing is under way", i)
			}
			pong(c, path)
		}
		if !c.Retired() {
			t.Error("all surveys are answered, and something is under way")
		}
		c.LinkClosed(epochTime, 1, 0)
		c.Tick(epochTime.Add(time.Hour))
		for _, a := range c.TakeActions(nil) {
			if a.Kind == Dial {
				t.Errorf("path %d is dialed", a.Path)
			}
		}
		checkConn(t, c)
	}
}

// A link that waits for its path holds up the end until it has got it.
func TestRetireWaitsForHeldLinks(t *testing.T) {
	t.Parallel()
	c := newConn(t, Config{Paths: 1, Local: netip.MustParseAddr("10.0.0.2"), Remote: netip.MustParseAddr("10.0.0.1")})
	c.Accepted(epochTime, 1, 1000)
	pong(c, 0)
	c.Accepted(epochTime, 2, 1001) // the peer's side of the first is gone
	c.Retire()
	if c.Retired() {
		t.Error("a link waits, and nothing is under way")
	}
	c.LinkClosed(epochTime, 1, 0)
	for range surveys {
		if c.Link(0) != 2 || c.Retired() {
			t.Fatalf("link %d, retired %v", c.Link(0), c.Retired())
		}
		pong(c, 0)
	}
	if !c.Retired() {
		t.Error("all surveys are answered, and something is under way")
	}
	checkConn(t, c)
}

// An operation that has begun when its link ends is lost: after Retire none begins, those
// that have begun are waited for, and Return has the others go on. A message that has its
// number already is not held up.
func TestRetireBeginsNoOperation(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	begun, picked, waits := &Operation{}, &Operation{}, &Operation{}
	o.send(begun)
	o.begin(begun)
	o.send(picked)
	o.fill(opSize, picked)
	o.wrote(0) // the link is full
	o.send(waits)
	o.send(nil)
	o.Retire()
	o.fill(wire.HeaderSize + wire.CongestionMapSize)
	o.wrote(o.b.Bytes)
	o.begin(picked)
	for range 1 + surveys { // the probe of the new link is answered, too
		pong(o.Conn, 0)
	}
	o.idle()
	for _, op := range []*Operation{begun, picked} {
		if o.Retired() {
			t.Error("an operation is under way")
		}
		o.done(op, Success)
	}
	if !o.Retired() {
		t.Error("the link may end")
	}
	o.TakeActions(nil)
	o.Return(epochTime)
	if !slices.Contains(o.TakeActions(nil), Action{Kind: Transmit}) {
		t.Error("what has waited does not go on")
	}
	o.fill(wire.HeaderSize + wire.CongestionMapSize)
	o.wrote(o.b.Bytes)
	o.begin(waits)
	o.write(1)
	o.done(waits, Success)
	o.end(1, 2, 3, 4)
}
