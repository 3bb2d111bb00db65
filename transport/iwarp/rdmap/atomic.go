package rdmap

import "encoding/binary"

// Lengths of the headers of atomic operations.
const (
	AtomicRequestLen  = 52
	AtomicResponseLen = 12
)

// AtomicOp is the operation of an Atomic Request, RFC 7306 section 5.2.1.
type AtomicOp uint8

// The operations; 1 and all above 2 are reserved.
const (
	FetchAdd    AtomicOp = 0
	CompareSwap AtomicOp = 2
)

// AtomicRequest is the header of an Atomic Request, RFC 7306 section 5.2.1.
//
//	0   4 reserved, 28 bits, and opcode, 4 bits
//	4   4 request identifier
//	8   4 remote STag
//	12  8 remote TO
//	20  8 add or swap data
//	28  8 add or swap mask
//	36  8 compare data
//	44  8 compare mask
type AtomicRequest struct {
	Op          AtomicOp
	ID          uint32 // request id; the response has the same
	STag        uint32
	TO          uint64 // address of the word, a multiple of 8
	Add         uint64 // FetchAdd: the addend; CompareSwap: the value to swap in
	AddMask     uint64 // FetchAdd: the carry stops; CompareSwap: the bits to swap
	Compare     uint64 // 0 for FetchAdd
	CompareMask uint64 // all ones for FetchAdd
}

// AppendTo appends the header's 52 octets to b.
func (r AtomicRequest) AppendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(r.Op)&atomicOp)
	b = binary.BigEndian.AppendUint32(b, r.ID)
	b = binary.BigEndian.AppendUint32(b, r.STag)
	b = binary.BigEndian.AppendUint64(b, r.TO)
	b = binary.BigEndian.AppendUint64(b, r.Add)
	b = binary.BigEndian.AppendUint64(b, r.AddMask)
	b = binary.BigEndian.AppendUint64(b, r.Compare)
	return binary.BigEndian.AppendUint64(b, r.CompareMask)
}

// Decode reads b, which is the whole payload of an Atomic Request's segment. It
// returns ddp.ErrShort if that is too short, CauseStreamCatastrophic if it is too long and
// CauseOpcode for a reserved operation.
func (r *AtomicRequest) Decode(b []byte) error {
	if err := exactly(b, AtomicRequestLen); err != nil {
		return err
	}
	op := AtomicOp(b[3] & atomicOp)
	if op != FetchAdd && op != CompareSwap {
		return CauseOpcode
	}
	r.Op = op
	r.ID = binary.BigEndian.Uint32(b[4:])
	r.STag = binary.BigEndian.Uint32(b[8:])
	r.TO = binary.BigEndian.Uint64(b[12:])
	r.Add = binary.BigEndian.Uint64(b[20:])
	r.AddMask = binary.BigEndian.Uint64(b[28:])
	r.Compare = binary.BigEndian.Uint64(b[36:])
	r.CompareMask = binary.BigEndian.Uint64(b[44:])
	return nil
}

const atomicOp = 0x0f // the opcode's bits in its word

// AtomicResponse is the header of an Atomic Response, RFC 7306 section 5.2.2.
//
//	0  4 request identifier
//	4  8 value before the operation
type AtomicResponse struct {
	ID    uint32
	Value uint64
}

// AppendTo appends the header's 12 octets to b.
func (r AtomicResponse) AppendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, r.ID)
	return binary.BigEndian.AppendUint64(b, r.Value)
}

// Decode reads b, which is the whole payload of an Atomic Response's segment. It
// returns ddp.ErrShort if that is too short and CauseStreamCatastrophic if it is too long.
func (r *AtomicResponse) Decode(b []byte) error {
	if err := exactly(b, AtomicResponseLen); err != nil {
		return err
	}
	r.ID = binary.BigEndian.Uint32(b)
	r.Value = binary.BigEndian.Uint64(b[4:])
	return nil
}
