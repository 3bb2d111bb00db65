//go:build !live

package iwarp

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// badControl are mistakes that end an extended connection. Queue 1 has a request
// of 4 KiB posted, and our side has sent nothing to queues, written nothing and
// has a read under way whose request came.
var badControl = []struct {
	name  string
	send  func(x *extended) [][]byte
	cause rdmap.Cause
}{
	{"69 length past the end", bytesOf(record(200, 12, 0, 0, 0, 0)), rdmap.CauseOpcode},
	{"69 CREDIT of 12 octets", bytesOf(record(1, 12, 0x58, 0, 0, 1, 0, 0, 0, 0)), rdmap.CauseOpcode},
	{"69 a bad record behind a good one", bytesOf(append(xctl.AppendTo(nil, xctl.Ping{Nonce: 1}), 9)), rdmap.CauseOpcode},
	{"CREDIT of the control queue", bytesOf(record(1, 16, 0x58, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0)), rdmap.CauseOpcode},
	{"RESUME of an RFC queue", bytesOf(record(3, 12, 0, 0, 0, 1, 0, 0, 0, 1)), rdmap.CauseOpcode},
	{"control message of 516 octets", bytesOf(bytes.Repeat(record(200, 4), 129)), rdmap.CauseOpcode},
	{"control message of 8 KiB", bytesOf(make([]byte, 8192)), rdmap.CauseOpcode},
	{"control message that goes on", segmentOf(rdmap.OpPrivate, xctl.Control, 1, 0, false), rdmap.CauseOpcode},
	{"control message with MO 4", segmentOf(rdmap.OpPrivate, xctl.Control, 1, 4, true), rdmap.CauseDDPInvalidMO},
	{"control message 2 first", segmentOf(rdmap.OpPrivate, xctl.Control, 2, 0, true), rdmap.CauseDDPMSNRange},
	{"control message 1 twice", func(x *extended) [][]byte {
		return [][]byte{x.tellBytes(nil), xctl.Header(1).AppendTo(nil)}
	}, rdmap.CauseDDPMSNRange},
	{"private message on a shared queue", segmentOf(rdmap.OpPrivate, xctl.SRQN(1).QN(), 1, 0, true), rdmap.CauseDDPInvalidQN},
	{"Send on the control queue", segmentOf(rdmap.OpSend, xctl.Control, 1, 0, true), rdmap.CauseDDPInvalidQN},
	{"Send below the shared queues", segmentOf(rdmap.OpSend, 0x57ffffff, 1, 0, true), rdmap.CauseDDPInvalidQN},
	{"68 RESUME of a queue never used", records(xctl.Resume{SRQ: 1, MSN: 1}), rdmap.CauseDDPMSNRange},
	{"68 RESUME of a queue there is not", records(xctl.Resume{SRQ: 77, MSN: 1}), rdmap.CauseDDPMSNRange},
	{"68 RESUME of a queue that is ready", func(x *extended) [][]byte {
		return [][]byte{x.message(1, 0, true, nil), x.tell(xctl.Resume{SRQ: 1, MSN: 2})}
	}, rdmap.CauseDDPMSNRange},
	{"68 RESUME with a wrong number", func(x *extended) [][]byte {
		return [][]byte{x.message(2, 0, true, nil), x.tell(xctl.Resume{SRQ: 2, MSN: 3})}
	}, rdmap.CauseDDPMSNRange},
	{"68 RESUME twice", func(x *extended) [][]byte {
		return [][]byte{x.message(2, 0, true, nil), x.tell(xctl.Resume{SRQ: 2, MSN: 2}), x.tell(xctl.Resume{SRQ: 2, MSN: 2})}
	}, rdmap.CauseDDPMSNRange},
	{"CREDIT of a queue never used", records(xctl.Credit{SRQ: 1, Delivered: 0, Limit: 9}), rdmap.CauseDDPMSNRange},
	{"NAK of a queue never used", records(xctl.NAK{SRQ: 1, MSN: 1, Code: xctl.NAKNotReady}), rdmap.CauseDDPMSNRange},
	{"WRACK of a Write never sent", records(xctl.WriteAck{Ordinal: 1}), rdmap.CauseStreamCatastrophic},
	{"WRERR of a Write never sent", records(xctl.WriteError{Ordinal: 1}), rdmap.CauseStreamCatastrophic},
	{"WRERR of Write 0", records(xctl.WriteError{}), rdmap.CauseStreamCatastrophic},
	{"RDERR out of turn", records(xctl.ReadError{MSN: 2}), rdmap.CauseStreamCatastrophic},
	{"RDERR of request 0", records(xctl.ReadError{}), rdmap.CauseStreamCatastrophic},
	{"RDERR twice", records(xctl.ReadError{MSN: 1, Cause: rdmap.CauseAccess}, xctl.ReadError{MSN: 1, Cause: rdmap.CauseAccess}), rdmap.CauseStreamCatastrophic},
	{"message with MO 4 first", func(x *extended) [][]byte {
		return [][]byte{x.message(1, 0, false, make([]byte, 4)), x.message(1, 8, true, nil)}
	}, rdmap.CauseDDPInvalidMO},
	{"message number again", func(x *extended) [][]byte {
		b := x.message(1, 0, true, nil)
		return [][]byte{b, b}
	}, rdmap.CauseDDPMSNRange},
	{"messages to two queues interleave", func(x *extended) [][]byte {
		return [][]byte{x.message(1, 0, false, nil), x.message(3, 0, true, nil)}
	}, rdmap.CauseStreamCatastrophic},
	{"Immediate Data that goes on", func(x *extended) [][]byte {
		return [][]byte{x.messageOp(rdmap.OpImmediate, 0, 1, 0, false, make([]byte, 8))}
	}, rdmap.CauseStreamCatastrophic},
	{"Immediate Data of 7 octets", func(x *extended) [][]byte {
		return [][]byte{x.messageOp(rdmap.OpImmediate, 0, 1, 0, true, make([]byte, 7))}
	}, rdmap.CauseMPAFraming},
	{"Immediate Data of 8 KiB", func(x *extended) [][]byte {
		return [][]byte{x.messageOp(rdmap.OpImmediate, 0, 1, 0, true, make([]byte, 8192))}
	}, rdmap.CauseStreamCatastrophic},
	{"message that builds on Writes to come", func(x *extended) [][]byte {
		return [][]byte{x.messageOp(rdmap.OpSend, 9, 1, 0, true, nil)}
	}, rdmap.CauseStreamCatastrophic},
}

