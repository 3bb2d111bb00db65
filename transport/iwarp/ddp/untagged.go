package ddp

import "encoding/binary"

// Untagged is the header of an untagged segment, RFC 5041 section 4.3: the
// receiver decides where the payload goes, by queue and message.
//
//	0   1 control   T=0, L, reserved, DV
//	1   1 RsvdULP   RDMAP's control octet
//	2   4 RsvdULP   the STag to invalidate, or zero
//	6   4 QN
//	10  4 MSN       from 1, one more for each message of the queue
//	14  4 MO        of the payload within its message
//	18    payload
type Untagged struct {
	Last    bool   // the segment is the last of its message
	ULP     uint8  // RsvdULP, bits 0..7
	ULPData uint32 // RsvdULP, bits 8..39
	QN      uint32
	MSN     uint32
	MO      uint32
}

// AppendTo appends the header's 18 octets to b.
func (h Untagged) AppendTo(b []byte) []byte {
	b = append(b, control(false, h.Last), h.ULP)
	b = binary.BigEndian.AppendUint32(b, h.ULPData)
	b = binary.BigEndian.AppendUint32(b, h.QN)
	b = binary.BigEndian.AppendUint32(b, h.MSN)
	return binary.BigEndian.AppendUint32(b, h.MO)
}

// Decode reads the header at the beginning of b. It returns ErrShort, ErrModel
// or ErrUntaggedVersion, in this order, and then leaves h as it was.
func (h *Untagged) Decode(b []byte) error {
	if len(b) < UntaggedLen {
		return ErrShort
	}
	if IsTagged(b[0]) {
		return ErrModel
	}
	if b[0]&controlVersion != Version {
		return ErrUntaggedVersion
	}
	h.Last = b[0]&controlLast != 0
	h.ULP = b[1]
	h.ULPData = binary.BigEndian.Uint32(b[2:])
	h.QN = binary.BigEndian.Uint32(b[6:])
	h.MSN = binary.BigEndian.Uint32(b[10:])
	h.MO = binary.BigEndian.Uint32(b[14:])
	return nil
}
