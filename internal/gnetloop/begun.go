package gnetloop

import (
	"fmt"
	"syscall"
	"time"
)

// ErrUnfinished ends a connection whose peer has begun a message and does not go on, or goes
// on too slowly. It is syscall.ETIMEDOUT.
var ErrUnfinished = fmt.Errorf("peer has not finished a message that it has begun: %w", syscall.ETIMEDOUT)

// Beginner is a Handler that can tell what its peer has begun. The connection ends with
// ErrUnfinished when nothing of that comes for Options.Silence (20 s if that is never), or
// when the whole takes longer than that and a second for each begunRate bytes. For a peer
// that is known the limit is knownPatience: its process may be stopped, and its TCP answers.
type Beginner interface {
	// Begun tells how many bytes the peer still has to send of the message at hand, 0 if
	// none is begun, the message's number, and whether the peer is known. Any goroutine may
	// call it.
	Begun() (number uint64, left int, known bool)
}

// knownPatience is how long a peer that is known may leave a message unfinished.
const knownPatience = 10 * time.Minute

// begunRate is how many bytes of a begun message a peer has to send in a second: a message of
// 1 MiB may take four minutes.
const begunRate = 4 << 10

// begun is a message that has come in part. Like silence it takes many looks to find that
// its time is over: what stops this process takes up one look at most.
type begun struct {
	number uint64
	left   int
	went   time.Time // when something of the message came last
	stood  int       // looks since then that have found all read that had come
	until  time.Time // when all of the message has to be there
	looks  int       // looks at the message
}

// look notes what is left of a message and tells whether its time is over. paused is
// whether this side does not read, unread whether something has come that was not read.
func (b *begun) look(now time.Time, number uint64, left int, paused, unread bool, limit time.Duration) bool {
	switch {
	case left == 0:
		*b = begun{}
		return false
	case paused || b.left == 0 || number != b.number:
		*b = begun{number: number, left: left, went: now, until: now.Add(limit + time.Duration(left)*time.Second/begunRate)}
	case left != b.left:
		b.left, b.went, b.stood = left, now, 0
	case !unread:
		b.stood++
	}
	b.looks++
	return b.stood >= silenceLooks && now.Sub(b.went) >= limit || b.looks > silenceLooks && now.After(b.until)
}
