package rdmap

import "github.com/rds-go/rds/transport/iwarp/ddp"

// Inbound is the receiving half of a stream as far as it is a matter of order:
// which segment may come now. The zero Inbound is that of a new stream. Queues
// beyond those of the RFCs are not in it.
type Inbound struct {
	Queues [Queues]ddp.Queue
	Tagged ddp.Run
}

// Check returns what is wrong with a parsed segment at this moment: ErrMSNRange,
// ErrInvalidMO, ErrInvalidSTag, ErrBounds or ErrMixed of package ddp, or
// CauseStreamCatastrophic for
//
//   - a segment of a message on another queue before the end of the first. One
//     stream sends one message after another (RFC 5041 section 5.3); tagged
//     messages may come between, and a Terminate, which ends everything;
//   - a message that is always one segment, but does not say so.
//
// What memory says comes after, except that a missing buffer goes before a wrong
// offset: a receiver to whom that matters uses the queue's CheckMSN first.
func (in *Inbound) Check(s *Segment) error {
	if s.Op.Tagged() {
		return in.Tagged.Check(&s.Tagged, len(s.Payload))
	}
	h := &s.Untagged
	if err := in.Queues[h.QN].Check(h); err != nil {
		return err
	}
	if s.Op.Single() && !h.Last {
		return CauseStreamCatastrophic
	}
	if s.Op != OpTerminate && in.openBut(h.QN) {
		return CauseStreamCatastrophic
	}
	return nil
}

// Advance notes the arrival of a checked segment.
func (in *Inbound) Advance(s *Segment) {
	if s.Op.Tagged() {
		in.Tagged.Advance(&s.Tagged, len(s.Payload))
		return
	}
	in.Queues[s.Untagged.QN].Advance(&s.Untagged, len(s.Payload))
}

// openBut reports whether a message is unfinished on another queue than qn.
// Only Sends have more than one segment.
func (in *Inbound) openBut(qn uint32) bool {
	return qn != QueueSend && in.Queues[QueueSend].Open()
}
