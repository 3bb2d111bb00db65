package simnet

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/rds-go/rds/internal/wire"
)

// host is one machine with one RDS process, which may be replaced by another.
type host struct {
	s     *Sim
	index int
	addr  netip.Addr

	incarnation int
	down        bool // no process
	paths       int
	generation  uint32
	firstSeq    uint64
	linux       bool
	old         bool  // the processes are of a version that knows no limits
	longest     int   // longest payload that the process takes
	longests    []int // those of all processes
	leaving     bool  // the process stops in peace
	unlistened  bool  // the process takes no more links
	bad         bool  // accepts and closes, always
	peers       []*peer
	socks       map[uint16]*sock
	cmap        wire.CongestionMap

	frozen   time.Duration // the host does nothing until this time
	waiting  []func()      // called at the end of frozen
	refusing time.Duration // dials are refused until this time
	rejects  time.Duration // inbound links are closed until this time

	accepting time.Duration // when the last link in the backlog will be accepted
}

func (h *host) String() string { return fmt.Sprintf("h%d.%d", h.index, h.incarnation) }

func (s *Sim) addHost(paths int, linux bool) *host {
	i := len(s.hosts)
	h := &host{s: s, index: i, addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(1 + i)}), paths: paths, linux: linux}
	h.old = s.cfg.Scenario.Lengths && s.chance(0.2)
	s.hosts = append(s.hosts, h)
	return h
}

// boot begins a new process.
func (h *host) boot() {
	h.incarnation++
	h.down, h.unlistened = false, false
	h.generation = h.s.rng.Uint32() | 1
	h.drawLength()
	h.firstSeq = uint64(h.s.clock().UnixNano())
	if h.linux {
		h.firstSeq = 1
	}
	h.peers = make([]*peer, len(h.s.hosts))
	h.socks = map[uint16]*sock{}
	h.cmap = wire.CongestionMap{}
	h.s.tracef("%v boots, %d paths, generation %08x", h, h.paths, h.generation)
}

// kill ends the process: politely, closing its connections, or not.
func (h *host) kill(politely, silent bool) {
	h.s.tracef("%v dies, politely=%v silent=%v", h, politely, silent)
	h.s.counts.Restarts++
	h.down = true
	h.leaving = false
	for _, k := range h.sockets() {
		k.alive = false
	}
	for _, p := range h.peers {
		if p == nil {
			continue
		}
		if politely {
			p.Close()
			h.s.check.closedCore(p)
		}
		p.dead = true
	}
	for _, t := range h.s.links {
		for _, e := range t.ends {
			if e.host == h && e.inc == h.incarnation {
				e.vanish(silent)
			}
		}
	}
}

// peer finds or makes the connection to another host.
func (h *host) peer(to *host) *peer {
	if p := h.peers[to.index]; p != nil {
		return p
	}
	p := h.newPeer(to)
	h.peers[to.index] = p
	return p
}

// dial connects path of p; the outcome comes later.
func (h *host) dial(p *peer, path int) {
	s, to := h.s, p.remote
	s.counts.Dials++
	s.check.dialed(p)
	rtt := s.cfg.Scenario.latency + s.upTo(s.cfg.Scenario.latency)
	fail := func() {
		if !p.dead {
			p.Dialed(path, nil, errLink)
		}
	}
	switch {
	case to.down || to.unlistened || to.refusing > s.now:
		s.after(rtt, func() { h.awake(fail) })
		return
	case !s.calm && s.chance(s.cfg.Scenario.dialLost):
		s.after(s.upTo(3*time.Second), func() { h.awake(fail) })
		return
	}
	t := s.newTCP(h, to, path)
	a, b := t.ends[0], t.ends[1]
	s.tracef("%v -> %v dials path %d: tcp%d", h, to, path, t.id)
	abandon := !s.calm && s.chance(s.cfg.Scenario.abandon)
	s.after(rtt, func() {
		h.awake(func() {
			switch {
			case p.dead:
				a.vanish(false)
			case abandon: // the link was established, and the dial timed out all the same
				a.close()
				p.Dialed(path, nil, errLink)
			default:
				a.p = p
				p.Dialed(path, a, nil)
			}
		})
	})
	to.accepting = max(to.accepting, s.now+rtt/2+s.upTo(s.cfg.Scenario.processing))
	s.after(to.accepting-s.now, func() { // listeners keep the order
		to.awake(func() {
			switch {
			case to.down || b.inc != to.incarnation:
				b.vanish(false)
			case to.bad || to.rejects > s.now:
				b.close()
			default:
				to.accept(h, b)
			}
		})
	})
}

// accept is the listener.
func (h *host) accept(from *host, e *end) {
	p := h.peer(from)
	if h.linux && h.addr.Compare(from.addr) > 0 && !p.anyDown() {
		h.s.tracef("%v rejects tcp%d: no path is down", h, e.t.id)
		e.close()
		return
	}
	e.p = p
	p.Accepted(e, e.t.sport)
}

// awake calls fn now, or when the host's process runs again, in the order of
// the calls.
func (h *host) awake(fn func()) {
	if h.frozen <= h.s.now && len(h.waiting) == 0 {
		fn()
		return
	}
	if h.waiting = append(h.waiting, fn); len(h.waiting) == 1 {
		h.s.after(max(0, h.frozen-h.s.now), h.thaw)
	}
}

func (h *host) thaw() {
	if d := h.frozen - h.s.now; d > 0 {
		h.s.after(d, h.thaw)
		return
	}
	fns := h.waiting
	h.waiting = nil
	for _, fn := range fns {
		h.s.fibers.run(fn) // each on a stack of its own, as one that is suspended must not hold up the next
	}
}

// mark sets or clears a port in the congestion map.
func (h *host) mark(port uint16, congested bool) {
	if congested && !h.cmap.Set(port) || !congested && !h.cmap.Clear(port) {
		return
	}
	h.s.tracef("%v port %d congested=%v", h, port, congested)
	h.mapChanged()
}

// mapChanged tells all peers the congestion map.
func (h *host) mapChanged() {
	for _, p := range h.peers {
		if p != nil {
			p.with(p.Core.MapChanged)
		}
	}
}
