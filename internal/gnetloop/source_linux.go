package gnetloop

import (
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Source is a descriptor that a loop watches for its Server. It is the caller's, who may
// close it after Stop.
type Source struct {
	loops  *Loops
	fd     int
	server Server
	at     atomic.Pointer[berth] // where the source is; changed by the loop there
	poked  atomic.Bool           // Poke was called, and the turn has not begun

	// For the loop that has the source:
	id      uint64 // number among the loop's members; 0: the descriptor is not watched
	rung    bool   // the descriptor was readable since the last turn
	waits   bool   // the source is in the loop's turns
	stopped bool
	mutes   uint64 // times that the source was muted
}

// berth is a stay of a source at a loop. A source that comes back to a loop has another one.
type berth struct {
	l    *loop
	turn func() // gives the source a turn, on the loop
}

func (s *Source) berth(l *loop) *berth {
	b := &berth{l: l}
	b.turn = func() {
		s.poked.Store(false)
		if s.at.Load() != b { // the source has moved meanwhile
			s.Poke()
			return
		}
		s.queue(l)
	}
	return b
}

// Poke has the source take a turn soon, though nobody has written to its descriptor.
func (s *Source) Poke() {
	if !s.poked.Swap(true) {
		b := s.at.Load()
		b.l.post(b.turn)
	}
}

// Watch serves a descriptor on one of the loops, which begins with a turn.
func (ls *Loops) Watch(fd int, server Server) *Source {
	s := &Source{loops: ls, fd: fd, server: server}
	ls.mu.Lock()
	l := slices.MinFunc(ls.all, func(a, b *loop) int { return a.served - b.served })
	l.served++
	ls.mu.Unlock()
	s.at.Store(s.berth(l))
	l.post(func() { s.add(l) })
	return s
}

// do has f called on the loop that has the source then. It is false if the loops have ended.
func (s *Source) do(f func(*loop)) bool {
	b := s.at.Load()
	return b.l.post(func() { // behind the task that has added the source
		if s.at.Load() != b { // the source has moved meanwhile
			s.do(f)
			return
		}
		f(b.l)
	})
}

// Stop ends the watch. When it has returned no turn is under way, nor will there be one. It
// must not be called on an event loop, and once.
func (s *Source) Stop() {
	done := make(chan struct{})
	if !s.do(func(l *loop) {
		s.remove(l)
		s.stopped = true
		s.loops.mu.Lock()
		l.served--
		s.loops.mu.Unlock()
		close(done)
	}) {
		return
	}
	<-done
}

// Near has the source served by the loop that has the connections with a peer, if there are
// any: what the source has for the peer is then written by the loop that reads from the peer.
func (s *Source) Near(peer netip.Addr) {
	s.loops.mu.Lock()
	h := s.loops.homes[peer]
	var to *loop
	if h != nil {
		to = h.l
	}
	s.loops.mu.Unlock()
	if to == nil || to == s.at.Load().l {
		return
	}
	s.do(func(l *loop) {
		if s.stopped || l == to {
			return
		}
		s.remove(l)
		s.loops.mu.Lock()
		l.served--
		to.served++
		s.loops.mu.Unlock()
		// In this order: whatever is posted for the new berth comes behind the task that adds
		// the source there.
		to.post(func() { s.add(to) })
		s.at.Store(s.berth(to))
	})
}

// add begins to watch the descriptor, with a turn: rings from before may have been read.
func (s *Source) add(l *loop) {
	s.watch(l)
	s.queue(l)
}

// watch has the loop look at the descriptor.
func (s *Source) watch(l *loop) {
	if s.id != 0 || s.stopped {
		return
	}
	l.last++
	if l.ctl(unix.EPOLL_CTL_ADD, s.fd, l.last) == nil {
		s.id = l.last
		l.members[s.id] = s
	}
}

// unwatch ends that.
func (s *Source) unwatch(l *loop) {
	if s.id != 0 {
		_ = l.ctl(unix.EPOLL_CTL_DEL, s.fd, s.id)
		delete(l.members, s.id)
		s.id = 0
	}
}

// remove takes the source from the loop.
func (s *Source) remove(l *loop) {
	s.unwatch(l)
	s.waits = false
	if i := slices.Index(l.turns, s); i >= 0 {
		l.turns[i] = nil
	}
	s.mutes++ // the end of a mute is not for the source any more
}

// ready is for an event: the descriptor is readable, or nobody is left who could ring.
func (s *Source) ready(l *loop, _ uint32) {
	s.rung = true
	s.queue(l)
}

func (s *Source) queue(l *loop) {
	if !s.waits && !s.stopped {
		s.waits = true
		l.turns = append(l.turns, s)
	}
}

// turn serves the source.
func (s *Source) turn(l *loop) {
	if s == nil || !s.waits { // the source was removed
		return
	}
	rung := s.rung
	s.waits, s.rung = false, false
	switch next, after := s.server.Serve(rung); next {
	case Yield:
		l.yield = true
		s.queue(l)
	case Again:
		s.queue(l)
	case Mute:
		s.unwatch(l)
		s.mutes++
		if n := s.mutes; after > 0 {
			time.AfterFunc(after, func() {
				s.do(func(l *loop) {
					if s.mutes == n {
						s.watch(l)
					}
				})
			})
		}
	}
}
