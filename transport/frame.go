package transport

import "syscall"

// Frame is what a link carries: a message, or operations on the peer's memory and the
// message behind them, or operations alone.
type Frame struct {
	Head []byte       // header of the message, and its payload if that lies behind; nil: operations alone
	Body []byte       // payload that lies elsewhere
	Ops  []*Operation // done before the message is delivered; nil: none
	Port uint16       // destination port of the message; operations are on memory of the program that has it
}

// Size is the number of octets of the message.
func (f *Frame) Size() int { return len(f.Head) + len(f.Body) }

// Taken is how much a Send has taken.
type Taken struct {
	Frames int  // whole frames
	Octets int  // octets of the next one that this call has taken
	Ops    bool // this call has begun the operations of the next one
}

// Begun tells whether the frame behind the whole ones has begun in this call.
func (t Taken) Begun() bool { return t.Octets > 0 || t.Ops }

// FrameError is an error of Send about a frame, not about the link: its operations cannot
// be done on any link.
type FrameError struct{ Err error }

func (e *FrameError) Error() string { return e.Err.Error() }
func (e *FrameError) Unwrap() error { return e.Err }

// Slices appends octets from to to of the message to bufs. What lies right behind the last
// slice in memory extends that slice.
func (f *Frame) Slices(bufs [][]byte, from, to int) [][]byte {
	n := len(f.Head)
	if from < n {
		head := f.Head[from:min(to, n)]
		if k := len(bufs) - 1; k >= 0 && Follows(bufs[k], head) {
			bufs[k] = bufs[k][:len(bufs[k])+len(head)]
		} else {
			bufs = append(bufs, head)
		}
	}
	if to > n {
		bufs = append(bufs, f.Body[max(from-n, 0):to-n])
	}
	return bufs
}

// Flatten appends the messages of leading frames to bufs, without the first skip octets of
// the first one, up to a frame with operations and to most slices. Messages that lie one
// behind the other in memory share a slice. It returns how many frames it has put there,
// with so many octets.
func Flatten(bufs [][]byte, frames []Frame, skip, most int) (out [][]byte, n, size int) {
	size = -skip
	for i := range frames {
		f := &frames[i]
		if len(f.Ops) > 0 && i > 0 || len(bufs)+2 > most {
			break
		}
		size += len(f.Head) + len(f.Body)
		n++
		if k := len(bufs) - 1; i > 0 && k >= 0 && len(f.Body) == 0 && Follows(bufs[k], f.Head) { // the usual case
			bufs[k] = bufs[k][:len(bufs[k])+len(f.Head)]
			continue
		}
		bufs = f.Slices(bufs, skip, f.Size())
		skip = 0
	}
	return bufs, n, size
}

// Follows tells whether b lies right behind a in the same memory.
func Follows(a, b []byte) bool {
	return cap(a) >= len(a)+len(b) && len(b) > 0 && &a[:len(a)+1][len(a)] == &b[0]
}

// Cut tells what octets, the first that a link has taken of the messages of frames, are:
// whole frames, and octets of the next one. skip octets of the first one were taken before.
func Cut(frames []Frame, skip, octets int) (t Taken) {
	for octets > 0 {
		left := frames[t.Frames].Size() - skip
		if octets < left {
			t.Octets = octets
			return t
		}
		octets -= left
		skip = 0
		t.Frames++
	}
	return t
}

// Stream sends frames as a stream of octets, for links that carry messages alone.
type Stream struct {
	Writev func(bufs [][]byte) (int, error) // takes leading octets of at most MaxSlices slices

	skip int      // octets that were taken of the frame that is next
	bufs [][]byte // scratch
}

// errNoOperations is about frames with operations on a link that carries none.
var errNoOperations = &FrameError{syscall.EOPNOTSUPP}

// Send is Link.Send.
func (s *Stream) Send(frames []Frame) (t Taken, err error) {
	for t.Frames < len(frames) {
		left := frames[t.Frames:]
		if len(left[0].Ops) > 0 {
			return t, errNoOperations
		}
		var n, size int
		s.bufs, n, size = Flatten(s.bufs[:0], left, s.skip, MaxSlices)
		k, err := s.Writev(s.bufs)
		clear(s.bufs)
		if k == size {
			t.Frames += n
			s.skip = 0
		} else {
			part := Cut(left, s.skip, k)
			if part.Frames > 0 {
				s.skip = 0
			}
			s.skip += part.Octets
			t.Frames, t.Octets = t.Frames+part.Frames, part.Octets
		}
		if err != nil || k < size {
			return t, err
		}
	}
	return t, nil
}
