package rds

import (
	"encoding/json"
	"net/netip"
	"slices"
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

// whose is who has something in a report: the applications of a user, or the node.
type whose struct {
	app bool
	uid uint32
}

func (s *nodeSocket) whose() whose { return s.owner.who().whose }

// leftOut is what Info.LeftOut says to those who are shown their own.
const leftOut = "what other users have is left out, and counters: root and the group of the control socket see everything"

// of is what the applications of a user have, and the connections that they use.
func (i *Info) of(uid uint32) Info {
	mine := whose{true, uid}
	out := Info{Provider: i.Provider, Addresses: i.Addresses, Time: i.Time, LeftOut: leftOut}
	bound := make(map[netip.AddrPort]bool)
	for _, s := range i.Sockets {
		if s.whose == mine {
			out.Sockets = append(out.Sockets, s)
			bound[s.Bound] = true
		}
	}
	type pair struct{ local, remote netip.Addr }
	uses := make(map[pair]bool)
	for _, c := range i.Connections {
		if slices.Contains(c.users, uid) {
			out.Connections = append(out.Connections, c)
			uses[pair{c.Local, c.Remote}] = true
		}
	}
	for _, c := range i.TCP {
		if uses[pair{c.Local.Addr(), c.Remote.Addr()}] {
			out.TCP = append(out.TCP, c)
		}
	}
	for _, c := range i.XRC {
		if uses[pair{c.Local.Addr(), c.Remote.Addr()}] {
			out.XRC = append(out.XRC, c)
		}
	}
	queued := func(all []QueuedInfo) (list []QueuedInfo) {
		for _, m := range all {
			if m.whose == mine {
				list = append(list, m)
			}
		}
		return list
	}
	out.SendQueue, out.Retransmit, out.Receive = queued(i.SendQueue), queued(i.Retransmit), queued(i.Receive)
	for _, s := range i.Sessions {
		if s.UID == uid {
			out.Sessions = append(out.Sessions, s)
		}
	}
	for _, u := range i.Users {
		if u.UID == uid {
			out.Users = append(out.Users, u)
		}
	}
	for _, w := range i.Waits {
		if w.whose != mine && !(w.Cause == CauseRefused && bound[w.Local]) {
			continue
		}
		if w.holder != mine {
			w.Owner, w.OwnerPID = "", 0
		}
		out.Waits = append(out.Waits, w)
	}
	return out
}
