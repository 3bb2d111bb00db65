package xctl

import (
	"cmp"
	"time"

	"github.com/rds-go/rds/transport/iwarp/ddp"
)

// InboundConfig says how this side takes messages for shared receive queues.
// Zero values are the defaults.
type InboundConfig struct {
	// MaxSRQ is this side's Block.MaxSRQ; the default is DefaultMaxSRQ.
	MaxSRQ uint32
	// Credit is this side's Block.Credit; the default is DefaultCredit.
	Credit uint8
	// RNR is whether CapRNR was agreed.
	RNR bool

	window  uint32        // most that a Grant grants, at least Credit; 0: inboundWindow. Tests set it
	longest time.Duration // longest wait that a NotReady asks for; 0: maxBackoff. Tests set it
}

// A sender waits for minBackoff when a queue is not ready for the first time, and each time
// twice as long, up to maxBackoff.
const (
	inboundWindow = 1024
	minBackoff    = time.Millisecond
	maxBackoff    = 64 * time.Millisecond
)

// Inbound is the shared receive queues that a connection has brought messages
// for. A queue that does not exist has no entry, so a peer that makes numbers up
// costs nothing: its messages are dropped as they come, and refused when their
// last segment does.
type Inbound struct {
	cfg     InboundConfig
	queues  map[SRQN]*Receiver
	removed bool // some queue was removed once
	gone    map[SRQN]span
}

// span is which messages to a queue that is gone a sender may have begun before it
// could know.
type span struct{ first, last uint32 }

// NewInbound makes the queues of a connection.
func NewInbound(c InboundConfig) *Inbound {
	c.MaxSRQ, c.Credit = cmp.Or(c.MaxSRQ, DefaultMaxSRQ), cmp.Or(c.Credit, DefaultCredit)
	c.window, c.longest = cmp.Or(c.window, inboundWindow), cmp.Or(c.longest, maxBackoff)
	return &Inbound{cfg: c, queues: make(map[SRQN]*Receiver), gone: make(map[SRQN]span)}
}

// Find returns the entry of a queue, nil if there is none.
func (t *Inbound) Find(n SRQN) *Receiver {
	r := t.queues[n]
	if r != nil && r.over() {
		delete(t.queues, n)
		return nil
	}
	return r
}

// Adopt makes an entry for a queue that exists and has none, if the segment is
// the first of a message; its number is then the one that counts on. It returns
// nil for another segment, whose message was refused from its start, and where
// there are MaxSRQ entries.
func (t *Inbound) Adopt(n SRQN, h *ddp.Untagged) *Receiver {
	if h.MO != 0 || uint64(len(t.queues)) >= uint64(t.cfg.MaxSRQ) {
		return nil
	}
	start := h.MSN - 1
	r := &Receiver{
		srq: n, cfg: &t.cfg, queue: ddp.QueueAt(h.MSN),
		acked: start, limit: start + uint32(t.cfg.Credit), window: uint32(t.cfg.Credit),
	}
	r.told = Credit{n, r.acked, r.limit}
	r.Said()
	r.allow = r.limit
	if t.removed {
		// The sender may have been granted more by an entry that is gone.
		r.allow = start + t.cfg.window + 1
	}
	t.queues[n] = r
	delete(t.gone, n)
	return r
}

// Unknown refuses the message of a segment without an entry, once: with its last
// segment.
func Unknown(n SRQN, h *ddp.Untagged) (nak NAK, last bool) {
	return NAK{SRQ: n, MSN: h.MSN, Code: NAKUnknown}, h.Last
}

// Blameless reports whether the sender of a message that Unknown refuses could not
// know better: it was within what was granted when its queue went. That is an answer
// for each such message, once, and for the queues that went last, MaxSRQ of them.
func (t *Inbound) Blameless(nak NAK) bool {
	g, ok := t.gone[nak.SRQ]
	if !ok || after(g.first, nak.MSN) || after(nak.MSN, g.last) {
		return false
	}
	t.gone[nak.SRQ] = span{nak.MSN + 1, g.last}
	return true
}

// Remove takes out the entry of a queue that exists no more. What is on its way is refused, or is the first of a queue
// that has the same number again: either way the sender learns of each. The
// returned CREDIT, the last of the entry, lets a sender without credit find out.
//
// An entry stays while the rest of a message is due that was refused already, or
// it would be refused twice. That of a queue that discards stays until the sender
// resumes: without it a message that will be replayed could be delivered to the
// next queue of that number before.
func (t *Inbound) Remove(n SRQN) (last Credit, ok bool) {
	r := t.queues[n]
	if r == nil || r.gone {
		return Credit{}, false
	}
	t.removed = true
	r.raise(r.consumed() + uint32(t.cfg.Credit))
	if r.discard {
		r.raise(r.stopAt + 1)
	}
	if r.gone = true; r.over() {
		delete(t.queues, n)
	}
	if uint64(len(t.gone)) >= uint64(t.cfg.MaxSRQ) {
		clear(t.gone)
	}
	t.gone[n] = span{r.consumed() + 1, r.limit}
	return Credit{n, r.acked, r.limit}, true
}

// Prune removes the entries of queues that exist no more, and gives last what
// Remove returns. The numbers of queues that came and went would otherwise use
// MaxSRQ up; a message in the middle keeps its entry.
func (t *Inbound) Prune(exists func(SRQN) bool, last func(Credit)) {
	for n, r := range t.queues {
		if r.queue.Open() || exists(n) {
			continue
		}
		if c, ok := t.Remove(n); ok {
			last(c)
		}
	}
}

// Resume takes a RESUME. An error ends the connection: there was nothing to
// resume, or not at that number.
func (t *Inbound) Resume(rec Resume) error {
	r := t.queues[rec.SRQ]
	if r == nil {
		return ddp.ErrMSNRange
	}
	if err := r.resume(rec.MSN); err != nil {
		return err
	}
	if r.over() {
		delete(t.queues, rec.SRQ)
	}
	return nil
}

// Len is how many entries there are.
func (t *Inbound) Len() int { return len(t.queues) }
