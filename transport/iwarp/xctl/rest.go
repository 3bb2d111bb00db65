package xctl

import "github.com/rds-go/rds/transport/iwarp/rdmap"

// Rest is what both ends must still agree on when a Sender has nothing to do. A
// receiver counts on with the numbers of a queue for as long as it likes, also when
// the queue has gone and come again, so they must not begin anew.
type Rest struct {
	next, limit, acked uint32
}

// Rest is what to keep of the Sender in its place, if nothing is outstanding and the
// queue is not stopped.
func (s *Sender) Rest() (r Rest, ok bool) {
	return Rest{s.next, s.limit, s.acked}, s.head == s.tail && !s.stopped
}

// Sender goes on where the one that r was taken of ended. The arguments are those of
// NewSender.
func (r Rest) Sender(n SRQN, credit, retries uint8) *Sender {
	s := NewSender(n, credit, retries)
	s.next, s.limit, s.acked = r.next, r.limit, r.acked
	return s
}

// Credit takes a CREDIT of the queue, as Sender.Credit does. A NAK cannot come: there
// is nothing to refuse.
func (r *Rest) Credit(c Credit) error {
	if after(c.Delivered, r.acked) {
		if !after(r.next, c.Delivered) {
			return rdmap.CauseStreamCatastrophic
		}
		r.acked = c.Delivered
	}
	r.limit = latest(r.limit, c.Limit)
	return nil
}
