//go:build !live

package iwarp

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

func opcodes() (list []badSegment) {
	for op := rdmap.OpImmediate; op <= 0xf; op++ {
		b := badSegment{
			name: fmt.Sprintf("33 opcode %x", op), receives: 1, noExtensions: true,
			send: control(false, 1, op.Control()), cause: rdmap.CauseOpcode, ddp: true, recv: flushedStatus(1),
		}
		list = append(list, b)
		if op > rdmap.OpAtomicResponse {
			b.name, b.noExtensions = b.name+", extensions enabled", false
			list = append(list, b)
		}
	}
	return list
}

func shortULPDUs() (list []badSegment) {
	for _, n := range []int{0, 1, 13, 17} {
		list = append(list, badSegment{name: fmt.Sprintf("22 ULPDU of %d octets", n), receives: 1, send: ulpduOf(n), cause: rdmap.CauseMPAFraming, recv: flushedStatus(1)})
	}
	return list
}

func badQueues() (list []badSegment) {
	for _, qn := range []uint32{1, 2, 3, 0x1000, 0x58000001, math.MaxUint32} {
		list = append(list, badSegment{name: fmt.Sprintf("35 Send on QN %#x", qn), receives: 1, cause: rdmap.CauseDDPInvalidQN, ddp: true, recv: flushedStatus(1),
			send: badSend(func(h *ddp.Untagged) { h.QN = qn })})
	}
	for _, qn := range []uint32{0, 0x1000} {
		list = append(list, badSegment{name: fmt.Sprintf("36 Read Request on QN %#x", qn), receives: 1, cause: rdmap.CauseDDPInvalidQN, ddp: true, recv: flushedStatus(1),
			send: sends(untagged(rdmap.OpReadRequest, qn, 1, 0, true, rdmap.ReadRequest{}.AppendTo(nil)))})
	}
	return list
}