func bytesOf(b []byte) func(*extended) [][]byte {
	return func(x *extended) [][]byte { return [][]byte{x.tellBytes(b)} }
}

func segmentOf(op rdmap.Op, qn, msn, mo uint32, last bool) func(*extended) [][]byte {
	return func(*extended) [][]byte {
		return [][]byte{ddp.Untagged{Last: last, ULP: op.Control(), QN: qn, MSN: msn, MO: mo}.AppendTo(nil)}
	}
}

// Each mistake ends the connection by its Terminate; every request of ours, and
// none of the queues', completes, and what is posted to the queues is whole.
func TestBadControlIsTerminated(t *testing.T) {
	t.Parallel()
	for _, crc := range []bool{true, false} {
		for _, b := range badControl {
			t.Run(fmt.Sprintf("crc %v/%s", crc, b.name), func(t *testing.T) {
				bothRoles(t, func(t *testing.T, initiator bool) {
					e, mem := sharedHost(t)
					x := openExtendedCRC(t, e, initiator, crc, allCaps, SharedParams{})
					one, three := x.queues.srq(e, 1, SRQConfig{MaxReceive: 2}), x.queues.srq(e, 3, SRQConfig{})
					x.queues.srq(e, 2, SRQConfig{}) // has none
					e.give(one, 100, mem.SGE(0, 4096))
					e.give(one, 101, mem.SGE(0, 4096))
					e.give(three, 102, mem.SGE(4096, 4096))
					e.send(WorkRequest{ID: 1, Op: OpRead, SGE: []SGE{mem.SGE(8192, 8)}, RemoteKey: 1})
					x.incoming(rdmap.OpReadRequest)
					x.raw.send(b.send(x)...)
					x.terminated(b.cause)
					posted, reads := one.rq.posted()+three.rq.posted(), 0
					for _, c := range e.rest() {
						if c.ID >= 100 {
							posted++
						} else {
							reads++
						}
					}
					if posted != 3 || reads != 1 {
						t.Errorf("%d of 3 receive requests are posted or complete, %d of 1 read", posted, reads)
					}
					if len(one.starved)+len(three.starved) > 0 {
						t.Error("a queue remembers a connection that has ended")
					}
				})
			})
		}
	}
}
