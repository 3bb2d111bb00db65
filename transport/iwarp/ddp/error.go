package ddp

import "fmt"

// Error is what a receiver finds wrong with a segment, RFC 5041 section 7.2: the
// error type in the upper octet, the error code in the lower one, as a Terminate
// message carries them.
type Error uint16

// The errors of RFC 5041 section 7.2. Type 3 belongs to the layer below.
const (
	ErrCatastrophic Error = 0x000 // local failure

	ErrInvalidSTag   Error = 0x100 // unknown, invalid or with the wrong key
	ErrBounds        Error = 0x101 // not wholly inside the tagged buffer
	ErrNotAssociated Error = 0x102 // STag of another stream or protection domain
	ErrTOWrap        Error = 0x103 // TO plus length exceeds 64 bits
	ErrTaggedVersion Error = 0x104

	ErrInvalidQN       Error = 0x201 // no such queue
	ErrNoBuffer        Error = 0x202 // nothing posted for this MSN
	ErrMSNRange        Error = 0x203 // not the message that comes next
	ErrInvalidMO       Error = 0x204 // gap or overlap within a message
	ErrTooLong         Error = 0x205 // exceeds the posted buffer
	ErrUntaggedVersion Error = 0x206
)

// Type is the error type: 0 local catastrophic, 1 tagged, 2 untagged buffer.
func (e Error) Type() uint8 { return uint8(e >> 8) }

// Code is the error code within its type.
func (e Error) Code() uint8 { return uint8(e) }

// Error implements error.
func (e Error) Error() string { return "ddp: " + e.String() }

// Known reports whether RFC 5041 has a name for the error.
func (e Error) Known() bool { return e.name() != "" }

// String is the name of the error, or its numbers.
func (e Error) String() string {
	if name := e.name(); name != "" {
		return name
	}
	return fmt.Sprintf("error %d/%02x", e.Type(), e.Code())
}

func (e Error) name() string {
	switch e {
	case ErrCatastrophic:
		return "local catastrophic error"
	case ErrInvalidSTag:
		return "invalid STag"
	case ErrBounds:
		return "base or bounds violation"
	case ErrNotAssociated:
		return "STag not associated with the stream"
	case ErrTOWrap:
		return "TO wrap"
	case ErrTaggedVersion:
		return "invalid DDP version of a tagged segment"
	case ErrInvalidQN:
		return "invalid QN"
	case ErrNoBuffer:
		return "invalid MSN: no buffer available"
	case ErrMSNRange:
		return "invalid MSN: not in range"
	case ErrInvalidMO:
		return "invalid MO"
	case ErrTooLong:
		return "message too long for the buffer"
	case ErrUntaggedVersion:
		return "invalid DDP version of an untagged segment"
	}
	return ""
}
