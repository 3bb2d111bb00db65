package ddp

import "encoding/binary"

// Tagged is the header of a tagged segment, RFC 5041 section 4.2: it says
// itself where in the receiver's memory its payload belongs.
//
//	0   1 control   T=1, L, reserved, DV
//	1   1 RsvdULP   RDMAP's control octet
//	2   4 STag
//	6   8 TO        address of the first payload octet within the STag
//	14    payload
type Tagged struct {
	Last bool   // the segment is the last of its message
	ULP  uint8  // RsvdULP
	STag uint32 // names the receiver's memory
	TO   uint64
}

// AppendTo appends the header's 14 octets to b.
func (h Tagged) AppendTo(b []byte) []byte {
	b = append(b, control(true, h.Last), h.ULP)
	b = binary.BigEndian.AppendUint32(b, h.STag)
	return binary.BigEndian.AppendUint64(b, h.TO)
}

// Decode reads the header at the beginning of b. It returns ErrShort, ErrModel
// or ErrTaggedVersion, in this order, and then leaves h as it was.
func (h *Tagged) Decode(b []byte) error {
	if len(b) < TaggedLen {
		return ErrShort
	}
	if !IsTagged(b[0]) {
		return ErrModel
	}
	if b[0]&controlVersion != Version {
		return ErrTaggedVersion
	}
	h.Last = b[0]&controlLast != 0
	h.ULP = b[1]
	h.STag = binary.BigEndian.Uint32(b[2:])
	h.TO = binary.BigEndian.Uint64(b[6:])
	return nil
}
