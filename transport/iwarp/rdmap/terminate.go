package rdmap

import (
	"encoding/binary"

	"github.com/rds-go/rds/transport/iwarp/ddp"
)

// Bits of the third octet of a Terminate: what follows.
const (
	terminateLen  = 0x80 // M: the segment length is valid
	terminateDDP  = 0x40 // D: length and DDP header are there
	terminateRead = 0x20 // R: Read header is there
)

const terminateControl = 4 // octets that every Terminate has

// Terminate is the body of a Terminate message, RFC 5040 section 4.8: the last
// message of a direction, about the segment that ended the stream.
//
//	0   1 layer, 4 bits, and error type, 4 bits
//	1   1 error code
//	2   1 M, D, R, reserved
//	3   1 reserved
//	4   2 DDP segment length, if D
//	6     DDP header of the segment, 14 or 18 octets, if D
//	      RDMA Read Request header, 28 octets, if R
type Terminate struct {
	Cause      Cause
	HasLen     bool   // M
	HasDDP     bool   // D
	HasRead    bool   // R; only together with D
	SegmentLen uint16 // length of header and payload; siw counts the payload alone
	DDP        []byte // 14 or 18 octets
	Read       ReadRequest
	SIW        bool // the Terminate was decoded from siw's layout
}

// TerminateHeader is the DDP header of every Terminate.
func TerminateHeader() ddp.Untagged {
	return ddp.Untagged{Last: true, ULP: OpTerminate.Control(), QN: QueueTerminate, MSN: 1}
}

// NewTerminate returns the Terminate that tells cause, with as much of segment as
// RFC 5040 section 4.8, figure 10, asks for:
//
//	RDMAP  local catastrophic   nothing
//	       remote protection    DDP header; Read header of a Read Request
//	       remote operation     DDP header
//	DDP    all                  DDP header
//	MPA    all                  nothing
//
// segment is the ULPDU that has the fault, header and payload, or nil where there
// is none; the Terminate aliases it. If part of a Read was answered already,
// Read.After is due on the result.
func NewTerminate(cause Cause, segment []byte) Terminate {
	t := Terminate{Cause: cause}
	if cause.Layer() == LayerMPA || cause.Layer() == LayerRDMAP && cause.Type() == typeCatastrophic {
		return t
	}
	if len(segment) == 0 || len(segment) > maxSegment {
		return t
	}
	n := ddp.HeaderLen(segment[0])
	if len(segment) < n {
		return t
	}
	t.HasLen, t.SegmentLen = true, uint16(len(segment))
	t.HasDDP, t.DDP = true, segment[:n:n]
	if cause.Layer() == LayerRDMAP && cause.Type() == typeProtection && isReadRequest(segment) {
		t.HasRead = t.Read.Decode(segment[n:]) == nil
	}
	return t
}

// Error types of RDMAP.
const (
	typeCatastrophic = 0
	typeProtection   = 1
)

const maxSegment = 0xffff // the largest value of ULPDU_Length

func isReadRequest(segment []byte) bool {
	var s Segment
	return s.Parse(segment, OpsRFC5040) == nil && s.Op == OpReadRequest
}

// AppendTo appends the body to b, in the RFC's layout whatever SIW says: siw
// closes on any Terminate without a look at it.
func (t *Terminate) AppendTo(b []byte) []byte {
	var has byte
	if t.HasLen {
		has |= terminateLen
	}
	if t.HasDDP {
		has |= terminateDDP
	}
	if t.HasDDP && t.HasRead {
		has |= terminateRead
	}
	b = append(b, byte(t.Cause>>8), byte(t.Cause), has, 0)
	if !t.HasDDP {
		return b
	}
	b = binary.BigEndian.AppendUint16(b, t.SegmentLen)
	b = append(b, t.DDP...)
	if t.HasRead {
		b = t.Read.AppendTo(b)
	}
	return b
}

// Decode reads b, the whole payload of a Terminate's segment, in either layout.
// It returns ddp.ErrShort if anything is missing; Cause is right all the same
// when there are four octets. t.DDP aliases b.
func (t *Terminate) Decode(b []byte, hints Hints) error {
	*t = Terminate{}
	if len(b) < terminateControl {
		return ddp.ErrShort
	}
	has := b[2]
	t.Cause = Cause(binary.BigEndian.Uint16(b))
	if t.SIW = siwLayout(t.Cause, has, hints); t.SIW {
		t.Cause = swapped(t.Cause)
		has = (has&1)<<7 | (has&2)<<5 | (has&4)<<3
	}
	t.HasLen = has&terminateLen != 0
	if has&terminateDDP == 0 {
		return nil
	}
	b = b[terminateControl:]
	if len(b) < 3 {
		return ddp.ErrShort
	}
	t.SegmentLen = binary.BigEndian.Uint16(b)
	b = b[2:]
	n := ddp.HeaderLen(b[0])
	if len(b) < n {
		return ddp.ErrShort
	}
	t.DDP, t.HasDDP = b[:n:n], true
	if has&terminateRead == 0 {
		return nil
	}
	if len(b) < n+ReadRequestLen {
		return ddp.ErrShort
	}
	t.HasRead = true
	return t.Read.Decode(b[n : n+ReadRequestLen])
}
