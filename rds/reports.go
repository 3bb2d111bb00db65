package rds

import (
	"encoding/json"
	"sync"
	"time"
)

// Bounds of what reports cost the node.
const (
	reportAge   = 250 * time.Millisecond // how old a report may be that an application gets
	reportRest  = 9                      // rest after making or sending a report, in the time that took: a tenth of the time at most is spent so
	reportLeast = 50 * time.Millisecond  // shortest rest of a user's applications
	reportPause = time.Second            // longest rest of a user's applications
)

// reports makes snapshots of a node for all who ask: one at a time, and none while it rests
// after the one before.
type reports struct {
	mu   sync.Mutex // guards the fields below; a leaf
	last *snapshot  // the last one made, or being made
	rest time.Time  // no snapshot is begun before
	made uint64
}

// snapshot is an Info that many read.
type snapshot struct {
	begun time.Time
	done  chan struct{} // closed when info and err are set
	info  Info
	err   error

	text func() ([]byte, error) // all of info as JSON, made once
}

// Report is Info for programs that ask often, such as a server of metrics: those that ask
// at a time get one snapshot, and the node spends a tenth of one processor's time on them at
// most. What it returns is shared and must not be changed.
func (n *Node) Report() (Info, error) {
	s := n.report(n.now(), nil)
	return s.info, s.err
}

// report is a snapshot that was begun at since or later, nil if stop is closed before.
func (n *Node) report(since time.Time, stop <-chan struct{}) *snapshot {
	r := &n.reports
	for {
		r.mu.Lock()
		s, now := r.last, n.now()
		if s != nil && (s.under() || !s.begun.Before(since)) {
			r.mu.Unlock()
			select {
			case <-s.done:
			case <-stop:
				return nil
			}
			if !s.begun.Before(since) {
				return s
			}
			continue
		}
		if wait := r.rest.Sub(now); wait > 0 {
			r.mu.Unlock()
			if !pauseFor(wait, stop) {
				return nil
			}
			continue
		}
		s = &snapshot{begun: now, done: make(chan struct{})}
		s.text = sync.OnceValues(s.encode)
		r.last = s
		r.made++
		r.mu.Unlock()
		s.info, s.err = n.Info()
		r.mu.Lock()
		ended := n.now()
		r.rest = ended.Add(reportRest * ended.Sub(now))
		r.mu.Unlock()
		close(s.done)
		return s
	}
}

// count is how many snapshots were made.
func (r *reports) count() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.made
}

// encode is all of a snapshot that is made, as applications get it.
func (s *snapshot) encode() ([]byte, error) {
	info := s.info
	info.Provider = ProviderDaemon
	return json.Marshal(&info)
}

// under tells whether the snapshot is being made.
func (s *snapshot) under() bool {
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

// pauseFor waits, and tells whether it was to the end.
func pauseFor(d time.Duration, stop <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-stop:
		return false
	}
}

func (s *nodeSocket) whose() whose { return s.owner.who().whose }
