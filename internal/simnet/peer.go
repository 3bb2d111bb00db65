package simnet

import (
	"context"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/driver"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

// peer is one connection of a host, on the driver that the product runs.
type peer struct {
	h, remote *host
	inc       int
	dead      bool // the peer's process is gone
	skew      time.Duration
	*driver.Driver

	held    map[uint16]bool     // ports that the core was told are held
	marked  *wire.CongestionMap // the remote's last map; nil: none, or forgotten with the last link
	maps    uint64              // maps that the core has taken
	waiting []func()            // called at WakeAll
	stated  [conn.MaxPaths]uint32
	dials   []time.Duration // times of the dials of the last second, for the checker
}

// burst is how much a stream of messages collects before it is written.
const burst = 2 << 10

func (h *host) newPeer(to *host) *peer {
	s := h.s
	p := &peer{h: h, remote: to, inc: h.incarnation}
	p.Driver = driver.New(driver.Config{Owner: (*owner)(p), Runtime: (*clock)(p), Pool: &s.pool, Burst: burst, Core: conn.Config{
		Local: h.addr, Remote: to.addr, Paths: h.paths, Generation: h.generation, FirstSequence: h.firstSeq,
		Budget: pick(s, s.cfg.Scenario.budgets), Limit: h.states(), Pool: &s.pool, Rand: s.rng, LocalMap: h.localMap,
	}})
	return p
}

// with does something to the driver under its lock.
func (p *peer) with(fn func()) {
	p.Lock()
	fn()
	p.Arm()
	p.Commit()
}

// end is the link of a path, nil if it has none.
func (p *peer) end(i int) *end {
	e, _ := p.Link(i).(*end)
	return e
}

// anyDown tells whether a Linux acceptor would find a path for a link.
func (p *peer) anyDown() bool {
	for i := range max(1, p.Core.Paths()) {
		if s := p.Core.State(i); s == conn.Down {
			return true
		}
	}
	return false
}

// anyUp tells whether the core still goes by the remote's map.
func (p *peer) anyUp() bool {
	for i := range conn.MaxPaths {
		if p.Core.State(i) == conn.Up {
			return true
		}
	}
	return false
}

// owner is a peer as its driver knows it.
type owner peer

var _ driver.Owner = (*owner)(nil)

func (o *owner) peer() *peer { return (*peer)(o) }

func (o *owner) Needed() bool                      { return true }
func (o *owner) Serve()                            {}
func (o *owner) Deadline() (never time.Time)       { return never }
func (o *owner) Tick(time.Time)                    {}
func (o *owner) LinkUp(int, transport.Link)        {}
func (o *owner) Begins(int, *conn.Operation) bool  { return true }
func (o *owner) Takes(transport.Link) error        { return nil }
func (o *owner) Started(int, transport.Link, bool) {}
func (o *owner) Idle()                             {}
func (o *owner) NotBegun(*conn.Operation)          {}
func (o *owner) Begun(*conn.Operation)             {}
func (o *owner) Freed(*conn.Account)               {}
func (o *owner) Met(_, _ driver.State)             {}
func (o *owner) Committed()                        {}

// PortsChanged follows a map that a link has brought.
func (o *owner) PortsChanged() {
	if e := o.h.s.fibers.running.at; e != nil && len(e.maps) > 0 {
		e.maps = e.maps[1:]
	}
}

// Committing notes a map that the core has taken, and forgets it with the last link.
func (o *owner) Committing() bool {
	if n := o.Core.Counters().CongUpdateReceived; n != o.maps {
		o.maps, o.marked = n, nil
		if f := o.h.s.fibers.running; f != nil && f.at != nil && len(f.at.maps) > 0 {
			o.marked = &f.at.maps[0]
		}
	}
	if o.marked != nil && !o.peer().anyUp() {
		o.marked = nil
	}
	return false
}

// LinkDown follows the end of a link.
func (o *owner) LinkDown(i int) {
	if o.h.s.rigged(ForgetRefusals, 1) {
		*o.Refusals(i) = driver.Refusals{}
	}
}

// Ended follows it without the lock.
func (o *owner) Ended(int, error) {
	if !o.dead {
		o.peer().lostHolds()
	}
}

// Dial connects a path.
func (o *owner) Dial(_ context.Context, i int) {
	if !o.dead {
		o.h.dial(o.peer(), i)
	}
}

// Fate is told to the checker.
func (o *owner) Fate(f conn.Fate, _ bool) {
	if o.dead {
		return
	}
	if f.Status == conn.Success && o.h.s.rigged(ExpireWritten, 0.1) {
		f.Status = conn.Expired
	}
	o.h.s.check.fate(f)
}

// WakeAll has everybody try again who waits.
func (o *owner) WakeAll() { o.peer().wake() }

// Sink takes what a link brings.
func (o *owner) Sink(r *driver.Receiver) driver.Sink {
	e := r.Link().(*end)
	e.path = r.Path()
	e.sink = &sink{p: o.peer(), rx: r, e: e}
	return e.sink
}
