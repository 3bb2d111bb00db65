package mpa

import "encoding/binary"

// The two keys differ in one octet, keyRole.
const (
	requestKey = "MPA ID Req Frame"
	replyKey   = "MPA ID Rep Frame"
	keyRole    = 9
)

// Flags of a frame; the rest of the octet is reserved.
const (
	flagMarkers  = 0x80
	flagCRC      = 0x40
	flagReject   = 0x20
	flagEnhanced = 0x10
)

// Frame is what each side sends once, before all FPDUs (RFC 5044 section 7.1.1,
// RFC 6581 section 6). It has no CRC, no markers and no padding.
//
//	|0                   1           |        2                   3  |
//	+----------------------------------------------------------------+
//	|                   Key, 16 octets, "MPA ID Req Frame"           |
//	|                                or "MPA ID Rep Frame"           |
//	+-+-+-+-+--------+---------------+-------------------------------+
//	|M|C|R|S|  Res   |      Rev      |           PD_Length           |
//	+-+-+-+-+--------+---------------+-------------------------------+
//	|                    Private data, PD_Length octets              |
//	+----------------------------------------------------------------+
type Frame struct {
	Reply    bool   // the key is that of a Reply
	Markers  bool   // M: the sender of the frame wants markers in what it receives
	CRC      bool   // C: the sender wants CRCs, in both directions
	Reject   bool   // R: a Reply that refuses; ignored in a Request
	Enhanced bool   // S: private data begins with a Prefix, if Rev is at least 2
	Rev      uint8  // 1 is RFC 5044, 2 is RFC 6581
	Private  []byte // Prefix included, at most MaxPrivate octets
}

// AppendTo appends the frame. Reserved bits are zero.
func (f *Frame) AppendTo(dst []byte) []byte {
	if len(f.Private) > MaxPrivate {
		panic("mpa: private data is within its limit")
	}
	key := requestKey
	if f.Reply {
		key = replyKey
	}
	var flags byte
	if f.Markers {
		flags |= flagMarkers
	}
	if f.CRC {
		flags |= flagCRC
	}
	if f.Reject {
		flags |= flagReject
	}
	if f.Enhanced {
		flags |= flagEnhanced
	}
	dst = append(dst, key...)
	dst = append(dst, flags, f.Rev)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(f.Private)))
	return append(dst, f.Private...)
}

// DecodeFrame reads a frame from the front of b, which may hold only part of
// it: need is then how many octets are missing, as far as can be told. With
// FrameLen octets all fields but Private are set; with need 0 and no error the
// frame is whole, FrameLen and its private data long. Private aliases b.
// Reserved bits are dropped. The error is ErrKey, at the first octet that
// differs, or ErrPrivate if more private data is announced than limit octets.
func DecodeFrame(b []byte, limit int) (f Frame, need int, err error) {
	for i, c := range b[:min(len(b), len(requestKey))] {
		if c != requestKey[i] && c != replyKey[i] {
			return Frame{}, 0, ErrKey
		}
	}
	if len(b) > keyRole {
		f.Reply = b[keyRole] == replyKey[keyRole]
	}
	if len(b) < FrameLen {
		return f, FrameLen - len(b), nil
	}
	flags := b[16]
	f.Markers = flags&flagMarkers != 0
	f.CRC = flags&flagCRC != 0
	f.Reject = flags&flagReject != 0
	f.Enhanced = flags&flagEnhanced != 0
	f.Rev = b[17]
	n := int(binary.BigEndian.Uint16(b[18:]))
	if n > limit {
		return f, 0, ErrPrivate
	}
	if have := len(b) - FrameLen; have < n {
		return f, n - have, nil
	}
	f.Private = b[FrameLen : FrameLen+n : FrameLen+n]
	return f, 0, nil
}

// split returns the two parts of the private data: a Prefix if there is one,
// which revision 1 does not know, and what is the upper layer's.
func (f *Frame) split() (enhanced bool, p Prefix, ulp []byte, err error) {
	if !f.Enhanced || f.Rev < 2 {
		return false, Prefix{}, f.Private, nil
	}
	p, err = DecodePrefix(f.Private)
	if err != nil {
		return true, Prefix{}, nil, err
	}
	return true, p, f.Private[PrefixLen:], nil
}

// inbox collects the one frame that a side receives.
type inbox struct {
	buf    []byte
	sealed bool // the whole frame ended with a seal, which is in order
}

// take moves octets from the front of b into the inbox, no more than the frame
// has, and returns how many, and whether the frame is whole. It fails as soon
// as can be told: with ErrKey, with ErrRole behind the key of a frame that is
// not a Reply though it should be, or the other way round, with ErrRevision,
// with ErrPrivate; with ErrSeal when the frame is whole. A seal is not part of the
// frame's Private.
func (in *inbox) take(b []byte, reply bool, limit int) (f Frame, n int, whole bool, err error) {
	for {
		var need int
		f, need, err = DecodeFrame(in.buf, limit)
		switch {
		case err == ErrKey:
		case len(in.buf) >= len(requestKey) && f.Reply != reply:
			err = ErrRole
		case len(in.buf) >= FrameLen && (f.Rev < 1 || f.Rev > 2):
			err = ErrRevision
		}
		if err == nil && need == 0 {
			if in.sealed, err = unseal(in.buf); in.sealed {
				f.Private = f.Private[:len(f.Private)-SealLen]
			}
		}
		if err != nil || need == 0 || n == len(b) {
			return f, n, err == nil && need == 0, err
		}
		more := min(need, len(b)-n)
		in.buf = append(in.buf, b[n:n+more]...)
		n += more
	}
}
