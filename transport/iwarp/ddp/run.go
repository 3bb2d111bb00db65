package ddp

// Run is the tagged message that a stream is receiving. Tagged messages have no
// number; all that holds their segments together is that each continues the one
// before until the last flag (RFC 5041 section 5.2). The zero Run is between two
// messages.
type Run struct {
	stag uint32
	to   uint64 // offset at which the open message goes on
	ulp  uint8  // ULP octet that all segments of the open message have
	open bool
}

// Open reports whether a message has begun and not ended.
func (r *Run) Open() bool { return r.open }

// TO is where the open message goes on.
func (r *Run) TO() uint64 { return r.to }

// Check returns ErrInvalidSTag, ErrBounds or ErrMixed for a segment with n octets
// of payload that does not continue the open message. STag and TO of an empty
// segment mean nothing and are not looked at (RFC 5041 section 5.2). Where a
// message may begin, and that it does not wrap, is for the owner of the memory.
func (r *Run) Check(h *Tagged, n int) error {
	switch {
	case !r.open:
		return nil
	case n > 0 && h.STag != r.stag:
		return ErrInvalidSTag
	case n > 0 && h.TO != r.to:
		return ErrBounds
	case h.ULP != r.ulp:
		return ErrMixed
	}
	return nil
}

// Advance notes the arrival of a checked segment with n octets of payload.
func (r *Run) Advance(h *Tagged, n int) {
	if h.Last {
		r.open = false
		return
	}
	if n > 0 {
		r.stag, r.to, r.ulp, r.open = h.STag, h.TO+uint64(n), h.ULP, true
	}
}
