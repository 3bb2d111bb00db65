package simnet

import (
	"math/rand/v2"
	"time"
)

// Scenario says what a run is made of. Zero fields are drawn at random, so
// that the zero Scenario is anything.
type Scenario struct {
	Hosts  int   // 2 to 4
	Paths  []int // number of paths of each host in turn, 1 or 8
	Linux  bool  // one of the hosts is like Linux 6.1
	Bad    bool  // one more host accepts and closes
	Calm   bool  // no faults
	Faults int

	Operations bool // some messages bring operations on the peer's memory
	Holds      bool // ports of a peer take nothing for a while
	Refusals   bool // some ports nobody is bound to, and links that say so before they acknowledge
	Limits     bool // some messages have a time limit
	Stops      bool // processes stop in peace, too
	Impostors  bool // somebody connects from addresses of the hosts
	Lengths    bool // hosts take messages of different lengths, and some are of an earlier version

	sockets    int
	latency    time.Duration
	processing time.Duration // most time that the reader takes
	spread     time.Duration // time over which sending is spread
	cut        float64       // chance of a link to be cut at some byte
	dialLost   float64
	abandon    float64 // chance of a dial to time out as it succeeds
	budgets    []int   // one of which each connection has
	minBuffer  int     // logarithm of the smallest TCP buffer
	messages   int     // messages of each socket
	repath     float64 // chance of a new process to use another number of paths
}

// settleTime bounds how long everything may take after the last fault. A path that has nothing to send is
// dialed again after up to a minute, and may have been lost some seconds after that fault.
const settleTime = 80 * time.Second

// recoverTime bounds how long messages may wait after the last fault where there were
// impostors, whose links last for 5 s.
const recoverTime = 20 * time.Second

func (s *Sim) draw() {
	c := &s.cfg.Scenario
	if c.Hosts == 0 {
		c.Hosts = 2 + s.rng.IntN(6)/4 + s.rng.IntN(8)/7
	}
	if len(c.Paths) == 0 {
		all := [][]int{{1}, {1}, {8}, {1, 8}, {8, 1}}
		c.Paths = pick(s, all)
	}
	c.repath = 0.1
	if c.Holds {
		c.repath = 0.5 // messages held back move between paths
	}
	c.sockets = 1 + s.rng.IntN(4)
	c.latency = pick(s, []time.Duration{10 * time.Microsecond, 200 * time.Microsecond, 2 * time.Millisecond, 20 * time.Millisecond})
	c.minBuffer = 9
	if c.latency > time.Millisecond || c.Lengths {
		c.minBuffer = 13 // with smaller buffers large messages take minutes
	}
	c.processing = pick(s, []time.Duration{0, 50 * time.Microsecond, 5 * time.Millisecond, 50 * time.Millisecond})
	c.spread = pick(s, []time.Duration{5 * time.Millisecond, 100 * time.Millisecond, time.Second})
	c.messages = 1 + s.rng.IntN(60)
	c.budgets = pick(s, [][]int{{0}, {0}, {4 << 10}, {64 << 10}, {0, 4 << 10, 64 << 10}})
	if c.Calm {
		return
	}
	c.cut = pick(s, []float64{0, 0, 0.2, 0.6})
	c.dialLost = pick(s, []float64{0, 0, 0.1})
	c.abandon = pick(s, []float64{0, 0, 0.2})
	if c.Faults == 0 {
		c.Faults = s.rng.IntN(12)
	}
}

// Run makes the run that cfg describes. It returns a *Violation when a promise
// was broken.
func Run(cfg Config) (Counts, error) {
	s := &Sim{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0x5244532f544350))}
	s.check = checker{s: s, lossy: map[[2]*host]bool{}, usurped: map[[2]*host]bool{}, tracks: map[trackKey]*pathTrack{}}
	s.draw()
	sc := &s.cfg.Scenario
	linux := -1
	if sc.Linux {
		linux = s.rng.IntN(sc.Hosts)
	}
	for i := range sc.Hosts {
		s.addHost(sc.Paths[i%len(sc.Paths)], i == linux)
	}
	if sc.Bad {
		s.addHost(8, false).bad = true
	}
	for _, h := range s.hosts {
		h.boot()
		if !h.bad {
			h.bindAll(sc.messages)
		}
	}
	calmAt := sc.spread + s.upTo(time.Second)
	if !sc.Calm {
		for range sc.Faults {
			s.after(s.upTo(calmAt), s.fault)
		}
	}
	s.planHolds(calmAt)
	s.planStops()
	s.planImpostors(calmAt)
	for s.step(calmAt) {
		s.sweep()
	}
	s.now = max(s.now, calmAt)
	s.tracef("calm")
	s.calm, s.calmAt = true, s.now
	for _, h := range s.hosts {
		h.refusing, h.rejects = 0, 0
		if h.bad {
			s.after(0, func() { s.forsake(h) })
		}
	}
	if sc.Holds {
		s.after(0, s.holdHalf)
		s.settle()
		s.check.half()
		s.check.expired()
		s.after(0, s.letGo)
	}
	s.settle()
	s.counts.Elapsed = s.now
	s.check.finish()
	for _, h := range s.hosts {
		for _, p := range h.peers {
			if p != nil {
				p.dead = true
			}
		}
	}
	s.fibers.end()
	if len(s.check.broken) > 0 {
		return s.counts, &Violation{Seed: cfg.Seed, Broken: s.check.broken}
	}
	return s.counts, nil
}

// settle runs until nothing happens any more.
func (s *Sim) settle() {
	limit := s.now + settleTime
	for s.step(limit) && len(s.check.broken) == 0 {
		s.sweep()
	}
	if len(s.events) > 0 && len(s.check.broken) == 0 && !s.cfg.Scenario.Bad {
		s.check.failf("not at rest %v after the last fault", settleTime)
	}
}

// forsake cancels everything for a host that never takes anything.
func (s *Sim) forsake(h *host) {
	for _, k := range s.check.socks {
		if k.pending != nil && k.pending.route.to == h {
			k.pending = nil
		}
		for i := range s.cfg.Scenario.sockets {
			if k.alive {
				k.cancel(route{h, uint16(firstPort + i)}, false)
			}
		}
	}
}

// bindAll binds the host's sockets, each of which will send n messages.
func (h *host) bindAll(n int) {
	for i := range h.s.cfg.Scenario.sockets {
		h.bind(uint16(firstPort+i), n)
	}
}

// sweep forgets the links that are over.
func (s *Sim) sweep() {
	if len(s.links) < 64 {
		return
	}
	live := s.links[:0]
	for _, t := range s.links {
		if !t.ends[0].gone || !t.ends[1].gone {
			live = append(live, t)
		}
	}
	clear(s.links[len(live):])
	s.links = live
}
