package daemon

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/rds/datagram"
)

// A user's share of memory is of pages that were touched: what a session reserves costs
// nothing before. An application touches pages without asking, so that the daemon looks at
// how many there are, and beyond the share refuses what would make more.

// When the daemon looks, and what a user may have beyond the share for a moment.
const (
	pagesEvery = time.Second            // while a user could exceed the share
	pagesSoon  = 100 * time.Millisecond // while a user has half of it
	pagesSlack = 64 << 20               // bytes beyond five quarters of the share
)

// errHog ends a session of a user who has touched far more than the share.
var errHog = errors.New("rds: the user has touched more memory than the share")

// weighLocked counts a session's segment among those of its user.
func (u *user) weighLocked(x *session) {
	u.segments[x.seg] = x
	u.reserved += int64(x.seg.Size())
	if u.over.Load() {
		x.seg.Short().Set()
	}
}

// unweigh follows the end of a segment: its pages have been given back.
func (s *Service) unweigh(u *user, g *sharedSegment) {
	_ = g.file.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := u.segments[g]; ok {
		delete(u.segments, g)
		u.reserved -= int64(g.Size())
	}
}

// watchPages looks at what users have touched until the service ends.
func (s *Service) watchPages() {
	timer := time.NewTimer(pagesEvery)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.quit:
			return
		}
		next := pagesEvery
		for _, u := range s.heavy() {
			if s.look(u) {
				next = pagesSoon
			}
		}
		timer.Reset(next)
	}
}

// lookAgain is look before a user gets another session.
func (s *Service) lookAgain(uid uint32) {
	for _, u := range s.heavy() {
		if u.uid == uid {
			s.look(u)
		}
	}
}

// heavy are the users who could exceed their share, or have.
func (s *Service) heavy() (some []*user) {
	shares := &s.config().Users
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.users {
		if u.over.Load() || shares.Binds(u.uid) && u.reserved > shares.Memory {
			some = append(some, u)
		}
	}
	return some
}

// look compares what a user has touched with the share. It tells whether that is half of
// the share or more.
func (s *Service) look(u *user) bool {
	s.looking.Lock()
	defer s.looking.Unlock()
	if s.moving.Load() != nil { // another process gives pages back
		return false
	}
	all := s.segmentsOf(u)
	var (
		sum, live, most int64 // bytes in all, of sessions that have not ended, and of hog
		hog             *session
	)
	for g, x := range all {
		n := ipc.Touched(g.file)
		sum += n
		if x.ending.Load() {
			continue
		}
		if live += n; n > most {
			most, hog = n, x
		}
	}
	shares := &s.config().Users
	share := shares.Memory
	if !shares.Binds(u.uid) {
		share = math.MaxInt64
	}
	u.touched.Store(sum)
	was := u.over.Load()
	over := sum >= share || was && sum >= share/8*7
	if over && was {
		for _, x := range all {
			x.mem.trim()
		}
	}
	if over != was {
		s.mu.Lock()
		u.over.Store(over) // under the lock: a session that comes meanwhile is among those of segmentsOf, or sees over
		s.mu.Unlock()
		for _, x := range s.segmentsOf(u) {
			x.turnShort(over)
		}
		if over {
			s.log.Warn("a user has used up the share of memory", zap.Uint32("uid", u.uid), zap.Int64("bytes", sum), zap.Int64("share", share), zap.Int("sessions", len(all)))
		} else {
			s.log.Info("a user has memory of the share again", zap.Uint32("uid", u.uid), zap.Int64("bytes", sum))
		}
	}
	if hog != nil && over && live-share > share/4 && live-share-share/4 > pagesSlack {
		s.node.Counters.UserRefused.Add(1)
		hog.end(errHog)
	}
	return sum >= share/2
}

// segmentsOf are the segments of a user.
func (s *Service) segmentsOf(u *user) map[*sharedSegment]*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(u.segments)
}

// turnShort tells the application that its user's share is used up, or that it is not, and
// gives back what is free of the receive arena.
func (x *session) turnShort(short bool) {
	if x.ending.Load() {
		return
	}
	if short {
		x.seg.Short().Set()
		x.mem.trim()
		return
	}
	x.seg.Short().Clear()
	x.out.event(ipc.OpSpace, 0) // senders may wait for memory
	x.poke()                    // messages may
}

// hasMemory is an error if the user's share of memory is used up.
func (s *Service) hasMemory(u *user) error {
	if !u.over.Load() {
		return nil
	}
	s.node.Counters.UserRefused.Add(1)
	return fmt.Errorf("%d bytes of touched memory are the share of user %d: %w", s.config().Users.Memory, u.uid, datagram.ErrQuota)
}

// mayTouch tells whether a piece of the receive arena may be used: while the user's share is
// used up only what was used before, or is in the first MiB.
func (r *receiveMemory) mayTouch(off, size int) bool {
	end := off + size
	if end <= r.touched {
		return true
	}
	if end > ipc.ChunkSize && r.sess.user.over.Load() {
		return false
	}
	r.touched = end
	return true
}

// trim gives back the pages of all chunks in which nothing is allocated.
func (r *receiveMemory) trim() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	r.seg.Segment.Trim(r.arena, r.area, &r.touched)
}
