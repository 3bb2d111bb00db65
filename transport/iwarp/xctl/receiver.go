package xctl

import (
	"time"

	"github.com/rds-go/rds/transport/iwarp/ddp"
)

// Arrival is what a segment is to its queue.
type Arrival uint8

// The arrivals.
const (
	ArrivalFirst Arrival = iota // begins a message: Take, Refuse or NotReady
	ArrivalMore                 // goes where the message's first segment went
	ArrivalDrop                 // belongs to a refused message: goes nowhere
)

// fate is what becomes of the message that is arriving.
type fate uint8

const (
	fateOpen    fate = iota // the fate of the message is not decided
	fateTaken               // a receive buffer has it
	fateRefused             // the sender was told, or knows without
)

// Receiver is the receiving end of one shared receive queue on one connection.
// Each segment of the queue goes through
//
//	a, err := r.Arrive(&h)                  // what is it
//	r.Take() or r.Refuse(...)               // of a first segment: where does it go
//	done := r.Advance(&h, len(payload))     // when the payload is in its place
//
// and the owner delivers the message when done is true. Every message takes one
// number, whatever becomes of it, so both ends agree on the next one without a
// word. Receivers are made by [Inbound].
//
//	┌──────┐  NotReady   ┌─────────┐
//	│ open │ ──────────▶ │ discard │ all that arrives is dropped in silence
//	│      │ ◀────────── │         │
//	└──────┘   RESUME    └─────────┘
type Receiver struct {
	srq   SRQN
	cfg   *InboundConfig
	queue ddp.Queue
	fate  fate

	discard bool
	stop    uint32 // number of the message that began discard
	stopAt  uint32 // limit when discard began
	gone    bool   // the queue was removed meanwhile

	acked  uint32 // Credit.Delivered
	limit  uint32 // Credit.Limit
	allow  uint32 // a sender that knows no RNR must not go beyond this number
	window uint32 // window of the last Grant
	told   Credit // the last Credit that was told
	said   Credit // the last one of them that left at once
	since  time.Time
	wait   time.Duration // backoff of the next NotReady
}

// SRQ is the queue.
func (r *Receiver) SRQ() SRQN { return r.srq }

// Open reports whether the rest of a message is due.
func (r *Receiver) Open() bool { return r.queue.Open() }

// Discarding reports whether everything is dropped until a RESUME comes.
func (r *Receiver) Discarding() bool { return r.discard }

// Arrive checks a segment. An error is a ddp.Error and ends the connection:
// wrong number, wrong offset, kinds mixed, or (ddp.ErrNoBuffer) a message beyond
// the limit from a sender that cannot be told to wait.
func (r *Receiver) Arrive(h *ddp.Untagged) (Arrival, error) {
	if err := r.queue.Check(h); err != nil {
		return ArrivalDrop, err
	}
	if r.queue.Open() {
		if r.fate == fateRefused {
			return ArrivalDrop, nil
		}
		return ArrivalMore, nil
	}
	if r.discard {
		r.fate = fateRefused
		return ArrivalDrop, nil
	}
	if !r.cfg.RNR && after(h.MSN, r.allow) {
		return ArrivalDrop, ddp.ErrNoBuffer
	}
	r.fate = fateOpen
	return ArrivalFirst, nil
}

// Take says that a receive buffer of the queue takes the message.
func (r *Receiver) Take() {
	if r.fate != fateOpen {
		panic("xctl: Take out of turn")
	}
	r.fate = fateTaken
}

// Refuse says that the message is not delivered, and returns what tells the
// sender. It may come as late as before the Advance of the last segment.
func (r *Receiver) Refuse(code NAKCode, info uint32) NAK {
	if r.fate == fateRefused {
		panic("xctl: refused twice")
	}
	r.fate = fateRefused
	msn := r.queue.MSN()
	if code == NAKUnknown {
		r.raise(msn + uint32(r.cfg.Credit)) // the sender raises its limit in the same way
	}
	return NAK{SRQ: r.srq, MSN: msn, Code: code, Info: info}
}

// NotReady says that the queue has no room for the message.
// This one and all that follow are dropped until the sender resumes. Without
// CapRNR a limit was granted that cannot be kept, which ends the connection.
func (r *Receiver) NotReady() (NAK, error) {
	if r.fate != fateOpen {
		panic("xctl: NotReady out of turn")
	}
	if !r.cfg.RNR {
		return NAK{}, ddp.ErrNoBuffer
	}
	r.fate = fateRefused
	r.discard, r.stop, r.stopAt = true, r.queue.MSN(), r.limit
	if r.wait == 0 {
		r.wait = minBackoff
	}
	n := NAK{SRQ: r.srq, MSN: r.stop, Code: NAKNotReady, Backoff: uint16(r.wait / time.Millisecond), Info: r.limit}
	r.wait = min(2*r.wait, r.cfg.longest)
	return n, nil
}

// Advance notes that a segment with n octets of payload has been dealt with. It
// returns true when a message that was taken is whole.
func (r *Receiver) Advance(h *ddp.Untagged, n int) (done bool) {
	if r.fate == fateOpen {
		panic("xctl: Advance without a decision")
	}
	r.queue.Advance(h, n)
	if !h.Last {
		return false
	}
	if done = r.fate == fateTaken; done {
		r.wait = 0
	}
	r.recount()
	return done
}

// consumed is the last number that is in use, that of an open message included.
func (r *Receiver) consumed() uint32 {
	if r.queue.Open() {
		return r.queue.MSN()
	}
	return r.queue.MSN() - 1
}

// recount works out how far messages are answered.
func (r *Receiver) recount() {
	if r.acked = r.queue.MSN() - 1; r.discard {
		r.acked = r.stop - 1
	}
}

// resume ends a discard.
func (r *Receiver) resume(msn uint32) error {
	if !r.discard || r.queue.Open() || msn != r.queue.MSN() {
		return ddp.ErrMSNRange
	}
	r.discard = false
	r.raise(msn)
	r.recount()
	return nil
}

func (r *Receiver) raise(limit uint32) {
	r.limit = latest(r.limit, limit)
	r.allow = latest(r.allow, limit)
}

// over reports whether a removed entry is of no more use.
func (r *Receiver) over() bool {
	return r.gone && !r.discard && !(r.queue.Open() && r.fate == fateRefused)
}
