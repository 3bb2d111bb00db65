package xctl

// With CapQP a message to a queue without a sink names, in the first segment's upper 32 bits of
// RsvdULP (ddp.Untagged.ULPData), the queue pair of the receiver that it is for, as each XRC request
// does, and how many Writes it builds on, instead of the ordinal of the first of them:
//
//	bits 31..24  of the Writes that are whole, so many of the last ones; 0: none, 255: one has failed
//	bits 23..0   number of the queue pair
//
// The STag of a Send with Invalidate is in the last segment, which is not the first one.

// MostBuilds is how many Writes such a message builds on at most.
const MostBuilds = buildsFailed - 1

const (
	buildsFailed = 0xff
	qpMask       = 0xffffff
)

// QPData names a queue pair, and the Writes by the ordinal of the first of them, of those that were
// begun; 0: the message builds on none.
func (w *WriteSender) QPData(qp, dep uint32) uint32 {
	if dep == 0 {
		return qp
	}
	n := w.last - dep + 1
	if dep > w.last {
		n-- // there is no ordinal 0
	}
	return min(n, buildsFailed)<<24 | qp
}

// QPData is the queue pair that a message names, and the ordinal of the first Write that it builds on.
// It is not ok if one of the Writes is known to have failed.
func (w *WriteReceiver) QPData(data uint32) (qp, dep uint32, ok bool) {
	qp = data & qpMask
	switch n := data >> 24; n {
	case 0:
		return qp, 0, true
	case buildsFailed:
		return qp, 0, false
	default:
		if dep = w.last - n + 1; dep == 0 || dep > w.last {
			dep-- // there is no ordinal 0
		}
		return qp, dep, true
	}
}
