//go:build !live

package iwarp

import (
	"testing"

	"github.com/rds-go/rds/transport/iwarp/rdmap"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// A queue that comes in the middle of a message to it gets nothing of that: the rest is no message. An empty Send
// with Invalidate has two segments, both at offset 0, of which the second one carries a key.
func TestQueueThatComesInTheMiddleOfAMessage(t *testing.T) {
	bothRoles(t, func(t *testing.T, initiator bool) {
		e, mem := sharedHost(t)
		var queues *queueMap
		named := make(chan uint32, 10)
		x := openExtended(t, e, initiator, allCaps|xctl.CapQP, SharedParams{Target: func(queue, qp uint32) *SRQ {
			named <- qp
			return queues.Find(queue)
		}})
		queues = x.queues
		x.raw.send(x.messageOp(rdmap.OpSendInvalidate, 5, 1, 0, false, nil), x.tell(xctl.Ping{Nonce: 1}))
		await[xctl.Pong](x)
		q := x.queues.srq(e, 1, SRQConfig{})
		e.give(q, 100, mem.SGE(0, 100))
		x.raw.send(x.messageOp(rdmap.OpSendInvalidate, 0x7, 1, 0, true, nil))
		if nak := await[xctl.NAK](x); nak.SRQ != 1 || nak.MSN != 1 || nak.Code != xctl.NAKUnknown {
			t.Errorf("%+v", nak)
		}
		if q.Posted() != 1 || len(named) > 0 {
			t.Errorf("%d receives are posted of 1, queue pair %#x was looked for", q.Posted(), <-named)
		}
		x.raw.send(x.messageOp(rdmap.OpSend, 6, 1, 0, true, []byte("whole")))
		if c := e.next(); c.ID != 100 || c.Status != Success || c.Target != 6 {
			t.Errorf("%+v", c)
		}
	})
}
