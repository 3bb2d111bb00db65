package loop

import "github.com/rds-go/rds/transport"

// sender is what Send has to know of the frame that is next. It is the writer's.
type sender struct {
	skip  int      // octets that were taken of it
	begun bool     // its operations are done
	bufs  [][]byte // scratch
}

// Send delivers frames to the other end, or appends messages for whoever is delivering.
// Operations are done at once, on the caller's goroutine, if all that was sent before is
// delivered.
func (l *link) Send(frames []transport.Frame) (t transport.Taken, err error) {
	if !l.acquire() {
		return t, transport.ErrClosed
	}
	defer l.put()
	o := &l.out
	for t.Frames < len(frames) {
		left := frames[t.Frames:]
		if f := &left[0]; len(f.Ops) > 0 && !o.begun {
			if done, err := l.operate(f.Ops, f.Port); !done || err != nil {
				return t, err
			}
			if f.Size() == 0 {
				t.Frames++
				continue
			}
			o.begun, t.Ops = true, true
		}
		write := l.send.write
		if o.begun {
			if left = left[:1]; l.ops.refused {
				write = l.send.skip
			}
		}
		var size int
		o.bufs, _, size = transport.Flatten(o.bufs[:0], left, o.skip, transport.MaxSlices)
		n, err := write(o.bufs)
		clear(o.bufs)
		part := transport.Cut(left, o.skip, n)
		if part.Frames > 0 {
			o.skip, o.begun, t.Ops = 0, false, false
		}
		o.skip += part.Octets
		t.Frames, t.Octets = t.Frames+part.Frames, part.Octets
		if err != nil || n < size {
			return t, err
		}
	}
	return t, nil
}