// badUntagged are the mistakes in framing, headers and the untagged queues.
var badUntagged = []badSegment{
	{name: "23 CRC off by one bit", receives: 1, onlyCRC: true, send: changed(func(b []byte) { b[len(b)-1] ^= 1 }), cause: rdmap.CauseMPACRC, recv: flushedStatus(1)},
	{name: "23 payload off by one bit", receives: 1, onlyCRC: true, send: changed(func(b []byte) { b[22] ^= 0x80 }), cause: rdmap.CauseMPACRC, recv: flushedStatus(1)},
	{name: "24 CRC of the other byte order", receives: 1, onlyCRC: true, cause: rdmap.CauseMPACRC, recv: flushedStatus(1),
		send: changed(func(b []byte) {
			crc := b[len(b)-4:]
			binary.LittleEndian.PutUint32(crc, binary.BigEndian.Uint32(crc))
		})},
	{name: "25 padding changed", receives: 1, onlyCRC: true, send: changed(func(b []byte) { b[len(b)-5] = 1 }), cause: rdmap.CauseMPACRC, recv: flushedStatus(1)},
	{name: "30 DDP version 0 untagged", receives: 1, send: control(false, 0, 0x40), cause: rdmap.CauseDDPUntaggedVersion, ddp: true, recv: flushedStatus(1)},
	{name: "30 DDP version 2 untagged", receives: 1, send: control(false, 0, 0x42), cause: rdmap.CauseDDPUntaggedVersion, ddp: true, recv: flushedStatus(1)},
	{name: "30 DDP version 0 tagged", send: control(true, 0, 0xc0), cause: rdmap.CauseDDPTaggedVersion, ddp: true},
	{name: "30 DDP version 2 tagged", send: control(true, 0, 0xc2), cause: rdmap.CauseDDPTaggedVersion, ddp: true},
	{name: "31 RDMAP version 0", receives: 1, send: control(false, 1, 0x03), cause: rdmap.CauseVersion, ddp: true, recv: flushedStatus(1)},
	{name: "31 RDMAP version 0 tagged", send: control(true, 1, 0x00), cause: rdmap.CauseVersion, ddp: true},
	{name: "34 tagged Send", receives: 1, send: control(true, 1, rdmap.OpSend.Control()), cause: rdmap.CauseOpcode, ddp: true, recv: flushedStatus(1)},
	{name: "34 untagged Write", receives: 1, send: control(false, 1, rdmap.OpWrite.Control()), cause: rdmap.CauseOpcode, ddp: true, recv: flushedStatus(1)},
	{name: "34 untagged Read Response", receives: 1, send: control(false, 1, rdmap.OpReadResponse.Control()), cause: rdmap.CauseOpcode, ddp: true, recv: flushedStatus(1)},
	{name: "34 tagged Read Request", send: control(true, 1, rdmap.OpReadRequest.Control()), cause: rdmap.CauseOpcode, ddp: true},
	{name: "37 first MSN is 0", receives: 1, send: badSend(func(h *ddp.Untagged) { h.MSN = 0 }), cause: rdmap.CauseDDPMSNRange, ddp: true, recv: flushedStatus(1)},
	{name: "37 first MSN is 2", receives: 1, send: badSend(func(h *ddp.Untagged) { h.MSN = 2 }), cause: rdmap.CauseDDPMSNRange, ddp: true, recv: flushedStatus(1)},
	{name: "37 MSN 1 again", receives: 2, placed: true, cause: rdmap.CauseDDPMSNRange, ddp: true, recv: []Status{Success, Flushed},
		send: then(badSend(func(*ddp.Untagged) {}), badSend(func(*ddp.Untagged) {}))},
	{name: "38 first MO is 4", receives: 1, send: badSend(func(h *ddp.Untagged) { h.MO = 4 }), cause: rdmap.CauseDDPInvalidMO, ddp: true, recv: flushedStatus(1)},
	{name: "38 MO with a gap", receives: 1, placed: true, cause: rdmap.CauseDDPInvalidMO, ddp: true, recv: flushedStatus(1),
		send: then(badSend(func(h *ddp.Untagged) { h.Last = false }), badSend(func(h *ddp.Untagged) { h.MO = 18 }))},
	{name: "38 MO overlaps", receives: 1, placed: true, cause: rdmap.CauseDDPInvalidMO, ddp: true, recv: flushedStatus(1),
		send: then(badSend(func(h *ddp.Untagged) { h.Last = false }), badSend(func(h *ddp.Untagged) { h.MO = 16 }))},
	{name: "38 MO at the end of 32 bits", receives: 1, cause: rdmap.CauseDDPInvalidMO, ddp: true, recv: flushedStatus(1),
		send: badSend(func(h *ddp.Untagged) { h.MO = math.MaxUint32 })},
	{name: "39 Send longer than the buffer", receives: 2, cause: rdmap.CauseDDPTooLong, ddp: true, segmentLen: 18 + 4097, recv: []Status{LocalLengthError, Flushed},
		send: func(_ *victim, p *raw, _ []rdmap.Segment) { p.send(p.sendMessage(make([]byte, 4097))) }},
	{name: "39 Send longer than the buffer by its second segment", receives: 2, placed: true, cause: rdmap.CauseDDPTooLong, ddp: true, recv: []Status{LocalLengthError, Flushed},
		send: sends(untagged(rdmap.OpSend, 0, 1, 0, false, make([]byte, 4096)), untagged(rdmap.OpSend, 0, 1, 4096, true, []byte{1}))},
	{name: "40 Send and no receive request", send: badSend(func(*ddp.Untagged) {}), cause: rdmap.CauseDDPNoBuffer, ddp: true},
	{name: "40 empty Send and no receive request", cause: rdmap.CauseDDPNoBuffer, ddp: true,
		send: func(_ *victim, p *raw, _ []rdmap.Segment) { p.send(p.sendMessage(nil)) }},
	{name: "41 Read Request inside a Send", receives: 1, placed: true, cause: rdmap.CauseStreamCatastrophic, ddp: true, recv: flushedStatus(1),
		send: then(badSend(func(h *ddp.Untagged) { h.Last = false }), badRead(func(*victim, *rdmap.ReadRequest) {}))},
	{name: "42 Read Request without the last flag", cause: rdmap.CauseStreamCatastrophic, ddp: true,
		send: sends(untagged(rdmap.OpReadRequest, 1, 1, 0, false, rdmap.ReadRequest{}.AppendTo(nil)))},
	{name: "43 Read Request with MO 8", cause: rdmap.CauseDDPInvalidMO, ddp: true,
		send: sends(untagged(rdmap.OpReadRequest, 1, 1, 8, true, rdmap.ReadRequest{}.AppendTo(nil)))},
	{name: "44 Read Request with 4 octets more", cause: rdmap.CauseStreamCatastrophic, ddp: true,
		send: func(_ *victim, p *raw, _ []rdmap.Segment) { p.send(append(p.read(rdmap.ReadRequest{}), 0, 0, 0, 0)) }},
	{name: "44 Read Request of 20 octets", cause: rdmap.CauseMPAFraming,
		send: func(_ *victim, p *raw, _ []rdmap.Segment) { p.send(p.read(rdmap.ReadRequest{})[:20]) }},
	{name: "44 Read Request of an octet less", cause: rdmap.CauseMPAFraming,
		send: func(_ *victim, p *raw, _ []rdmap.Segment) { p.send(p.read(rdmap.ReadRequest{})[:45]) }},
	{name: "44 Read Request of 8 KiB", cause: rdmap.CauseStreamCatastrophic, ddp: true, segmentLen: 18 + 28 + 8192,
		send: func(_ *victim, p *raw, _ []rdmap.Segment) {
			p.send(append(p.read(rdmap.ReadRequest{}), make([]byte, 8192)...))
		}},
	{name: "45 Read Request with MSN 2 first", cause: rdmap.CauseDDPMSNRange, ddp: true,
		send: func(_ *victim, p *raw, _ []rdmap.Segment) { p.nextMSN(1); p.send(p.read(rdmap.ReadRequest{})) }},
}

