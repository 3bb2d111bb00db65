package rds

import (
	"slices"
	"time"

	"github.com/rds-go/rds/internal/ipc"
)

// senders reads what the application says its senders wait for, as far as that can be true.
func (a *appSocket) senders() (out []senderWait) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.gone.Load() {
		return nil
	}
	now := time.Now()
	for _, c := range a.cell.Waits {
		code, senders, peer, port, since := c.Get()
		cause := waitCauses[code]
		if cause == "" {
			continue
		}
		w := senderWait{cause: cause, any: code == ipc.WaitRoom || code == ipc.WaitMemory, senders: max(senders, 1), since: time.Unix(0, since)}
		if w.since.Before(a.sess.since) {
			w.since = a.sess.since
		}
		if w.since.After(now) {
			w.since = now
		}
		if !w.any {
			w.peer = peer
		}
		if code == ipc.WaitPort {
			w.port = port
		}
		if !slices.ContainsFunc(out, func(o senderWait) bool { return o.same(&w) }) {
			out = append(out, w)
		}
	}
	return out
}

// tallies is what of an application's sums in a cell was counted.
type tallies struct{ takenBytes, takenMessages, blocked, congested, full uint64 }

// maxTally bounds what one look may count of sends: an application may write any number.
const maxTally = 1 << 32

// tally counts what the application has taken, and its sends, since the last look.
func (a *appSocket) tally() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.gone.Load() {
		a.tallyLocked()
	}
}

// tallyLocked returns the messages that the application was given and has not taken.
func (a *appSocket) tallyLocked() (left int64) {
	x, c := a.sess, &a.sess.node.counters
	bytes, left := a.outstanding()
	grown := func(now uint64, last *uint64) uint64 {
		if now <= *last { // The application may set its sum back; the daemon's count never goes back.
			return 0
		}
		n := now - *last
		*last = now
		return n
	}
	x.recvBytes.Add(grown(uint64(max(0, a.gaveBytes.Load()-bytes)), &a.counted.takenBytes))
	n := grown(uint64(max(0, a.gaveCount.Load()-left)), &a.counted.takenMessages)
	x.recvMessages.Add(n)
	c.recvDelivered.Add(n)
	n = min(maxTally, grown(a.cell.Blocked.Load(), &a.counted.blocked))
	x.congBlocked.Add(n)
	c.congSendBlocked.Add(n)
	n = min(maxTally, grown(a.cell.Congested.Load(), &a.counted.congested))
	x.congErrors.Add(n)
	c.congSendError.Add(n)
	n = min(maxTally, grown(a.cell.Full.Load(), &a.counted.full))
	x.queueFull.Add(n)
	c.sendQueueFull.Add(n)
	return left
}
