package xctl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
)

// Sizes of the private data.
const (
	// BlockLen is the length of a Block of version 1.
	BlockLen = 32
	// MaxPrivate is the upper layer's private data beside a block: 256 octets,
	// which is what Linux's siw takes, without the enhanced prefix of RFC 6581
	// section 9 and the block.
	MaxPrivate = 256 - 4 - BlockLen
)

const (
	blockVersion = 1
	blockUnit    = 4 // octets that the length counts by
	minULPDU     = 128
)

// Defaults of a Block.
const (
	DefaultCredit = 16
	DefaultMaxSRQ = 4096
)

// ErrBlock is what errors.Is finds in what Block.Validate returns (EINVAL).
var ErrBlock = fmt.Errorf("xctl: bad block: %w", syscall.EINVAL)

// ErrPrivate: the upper layer's private data and a block are too long for a
// frame (EMSGSIZE).
var ErrPrivate = fmt.Errorf("xctl: more than %d octets of private data: %w", MaxPrivate, syscall.EMSGSIZE)

// Block is what one side offers or answers, in the private data of the MPA
// Request or Reply before that of the upper layer:
//
//	0   4 magic "iXRC"
//	4   1 version, 1
//	5   1 length of the block in units of 4 octets, 8; what exceeds it is skipped
//	6   2 capabilities
//	8   8 domain
//	16  4 MaxSRQ
//	20  2 MaxULPDU
//	22  1 credit
//	23  1 reserved, 0
//	24  8 incarnation
//
// All limits are those of the side that sends the block, and bind the other one.
type Block struct {
	Caps Caps
	// Domain is the scope of the queue numbers of this side; 0 is the default one.
	Domain uint64
	// MaxSRQ is how many shared receive queues this side keeps track of on the
	// connection. Messages for more of them are refused.
	MaxSRQ uint32
	// MaxULPDU is the longest ULPDU taken: 128 to 65535, or 0 for as much as fits
	// a TCP segment (RFC 5044 section 3).
	MaxULPDU uint16
	// Credit is how many messages a queue takes before the first CREDIT for it,
	// at least 1.
	Credit uint8
	// Incarnation is drawn at random when the process starts. Another one means
	// that all the peer knew of queue numbers is void.
	Incarnation uint64
}

var magic = [4]byte{'i', 'X', 'R', 'C'}

// Validate returns an error that names each field out of its range, nil if there
// is none.
func (b *Block) Validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrBlock}, args...)...))
	}
	if rest := b.Caps &^ capAll; rest != 0 {
		bad("Caps has %v", rest)
	}
	if lost := b.Caps &^ b.Caps.consistent(); lost != 0 {
		bad("Caps has %v without what they need", lost)
	}
	if b.Caps.Has(CapTarget) && b.MaxSRQ == 0 {
		bad("MaxSRQ is 0 for a target")
	}
	if b.MaxULPDU != 0 && b.MaxULPDU < minULPDU {
		bad("MaxULPDU is %d, not 0 or %d to 65535", b.MaxULPDU, minULPDU)
	}
	if b.Caps.Has(CapCredit) && b.Credit == 0 {
		bad("Credit is 0")
	}
	return errors.Join(errs...)
}

// AppendTo appends the block's 32 octets to dst.
func (b *Block) AppendTo(dst []byte) []byte {
	dst = append(dst, magic[:]...)
	dst = append(dst, blockVersion, BlockLen/blockUnit)
	dst = binary.BigEndian.AppendUint16(dst, uint16(b.Caps))
	dst = binary.BigEndian.AppendUint64(dst, b.Domain)
	dst = binary.BigEndian.AppendUint32(dst, b.MaxSRQ)
	dst = binary.BigEndian.AppendUint16(dst, b.MaxULPDU)
	dst = append(dst, b.Credit, 0)
	return binary.BigEndian.AppendUint64(dst, b.Incarnation)
}

// decode reads a block at the front of private data and returns the octets it
// takes, which may be more than BlockLen. It is not ok if there is none: no
// magic, version 0, too short, or longer than the data. Later versions begin as
// version 1 does.
func (b *Block) decode(private []byte) (version uint8, n int, ok bool) {
	if len(private) < BlockLen || [4]byte(private) != magic {
		return 0, 0, false
	}
	version, n = private[4], int(private[5])*blockUnit
	if version == 0 || n < BlockLen || n > len(private) {
		return 0, 0, false
	}
	b.Caps = Caps(binary.BigEndian.Uint16(private[6:]))
	b.Domain = binary.BigEndian.Uint64(private[8:])
	b.MaxSRQ = binary.BigEndian.Uint32(private[16:])
	b.MaxULPDU = binary.BigEndian.Uint16(private[20:])
	b.Credit = private[22]
	b.Incarnation = binary.BigEndian.Uint64(private[24:])
	return version, n, true
}

// tolerant returns the block of a peer with what makes no sense in it replaced
// by what is safest to assume.
func (b Block) tolerant() Block {
	b.Caps &= capAll
	if b.MaxSRQ == 0 {
		b.Caps &^= CapTarget
	}
	b.Caps = b.Caps.consistent()
	if b.MaxULPDU < minULPDU {
		b.MaxULPDU = 0
	}
	b.Credit = max(b.Credit, 1)
	return b
}
