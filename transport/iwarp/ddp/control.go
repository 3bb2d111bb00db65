package ddp

import "errors"

// Version is the DDP version of RFC 5041, the only one understood.
const Version = 1

// Lengths of the two headers, RFC 5041 sections 4.2 and 4.3.
const (
	TaggedLen   = 14
	UntaggedLen = 18
)

// Bits of the control octet, the first of every segment (RFC 5041 section 4.1).
// Those in between are reserved: sent as zero, ignored on receipt.
const (
	controlTagged  = 0x80
	controlLast    = 0x40
	controlVersion = 0x03
)

// Errors of decoders that have no code of DDP.
var (
	// ErrShort is returned for a segment shorter than the header it needs.
	// The layer below has lost its framing.
	ErrShort = errors.New("ddp: segment is shorter than its header")
	// ErrModel is returned for a header of the other buffer model.
	ErrModel = errors.New("ddp: segment of the other buffer model")
	// ErrMixed is returned for a segment in the middle of a message whose
	// first segment had another RsvdULP.
	ErrMixed = errors.New("ddp: segment of another message before the end of the first")
)

// IsTagged reports whether a segment with this control octet is a tagged one.
func IsTagged(control byte) bool { return control&controlTagged != 0 }

// HeaderLen is the length of the header that begins with this control octet.
func HeaderLen(control byte) int {
	if IsTagged(control) {
		return TaggedLen
	}
	return UntaggedLen
}

func control(tagged, last bool) byte {
	c := byte(Version)
	if tagged {
		c |= controlTagged
	}
	if last {
		c |= controlLast
	}
	return c
}
