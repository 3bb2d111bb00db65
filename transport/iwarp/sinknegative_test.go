//go:build !live

package iwarp

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// badSinks are mistakes that end a connection on which our side has sent messages 1
// to 3 to the queue with a sink, and the peer message 1.
var badSinks = []struct {
	name  string
	send  func(x *extended) [][]byte
	cause rdmap.Cause
}{
	{"CREDIT of a message not sent", records(credit(4, 9)), rdmap.CauseDDPMSNRange},
	{"CREDIT of a message far ahead", records(credit(1<<30, 1<<30)), rdmap.CauseDDPMSNRange},
	{"NAK unknown", records(nak(1, xctl.NAKUnknown)), rdmap.CauseDDPNoBuffer},
	{"NAK not ready", records(nak(1, xctl.NAKNotReady)), rdmap.CauseDDPNoBuffer},
	{"NAK too long", records(nak(1, xctl.NAKTooLong)), rdmap.CauseDDPNoBuffer},
	{"NAK forbidden", records(nak(1, xctl.NAKForbidden)), rdmap.CauseDDPNoBuffer},
	{"NAK draining", records(nak(1, xctl.NAKDraining)), rdmap.CauseDDPNoBuffer},
	{"NAK invalidate", records(nak(1, xctl.NAKInvalidate)), rdmap.CauseDDPNoBuffer},
	{"NAK of another code", records(nak(1, 99)), rdmap.CauseDDPNoBuffer},
	{"NAK dependency of a message not sent", records(nak(4, xctl.NAKDependency)), rdmap.CauseDDPMSNRange},
	{"RESUME", records(xctl.Resume{SRQ: sinkNum, MSN: 2}), rdmap.CauseDDPMSNRange},
	{"message number again", sinkSegment(ddp.Untagged{Last: true, MSN: 1}), rdmap.CauseDDPMSNRange},
	{"message number skipped", sinkSegment(ddp.Untagged{Last: true, MSN: 3}), rdmap.CauseDDPMSNRange},
	{"message with MO 8 first", sinkSegment(ddp.Untagged{Last: true, MSN: 2, MO: 8}), rdmap.CauseDDPInvalidMO},
	{"segment with a gap", sinkSegment(ddp.Untagged{MSN: 2}, ddp.Untagged{Last: true, MSN: 2, MO: 9}), rdmap.CauseDDPInvalidMO},
	{"segment twice", sinkSegment(ddp.Untagged{MSN: 2}, ddp.Untagged{Last: true, MSN: 2}), rdmap.CauseDDPInvalidMO},
	{"second message in the middle", sinkSegment(ddp.Untagged{MSN: 2}, ddp.Untagged{Last: true, MSN: 3}), rdmap.CauseDDPMSNRange},
	{"message to another queue in the middle", sinkSegment(ddp.Untagged{MSN: 2}, ddp.Untagged{Last: true, QN: xctl.SRQN(sinkNum + 1).QN(), MSN: 1}), rdmap.CauseStreamCatastrophic},
	{"CREDIT of a queue that was not sent to", records(xctl.Credit{SRQ: sinkNum + 1, Limit: 9}), rdmap.CauseDDPMSNRange},
	{"NAK of a queue that was not sent to", records(xctl.NAK{SRQ: sinkNum + 1, MSN: 1, Code: xctl.NAKDependency}), rdmap.CauseDDPMSNRange},
	{"message that builds on Writes to come", sinkSegment(ddp.Untagged{Last: true, MSN: 2, ULPData: 7}), rdmap.CauseStreamCatastrophic},
}

// sinkSegment makes Sends of 8 octets to the queue with a sink.
func sinkSegment(list ...ddp.Untagged) func(*extended) [][]byte {
	return func(*extended) (out [][]byte) {
		for _, h := range list {
			if h.QN == 0 {
				h.QN = xctl.SRQN(sinkNum).QN()
			}
			h.ULP = rdmap.OpSend.Control()
			out = append(out, append(h.AppendTo(nil), "12345678"...))
		}
		return out
	}
}

// Each mistake ends the connection by its Terminate, behind whatever good came in the
// same read; the sink hears of its end once, last, and nothing is acknowledged by it.
func TestBadSinksIsTerminated(t *testing.T) {
	t.Parallel()
	for _, crc := range []bool{true, false} {
		for _, b := range badSinks {
			t.Run(fmt.Sprintf("crc %v/%s", crc, b.name), func(t *testing.T) {
				bothRoles(t, func(t *testing.T, initiator bool) {
					e, x, d := openSink(t, Config{}, initiator, crc)
					e.qp.SinkReady()
					x.sync() // the event loop has heard of it
					for range 3 {
						x.sent(make([]byte, 100))
					}
					var all []byte
					for _, u := range append([][]byte{x.message(sinkNum, 0, true, []byte("good"))}, b.send(x)...) {
						all = append(all, x.frame(u)...)
					}
					x.write(all)
					x.terminated(b.cause)
					_ = d.ended()
					if got := d.taken(); !bytes.HasPrefix(got, []byte("good")) {
						t.Errorf("%q has come", got)
					}
					same(t, "bytes count as acknowledged", e.qp.FramesAcked(), 0)
					var (
						n   int
						err error
					)
					holds(func() bool { // nothing is taken while the Terminate is being sent
						n, err = e.direct(make([]byte, 8))
						return n != 0 || err != nil
					})
					if n != 0 || err == nil {
						t.Errorf("sending afterwards: %d, %v", n, err)
					}
				})
			})
		}
	}
}

// What the sink refuses ends the connection, with the sink's error.
func TestSinkRefuses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, x, d := openSink(t, Config{}, true, false)
		no := errors.New("no")
		d.mu.Lock()
		d.refuse = no
		d.mu.Unlock()
		x.raw.send(x.message(sinkNum, 0, true, []byte("message")))
		x.terminated(rdmap.CauseStreamCatastrophic)
		if err := d.ended(); !errors.Is(err, no) || !errors.Is(e.qp.Err(), no) {
			t.Errorf("ended by %v", err)
		}
	})
}
