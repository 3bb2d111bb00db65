package xrc

import "time"

// counters are gauges and counts kept as things happen. Under Device.mu.
type counters struct {
	targets    [states]int
	tombstones int
	peerGone   int
	leaks      uint64
	eventsLost uint64 // events lost by sessions that ended
}

// Stats is a snapshot of what a device has.
type Stats struct {
	Sessions, Domains, SRQs, Initiators, Services, Hosts int

	// Targets is how many there are in each State; those in StateError wait for
	// the sessions registered with them.
	Targets [states]int
	// Suspended is how many queue pairs have lost their connection and wait.
	Suspended int
	// Tombstones is how many targets in StateError have nothing left but their number.
	Tombstones int
	// PeerGone is how many targets in StateError are there because their peer
	// is: it ended, was restarted, or did not come back in time.
	PeerGone int
	// OldestDead is when the target longest in StateError got there; zero if
	// there is none.
	OldestDead time.Time
	// Resting is how many numbers are not given out yet.
	Resting int
	// EventsLost counts events that queues had no room for, Leaks objects that
	// a session left behind in use.
	EventsLost, Leaks uint64
}

// TotalTargets is how many targets there are.
func (s Stats) TotalTargets() int {
	n := 0
	for _, x := range s.Targets {
		n += x
	}
	return n
}

// Stats takes a snapshot.
func (d *Device) Stats() Stats {
	d.mu.Lock()
	defer d.unlock()
	c := &d.counters
	s := Stats{
		Sessions: len(d.sessions), Domains: len(d.xrcds), SRQs: len(d.queues), Initiators: len(d.initiators),
		Services: len(d.services), Hosts: len(d.hosts),
		Targets: c.targets, Suspended: d.suspended.list.Len(), Tombstones: c.tombstones, PeerGone: c.peerGone,
		EventsLost: c.eventsLost, Leaks: c.leaks,
	}
	for _, l := range [...]*deadlines{&d.errored, &d.tombs} {
		if w, ok := l.first(); ok && (s.OldestDead.IsZero() || w.since.Before(s.OldestDead)) {
			s.OldestDead = w.since
		}
	}
	for k := range d.numbers {
		s.Resting += d.numbers[k].atRest()
	}
	s.Resting += d.sinks.atRest()
	for x := range d.sessions {
		s.EventsLost += x.events.lostCount()
	}
	return s
}
