package objects

import "time"

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
	s := Stats{
		Sessions: len(d.sessions), Domains: len(d.xrcds), SRQs: len(d.queues), Initiators: len(d.initiators),
		Services: len(d.services), Hosts: len(d.hosts),
		Suspended: d.suspended.list.Len(), EventsLost: d.eventsLost, Leaks: d.leaks,
	}
	for _, t := range d.targets {
		state := t.current()
		s.Targets[state]++
		if t.attr == nil {
			s.Tombstones++
		}
		if t.cause == ErrPeerGone || t.cause == ErrIncarnation || t.cause == ErrGrace {
			s.PeerGone++
		}
		if state == StateError && (s.OldestDead.IsZero() || t.since.Before(s.OldestDead)) {
			s.OldestDead = t.since
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
