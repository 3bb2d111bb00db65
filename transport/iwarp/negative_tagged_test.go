//go:build !live

package iwarp

import (
	"math"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// badTagged are the mistakes in what reaches for memory by its key.
var badTagged = []badSegment{
	{name: "46 Read of a bad index", cause: rdmap.CauseInvalidSTag, ddp: true, read: true,
		send: badRead(func(v *victim, r *rdmap.ReadRequest) { r.SourceSTag ^= 0x80000000 })},
	{name: "46 Read with a bad key", cause: rdmap.CauseInvalidSTag, ddp: true, read: true,
		send: badRead(func(v *victim, r *rdmap.ReadRequest) { r.SourceSTag ^= 1 })},
	{name: "46 Read below the base", cause: rdmap.CauseBounds, ddp: true, read: true,
		send: badRead(func(v *victim, r *rdmap.ReadRequest) { r.SourceTO-- })},
	{name: "46 Read past the end", cause: rdmap.CauseBounds, ddp: true, read: true,
		send: badRead(func(v *victim, r *rdmap.ReadRequest) { r.SourceTO += 1<<20 - 63 })},
	{name: "47 Read whose TO wraps", cause: rdmap.CauseTOWrap, ddp: true, read: true,
		send: badRead(func(v *victim, r *rdmap.ReadRequest) { r.SourceTO = math.MaxUint64 - 62 })},
	{name: "48 Read of write-only memory", cause: rdmap.CauseAccess, ddp: true, read: true,
		send: badRead(func(v *victim, r *rdmap.ReadRequest) { r.SourceSTag = uint32(v.writeOnly.Key()) })},
	{name: "48 Read of another domain's memory", cause: rdmap.CauseNotAssociated, ddp: true, read: true,
		send: badRead(func(v *victim, r *rdmap.ReadRequest) { r.SourceSTag = uint32(v.foreign.Key()) })},
	{name: "49 Read of 4 GiB", cause: rdmap.CauseBounds, ddp: true, read: true,
		send: badRead(func(v *victim, r *rdmap.ReadRequest) { r.Size = math.MaxUint32 })},
	{name: "52 Write to a bad index", cause: rdmap.CauseDDPInvalidSTag, ddp: true, segmentLen: 14 + 64,
		send: badWrite(func(v *victim) mr.Key { return v.open.Key() ^ 0x80000000 }, 0x10000)},
	{name: "52 Write with a bad key", cause: rdmap.CauseDDPInvalidSTag, ddp: true, segmentLen: 14 + 64,
		send: badWrite(func(v *victim) mr.Key { return v.open.Key() ^ 1 }, 0x10000)},
	{name: "52 Write past the end", cause: rdmap.CauseDDPBounds, ddp: true, segmentLen: 14 + 64, send: badWrite(openKey, 0x10000+1<<20-63)},
	{name: "52 Write below the base", cause: rdmap.CauseDDPBounds, ddp: true, segmentLen: 14 + 64, send: badWrite(openKey, 0xffff)},
	{name: "52 Write to read-only memory", cause: rdmap.CauseDDPInvalidSTag, ddp: true, segmentLen: 14 + 64,
		send: badWrite(func(v *victim) mr.Key { return v.readOnly.Key() }, 0x10000)},
	{name: "52 Write to another domain's memory", cause: rdmap.CauseDDPNotAssociated, ddp: true, segmentLen: 14 + 64,
		send: badWrite(func(v *victim) mr.Key { return v.foreign.Key() }, 0x10000)},
	{name: "52 Write of 32 KiB past the end", cause: rdmap.CauseDDPBounds, ddp: true, segmentLen: 14 + 32768,
		send: func(v *victim, p *raw, _ []rdmap.Segment) {
			p.send(write(uint32(v.open.Key()), 0x10000+1<<20-32767, make([]byte, 32768)))
		}},
	{name: "53 Write whose TO wraps", cause: rdmap.CauseDDPTOWrap, ddp: true, send: badWrite(openKey, math.MaxUint64-62)},
	{name: "55 second segment of a Write with a gap", placed: true, cause: rdmap.CauseDDPBounds, ddp: true,
		send: func(v *victim, p *raw, _ []rdmap.Segment) {
			p.send(tagged(rdmap.OpWrite, uint32(v.open.Key()), 0x10000, false, make([]byte, 64)), write(uint32(v.open.Key()), 0x10041, make([]byte, 64)))
		}},
	{name: "55 second segment of a Write elsewhere", placed: true, cause: rdmap.CauseDDPInvalidSTag, ddp: true,
		send: func(v *victim, p *raw, _ []rdmap.Segment) {
			p.send(tagged(rdmap.OpWrite, uint32(v.open.Key()), 0x10000, false, make([]byte, 64)), write(uint32(v.writeOnly.Key()), 0x10040, make([]byte, 64)))
		}},
	{name: "56 Read Response to nothing, unknown STag", cause: rdmap.CauseDDPInvalidSTag, ddp: true,
		send: badResponse(64, func(h *ddp.Tagged) { h.STag ^= 1 })},
	{name: "56 Read Response to nothing, known STag", cause: rdmap.CauseStreamCatastrophic, ddp: true, send: badResponse(64, nil)},
	{name: "56 empty Read Response to nothing", cause: rdmap.CauseStreamCatastrophic, ddp: true, send: badResponse(0, nil)},
	{name: "57 Read Response too short", reads: []int{64, 64}, cause: rdmap.CauseDDPBounds, ddp: true, sent: []Status{BadResponse, Flushed}, send: badResponse(63, nil)},
	{name: "57 Read Response too long", reads: []int{64, 64}, cause: rdmap.CauseDDPBounds, ddp: true, sent: []Status{BadResponse, Flushed}, send: badResponse(65, nil)},
	{name: "57 Read Response empty", reads: []int{64, 64}, cause: rdmap.CauseDDPBounds, ddp: true, sent: []Status{BadResponse, Flushed}, send: badResponse(0, nil)},
	{name: "57 Read Response to another STag", reads: []int{64, 64}, cause: rdmap.CauseDDPInvalidSTag, ddp: true, sent: []Status{BadResponse, Flushed},
		send: badResponse(64, func(h *ddp.Tagged) { h.STag ^= 1 })},
	{name: "57 Read Response to memory that may be written", reads: []int{64, 64}, cause: rdmap.CauseDDPInvalidSTag, ddp: true, sent: []Status{BadResponse, Flushed},
		send: func(v *victim, p *raw, reqs []rdmap.Segment) {
			badResponse(64, func(h *ddp.Tagged) { h.STag = uint32(v.open.Key()) })(v, p, reqs)
		}},
	{name: "57 Read Response beside the sink", reads: []int{64, 64}, cause: rdmap.CauseDDPBounds, ddp: true, sent: []Status{BadResponse, Flushed},
		send: badResponse(64, func(h *ddp.Tagged) { h.TO++ })},
	{name: "57 second segment of a Read Response beside the sink", reads: []int{64}, placed: true, cause: rdmap.CauseDDPBounds, ddp: true, sent: []Status{BadResponse},
		send: then(badResponse(32, func(h *ddp.Tagged) { h.Last = false }), badResponse(32, func(h *ddp.Tagged) { h.TO += 31 }))},
	{name: "57 Read Response without an end", reads: []int{64}, placed: true, cause: rdmap.CauseDDPBounds, ddp: true, sent: []Status{BadResponse},
		send: then(badResponse(64, func(h *ddp.Tagged) { h.Last = false }), badResponse(8, func(h *ddp.Tagged) { h.TO += 64; h.Last = false }))},
}
