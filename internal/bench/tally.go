package bench

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"
)

// tally counts what one receiver got and lets another goroutine wait for a
// count.
type tally struct {
	n      atomic.Uint64
	target atomic.Uint64
	hit    chan struct{} // cap 1: has a token when n has reached target
}

func newTally() *tally { return &tally{hit: make(chan struct{}, 1)} }

func (t *tally) add(n int) {
	now := t.n.Add(uint64(n))
	if want := t.target.Load(); want != 0 && now >= want {
		t.signal()
	}
}

func (t *tally) signal() {
	select {
	case t.hit <- struct{}{}:
	default:
	}
}

// wait returns when the count is target; it is an error if nothing more came
// for limit, or too much.
func (t *tally) wait(target uint64, limit time.Duration) error {
	t.target.Store(target)
	defer t.target.Store(0)
	idle := time.NewTimer(limit)
	defer idle.Stop()
	for seen := t.n.Load(); ; {
		if n := t.n.Load(); n > target {
			return fmt.Errorf("received %d messages of %d sent", n, target)
		} else if n == target {
			return nil
		}
		select {
		case <-t.hit:
		case <-idle.C:
			n := t.n.Load()
			if n == seen {
				return fmt.Errorf("received %d messages of %d sent, and no more for %v", n, target, limit)
			}
			seen = n
			idle.Reset(limit)
		}
	}
}

// Messages carry their number in bytes 0 to 7 and a time in bytes 8 to 15,
// little-endian, as far as they are long enough. Numbers start at 0.
const (
	numberEnd = 8
	stampEnd  = 16
)

func putNumber(b []byte, n uint64) {
	if len(b) >= numberEnd {
		binary.LittleEndian.PutUint64(b, n)
	}
}

func numberOf(b []byte) uint64 {
	if len(b) < numberEnd {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

// checkMessage tells whether a one-way or ping-pong message is the one awaited.
func checkMessage(b []byte, size int, n uint64) error {
	if len(b) != size {
		return fmt.Errorf("message %d has %d bytes, not %d", n, len(b), size)
	}
	if size >= numberEnd {
		if got := binary.LittleEndian.Uint64(b); got != n {
			return fmt.Errorf("message %d came where %d was due", got, n)
		}
	}
	return nil
}

// epoch is the origin of stamps: the monotonic clock of this process.
var epoch = time.Now()

func clock() int64 { return int64(time.Since(epoch)) }

func putStamp(b []byte, now int64) { binary.LittleEndian.PutUint64(b[numberEnd:], uint64(now)) }

// stampOf is the stamp of a message, of a short one 0.
func stampOf(b []byte) int64 {
	if len(b) < stampEnd {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(b[numberEnd:]))
}
