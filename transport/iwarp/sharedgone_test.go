//go:build !live

package iwarp

import (
	"testing"

	"github.com/rds-go/rds/transport/iwarp/rdmap"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// A queue goes while a deep window of messages is on its way: each is refused and
// the connection goes on, also when one error is one too many. More messages to that
// queue are one error, made-up numbers are one each.
func TestDeepWindowToADeadQueueCostsNobodyElse(t *testing.T) {
	bothRoles(t, func(t *testing.T, initiator bool) {
		const window = 500
		e, x, mem := sharedPeer(t, initiator, SharedParams{Errors: 1})
		s := x.queues.srq(e, 1, SRQConfig{MaxReceive: window})
		for i := range uint64(window) {
			e.give(s, i, mem.SGE(0, 8))
		}
		x.raw.send(x.message(1, 0, true, nil))
		e.want(0, Success, OpReceive)
		granted := uint32(1)
		for granted < window {
			granted = await[xctl.Credit](x).Limit
		}
		x.queues.end(t, s)
		refused := func(from, to uint32) {
			t.Helper()
			for range to - from + 1 {
				x.raw.send(x.message(1, 0, true, nil))
			}
			x.sync()
			l := has[xctl.NAK](x)
			if len(l) != int(to-from+1) || l[0].MSN != from || l[len(l)-1].MSN != to || l[0].Code != xctl.NAKUnknown {
				t.Fatalf("%d refusals of messages %d to %d", len(l), from, to)
			}
		}
		refused(2, granted)
		refused(granted+1, granted+200) // an error
		if state := e.qp.State(); state != StateRTS {
			t.Fatal(state, e.qp.Err())
		}
		for i := range xctl.SRQN(1000) { // more than seconds it takes
			x.raw.send(x.message(5000+i, 0, true, nil))
		}
		x.terminated(rdmap.CauseStreamCatastrophic)
	})
}
