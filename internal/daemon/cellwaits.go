package daemon

import (
	"slices"
	"time"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/socket"
)

// Senders reads what the application says its senders wait for, as far as that can be true.
func (a *appSocket) Senders() (out []socket.SenderWait) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.gone.Load() {
		return nil
	}
	now := time.Now()
	for _, c := range a.cell.Waits {
		code, senders, peer, port, since := c.Get()
		cause := socket.WaitCauses[code]
		if cause == "" {
			continue
		}
		w := socket.SenderWait{Cause: cause, Any: code == ipc.WaitRoom || code == ipc.WaitMemory, Senders: max(senders, 1), Since: time.Unix(0, since)}
		if w.Since.Before(a.sess.since) {
			w.Since = a.sess.since
		}
		if w.Since.After(now) {
			w.Since = now
		}
		if !w.Any {
			w.Peer = peer
		}
		if code == ipc.WaitPort {
			w.Port = port
		}
		if !slices.ContainsFunc(out, func(o socket.SenderWait) bool { return o.Same(&w) }) {
			out = append(out, w)
		}
	}
	return out
}

// tallies is what of an application's sums in a cell was counted.
type tallies struct{ takenBytes, takenMessages, blocked, congested, full uint64 }

// maxTally bounds what one look may count of sends: an application may write any number.
const maxTally = 1 << 32

// Tally counts what the application has taken, and its sends, since the last look.
func (a *appSocket) Tally() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.gone.Load() {
		a.tallyLocked()
	}
}

// tallyLocked returns the messages that the application was given and has not taken.
func (a *appSocket) tallyLocked() (left int64) {
	x, c := a.sess, &a.sess.node.Counters
	bytes, left := a.Outstanding()
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
	c.RecvDelivered.Add(n)
	n = min(maxTally, grown(a.cell.Blocked.Load(), &a.counted.blocked))
	x.congBlocked.Add(n)
	c.CongSendBlocked.Add(n)
	n = min(maxTally, grown(a.cell.Congested.Load(), &a.counted.congested))
	x.congErrors.Add(n)
	c.CongSendError.Add(n)
	n = min(maxTally, grown(a.cell.Full.Load(), &a.counted.full))
	x.queueFull.Add(n)
	c.SendQueueFull.Add(n)
	return left
}
