package iwarp

import "time"

// Bounds of what is held back.
const (
	streakGap   = 50 * time.Microsecond  // between two posts of a streak
	streakTime  = 100 * time.Microsecond // a request waits no longer than about this
	streakMost  = 512                    // most requests held back
	streakBytes = batchBytes
)

// streak holds back single small requests of a program that posts one after the
// other without waiting for anything: written one by one each would cost a
// system call here and a wake-up there. They leave together, when there are
// enough of them, when the program looks for completions and finds none, or
// after streakTime. A program that has received something in between is
// answering, and its request leaves at once.
//
// All fields are guarded by QP.mu.
type streak struct {
	last    time.Time // time of the last post
	heard   bool      // something has come since last
	n       int       // requests held back
	bytes   uint32
	waiting bool // timer runs, and the send queue's CQ knows
	timer   *time.Timer
}

// holdLocked tells whether n requests just posted, of so many bytes, shall wait
// for more.
func (q *QP) holdLocked(n int, bytes uint32) bool {
	k := &q.streak
	now := time.Now()
	quick := !k.heard && now.Sub(k.last) < streakGap
	k.last, k.heard = now, false
	k.n += n
	k.bytes += bytes
	if !quick || k.n >= streakMost || k.bytes >= streakBytes {
		q.letGoLocked()
		return false
	}
	if !k.waiting {
		k.waiting = true
		q.cfg.SendCQ.held.Add(1)
		if k.timer == nil {
			k.timer = time.AfterFunc(streakTime, q.letGo)
		} else {
			k.timer.Reset(streakTime)
		}
	}
	return true
}

// letGoLocked ends the waiting; the caller sees to it that all is sent.
func (q *QP) letGoLocked() {
	k := &q.streak
	k.n, k.bytes = 0, 0
	if k.waiting {
		k.waiting = false
		k.timer.Stop()
		q.cfg.SendCQ.held.Add(-1)
	}
}

// letGo sends what is held back.
func (q *QP) letGo() {
	q.mu.Lock()
	run := q.streak.waiting && !q.over && q.stream.kickLocked()
	q.letGoLocked()
	s := q.stream
	q.mu.Unlock()
	if run {
		s.transmit()
	}
}

// letGo sends what queue pairs hold back whose completions are wanted here.
func (c *CQ) letGo() {
	if c.held.Load() == 0 {
		return
	}
	c.mu.Lock()
	users := keys(c.users)
	c.mu.Unlock()
	for _, q := range users {
		q.letGo()
	}
}
