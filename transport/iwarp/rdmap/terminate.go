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

// MaxTerminateLen is the length of the longest Terminate's body.
const MaxTerminateLen = terminateControl + 2 + ddp.UntaggedLen + ReadRequestLen

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
	SegmentLen uint16 // of header and payload; siw counts the payload alone
	DDP        []byte // 14 or 18 octets
	Read       ReadRequest
	SIW        bool // was decoded from siw's layout
}

// TerminateHeader is the DDP header of every Terminate.
func TerminateHeader() ddp.Untagged {
	return ddp.Untagged{Last: true, ULP: OpTerminate.Control(), QN: QueueTerminate, MSN: 1}
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

// Hints is what a receiver knows that helps to tell siw's layout from the RFC's
// in a Terminate without headers.
type Hints struct {
	Sent  bool // we have sent an FPDU
	First bool // it is the first FPDU of a peer that is the initiator
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

// siwLayout reports whether a Terminate that begins with the octets of c and has
// comes from Linux's siw on a little-endian host. That driver declares the
// control word as bit fields in the wrong order (struct iwarp_terminate in
// drivers/infiniband/sw/siw/iwarp.h): the two nibbles of the first octet are
// swapped, and M, D and R are bits 0 to 2 of the third.
func siwLayout(c Cause, has byte, hints Hints) bool {
	switch {
	case has&0x07 != 0:
		return true
	case has&(terminateLen|terminateDDP|terminateRead) != 0:
		return false
	}
	other := swapped(c)
	if c.Registered() != other.Registered() {
		return other.Registered()
	}
	// Both readings make sense.
	switch other {
	case CauseVersion, CauseOpcode:
		return hints.Sent // the other reading is of connection set-up
	case CauseMPAIRD, CauseMPARTR:
		return hints.First
	}
	return false
}

// swapped is c with layer and error type exchanged.
func swapped(c Cause) Cause {
	return c&0x00ff | c>>4&0x0f00 | c<<4&0xf000
}