// badMessages are those in what a whole message asks for.
var badMessages = []badSegment{
	{name: "59 Send with Invalidate of an unknown STag", receives: 2, placed: true, cause: rdmap.CauseInvalidation, ddp: true, recv: []Status{LocalProtection, Flushed},
		send: badSend(func(h *ddp.Untagged) { h.ULP, h.ULPData = rdmap.OpSendInvalidate.Control(), 0x7fffff01 })},
	{name: "59 Send with Invalidate of STag 0", receives: 1, placed: true, cause: rdmap.CauseInvalidation, ddp: true, recv: []Status{LocalProtection},
		send: badSend(func(h *ddp.Untagged) { h.ULP = rdmap.OpSendSolicitedInvalidate.Control() })},
	{name: "59 Send with Invalidate of a foreign STag", receives: 1, placed: true, cause: rdmap.CauseNotOurs, ddp: true, recv: []Status{LocalProtection},
		send: func(v *victim, p *raw, reqs []rdmap.Segment) {
			badSend(func(h *ddp.Untagged) {
				h.ULP, h.ULPData = rdmap.OpSendInvalidate.Control(), uint32(v.foreign.Key())
			})(v, p, reqs)
		}},
	{name: "59 Send with Invalidate of a region that is not remote", receives: 1, placed: true, cause: rdmap.CauseInvalidation, ddp: true, recv: []Status{LocalProtection},
		send: func(v *victim, p *raw, reqs []rdmap.Segment) {
			badSend(func(h *ddp.Untagged) {
				h.ULP, h.ULPData = rdmap.OpSendInvalidate.Control(), uint32(v.recv.Key())
			})(v, p, reqs)
		}},
	{name: "Immediate Data of 7 octets", receives: 1, cause: rdmap.CauseStreamCatastrophic, ddp: true, recv: flushedStatus(1),
		send: sends(untagged(rdmap.OpImmediate, 0, 1, 0, true, make([]byte, 7)))},
	{name: "Immediate Data of 9 octets", receives: 1, cause: rdmap.CauseStreamCatastrophic, ddp: true, recv: flushedStatus(1),
		send: sends(untagged(rdmap.OpImmediate, 0, 1, 0, true, make([]byte, 9)))},
	{name: "Immediate Data inside a Send", receives: 1, placed: true, cause: rdmap.CauseStreamCatastrophic, ddp: true, recv: flushedStatus(1),
		send: then(badSend(func(h *ddp.Untagged) { h.Last = false }), sends(untagged(rdmap.OpImmediate, 0, 1, 17, true, make([]byte, 8))))},
	{name: "Immediate Data inside a Send, at its beginning", receives: 2, placed: true, cause: rdmap.CauseStreamCatastrophic, ddp: true, recv: flushedStatus(2),
		send: then(badSend(func(h *ddp.Untagged) { h.Last = false }), sends(untagged(rdmap.OpImmediate, 0, 1, 0, true, make([]byte, 8))))},
	{name: "Immediate Data and no receive request", cause: rdmap.CauseDDPNoBuffer, ddp: true,
		send: sends(untagged(rdmap.OpImmediate, 0, 1, 0, true, make([]byte, 8)))},
	{name: "atomic of a misaligned address", cause: rdmap.CauseStreamCatastrophic, ddp: true,
		send: badAtomic(func(v *victim, r *rdmap.AtomicRequest) { r.TO += 4 })},
	{name: "atomic with a bad key", cause: rdmap.CauseInvalidSTag, ddp: true,
		send: badAtomic(func(v *victim, r *rdmap.AtomicRequest) { r.STag ^= 1 })},
	{name: "atomic without the right", cause: rdmap.CauseAccess, ddp: true,
		send: badAtomic(func(v *victim, r *rdmap.AtomicRequest) { r.STag = uint32(v.writeOnly.Key()) })},
	{name: "atomic past the end", cause: rdmap.CauseBounds, ddp: true,
		send: badAtomic(func(v *victim, r *rdmap.AtomicRequest) { r.TO += 1 << 20 })},
	{name: "atomic whose TO wraps", cause: rdmap.CauseTOWrap, ddp: true,
		send: badAtomic(func(v *victim, r *rdmap.AtomicRequest) { r.TO = math.MaxUint64 - 6 })},
	{name: "atomic with a reserved operation", cause: rdmap.CauseOpcode, ddp: true,
		send: badAtomic(func(v *victim, r *rdmap.AtomicRequest) { r.Op = 1 })},
	{name: "Atomic Response to nothing", cause: rdmap.CauseStreamCatastrophic, ddp: true,
		send: sends(untagged(rdmap.OpAtomicResponse, 3, 1, 0, true, rdmap.AtomicResponse{}.AppendTo(nil)))},
	{name: "Atomic Response to a read", reads: []int{8}, cause: rdmap.CauseStreamCatastrophic, ddp: true, sent: flushedStatus(1),
		send: sends(untagged(rdmap.OpAtomicResponse, 3, 1, 0, true, rdmap.AtomicResponse{}.AppendTo(nil)))},
}
