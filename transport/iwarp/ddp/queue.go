package ddp

// Queue is the receiving end of one untagged queue of a stream: it knows which
// segment comes next. The zero Queue expects MSN 1, offset 0, as RFC 5041
// section 4.3 has every queue begin.
type Queue struct {
	done uint32 // MSN of the last whole message; the next is one more, and 0 follows 2^32-1
	mo   uint64 // offset at which the open message goes on; more than 32 bits, so that it can be beyond every offset
	ulp  uint8  // ULP octet that all segments of the open message have
	open bool
}

// QueueAt returns a queue that expects msn, for one whose peer has counted
// already when it is made.
func QueueAt(msn uint32) Queue { return Queue{done: msn - 1} }

// MSN is the number of the message that is open, or else of the next one.
func (q *Queue) MSN() uint32 { return q.done + 1 }

// Open reports whether a message has begun and not ended.
func (q *Queue) Open() bool { return q.open }

// CheckMSN returns ErrMSNRange for a segment of any message but MSN.
func (q *Queue) CheckMSN(h *Untagged) error {
	if h.MSN != q.MSN() {
		return ErrMSNRange
	}
	return nil
}

// CheckMO returns ErrInvalidMO for a segment that leaves a gap or overlaps, and
// ErrMixed for one that says it is of another kind of message than the open one.
// The upper 32 bits of RsvdULP are not compared: those of the last segment count.
func (q *Queue) CheckMO(h *Untagged) error {
	if uint64(h.MO) != q.mo {
		return ErrInvalidMO
	}
	if q.open && h.ULP != q.ulp {
		return ErrMixed
	}
	return nil
}

// Check is CheckMSN and then CheckMO. RFC 5041 section 7.1 asks for a buffer
// between the two; a caller who wants exactly that order calls them one by one.
func (q *Queue) Check(h *Untagged) error {
	if err := q.CheckMSN(h); err != nil {
		return err
	}
	return q.CheckMO(h)
}

// Advance notes the arrival of a checked segment with n octets of payload.
func (q *Queue) Advance(h *Untagged, n int) {
	if h.Last {
		q.done++
		q.mo, q.open = 0, false
		return
	}
	q.mo += uint64(n)
	q.ulp, q.open = h.ULP, true
}
