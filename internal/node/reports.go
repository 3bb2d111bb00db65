package node

import (
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/rds/info"
	"github.com/rds-go/rds/xrc/objects"
)

// Bounds of what reports cost the node.
const (
	ReportAge   = 250 * time.Millisecond // how old a report may be that an application gets
	ReportRest  = 9                      // rest after making or sending a report, in the time that took: a tenth of the time at most is spent so
	ReportLeast = 50 * time.Millisecond  // shortest rest of a user's applications
	ReportPause = time.Second            // longest rest of a user's applications
)

// reports makes snapshots of a node for all who ask: one at a time, and none while it rests
// after the one before.
type reports struct {
	mu   lockorder.Mutex[reports] // guards the fields below; a leaf
	last *Snapshot                // the last one made, or being made
	rest time.Time                // no snapshot is begun before
	made uint64
}

// Snapshot is an Info that many read.
type Snapshot struct {
	begun time.Time
	done  chan struct{} // closed when info and err are set
	info  info.Report
	Err   error

	objects func() *objects.Objects // objects of XRC, listed once, when somebody asks for them
	Text    func() ([]byte, error)  // info as JSON, made once
	Large   func() ([]byte, error)  // info with the objects as JSON, made once
}

// Report is Node.Report of package rds.
func (n *Node) Report(parts ...info.InfoPart) (info.Report, error) {
	s := n.Snapshot(time.Now(), nil)
	return s.With(slices.Contains(parts, info.InfoObjects)), s.Err
}

// Snapshot is a snapshot that was begun at since or later, nil if stop is closed before.
func (n *Node) Snapshot(since time.Time, stop <-chan struct{}) *Snapshot {
	r := &n.reports
	for {
		r.mu.Lock()
		s, now := r.last, time.Now()
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
			if !PauseFor(wait, stop) {
				return nil
			}
			continue
		}
		s = &Snapshot{begun: now, done: make(chan struct{})}
		s.objects = sync.OnceValue(n.listObjects)
		s.Text = sync.OnceValues(func() ([]byte, error) { return s.encode(false) })
		s.Large = sync.OnceValues(func() ([]byte, error) { return s.encode(true) })
		r.last = s
		r.made++
		r.mu.Unlock()
		s.info, s.Err = n.Info()
		r.mu.Lock()
		ended := time.Now()
		r.rest = ended.Add(ReportRest * ended.Sub(now))
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
func (n *Node) listObjects() *objects.Objects {
	if n.Xrc == nil {
		return nil
	}
	begun := time.Now()
	list := n.Xrc.Objects().List(maxObjects)
	ended := time.Now()
	r := &n.reports
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rest.Before(ended) {
		r.rest = ended
	}
	r.rest = r.rest.Add(ReportRest * ended.Sub(begun))
	return &list
}

// With is the snapshot's Info, with the objects of XRC if they are wanted.
func (s *Snapshot) With(objects bool) info.Report {
	info := s.info
	if objects && s.Err == nil {
		info.Objects = s.objects()
	}
	return info
}

// encode is all of a snapshot that is made, as applications get it.
func (s *Snapshot) encode(objects bool) ([]byte, error) {
	report := s.With(objects)
	report.Provider = info.ProviderDaemon
	return json.Marshal(&report)
}

// under tells whether the snapshot is being made.
func (s *Snapshot) under() bool {
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

// PauseFor waits, and tells whether it was to the end.
func PauseFor(d time.Duration, stop <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-stop:
		return false
	}
}

func (s *Socket) whose() info.Whose { return s.Owner.Who().Whose }
