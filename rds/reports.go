package rds

import (
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/rds-go/rds/xrc"
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

	objects func() *xrc.Objects    // objects of XRC, listed once, when somebody asks for them
	text    func() ([]byte, error) // info as JSON, made once
	large   func() ([]byte, error) // info with the objects as JSON, made once
}

// Report is Info for programs that ask often, such as a server of metrics: those that ask
// at a time get one snapshot, and the node spends a tenth of one processor's time on them at
// most. What it returns is shared and must not be changed. Unlike Info it has the parts named,
// too.
func (n *Node) Report(parts ...InfoPart) (Info, error) {
	s := n.report(n.now(), nil)
	return s.with(slices.Contains(parts, InfoObjects)), s.err
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
		s.objects = sync.OnceValue(n.listObjects)
		s.text = sync.OnceValues(func() ([]byte, error) { return s.encode(false) })
		s.large = sync.OnceValues(func() ([]byte, error) { return s.encode(true) })
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

// maxObjects bounds each kind of objects that a report lists.
const maxObjects = 1 << 17

// listObjects lists the objects of XRC, nil if there is no XRC. The node rests as after a
// report.
func (n *Node) listObjects() *xrc.Objects {
	if n.xrc == nil {
		return nil
	}
	begun := n.now()
	list := n.xrc.Objects().List(maxObjects)
	ended := n.now()
	r := &n.reports
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rest.Before(ended) {
		r.rest = ended
	}
	r.rest = r.rest.Add(reportRest * ended.Sub(begun))
	return &list
}

// with is the snapshot's Info, with the objects of XRC if they are wanted.
func (s *snapshot) with(objects bool) Info {
	info := s.info
	if objects && s.err == nil {
		info.Objects = s.objects()
	}
	return info
}

// encode is all of a snapshot that is made, as applications get it.
func (s *snapshot) encode(objects bool) ([]byte, error) {
	info := s.with(objects)
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
