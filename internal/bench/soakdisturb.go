package bench

import (
	"slices"
	"time"
)

// faultEvery is the mean time between faults.
const faultEvery = 300 * time.Millisecond

// disturbance is what happens again and again in a soak, on the average every mean.
type disturbance struct {
	mean time.Duration
	next time.Time
	do   func() error
}

// disturb kills, restarts and cuts until the run is over, one thing at a time.
func (s *soakRun) disturb(end time.Time) error {
	list := []*disturbance{{mean: s.w.Kills, do: s.killOne}, {mean: s.w.Restarts, do: s.restartOne}}
	if s.w.Faults {
		list = append(list, &disturbance{mean: faultEvery, do: s.cutOne})
	}
	list = slices.DeleteFunc(list, func(d *disturbance) bool { return d.mean == 0 })
	c := &cell{soft: s.soft, hard: s.hard}
	for _, d := range list {
		d.next = s.after(d.mean)
	}
	for len(list) > 0 && !c.interrupted() {
		first := slices.MinFunc(list, func(a, b *disturbance) int { return a.next.Compare(b.next) })
		if first.next.After(end) {
			break
		}
		c.sleep(time.Until(first.next))
		if c.interrupted() {
			return nil
		}
		if err := first.do(); err != nil {
			return err
		}
		first.next = s.after(first.mean)
	}
	c.sleep(time.Until(end))
	return nil
}

// after is half of a mean time from now to one and a half.
func (s *soakRun) after(mean time.Duration) time.Time {
	return time.Now().Add(mean/2 + time.Duration(s.rng.Int64N(int64(mean)+1)))
}

// killOne kills a process at whatever point, and starts another in its place.
func (s *soakRun) killOne() error {
	all, i := side(s.rng.IntN(2)), s.rng.IntN(s.w.Processes)
	c := s.crew[all][i]
	s.mu.Lock()
	s.ready = slices.DeleteFunc(s.ready, func(r *child) bool { return r == c })
	s.mu.Unlock()
	c.destroy()
	s.acct.Kills++
	return s.start(all, i)
}

// restartOne ends a daemon, as SIGTERM does or as SIGKILL, and starts another in its
// place. Its applications attach to that by themselves.
func (s *soakRun) restartOne() error {
	all := side(s.rng.IntN(2))
	if all == serverSide {
		s.mu.Lock()
		s.hosts++ // first: whatever happens from now on may be due to the restart
		s.mu.Unlock()
	}
	d := s.r.daemons
	c := d.side[all]
	c.watch(nil)
	if s.rng.IntN(2) == 0 {
		c.destroy()
	} else if err := c.end(); err != nil {
		return err
	}
	s.acct.Restarts++
	c, err := s.r.startDaemon(d, all)
	if err != nil {
		return err
	}
	s.mu.Lock()
	d.side[all] = c
	s.mu.Unlock()
	c.watch(s.lose)
	return nil
}

// cutOne cuts connections of a daemon, or of a process that is a node.
func (s *soakRun) cutOne() error {
	all, i := side(s.rng.IntN(2)), s.rng.IntN(s.w.clients())
	c := s.crew[all][i%len(s.crew[all])]
	if s.attached() {
		c = s.r.daemons.side[all]
	}
	r, err := c.call(request{Op: opCut})
	s.acct.Cuts += r.Snap.Count
	return err
}
