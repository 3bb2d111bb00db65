package xrc

import "github.com/rds-go/rds/transport"

// sender is what Send has to know of the frame that is next. It is the writer's.
type sender struct {
	begun bool // its operations have begun
}

// Send sends from the caller's goroutine. Operations, and the messages behind them, leave
// together.
func (l *link) Send(frames []transport.Frame) (t transport.Taken, err error) {
	o := &l.out
	corked := false
	for t.Frames < len(frames) {
		left := frames[t.Frames:]
		if f := &left[0]; len(f.Ops) > 0 && !o.begun {
			if !corked {
				l.qp.Cork()
				corked = true
			}
			var begun bool
			if begun, err = l.operate(f.Ops, f.Port, f.Size() > 0); err != nil {
				err = &transport.FrameError{Err: err}
			}
			if !begun {
				break
			}
			if f.Size() == 0 {
				t.Frames++
				continue
			}
			o.begun, t.Ops = true, true
		}
		part, e := l.qp.SendFrames(left, l.queueOf)
		if part.Frames > 0 {
			o.begun, t.Ops = false, false
		}
		t.Frames, t.Octets = t.Frames+part.Frames, part.Octets
		if e != nil {
			err = transport.ErrClosed
		}
		if e != nil || part.Frames == 0 || t.Frames < len(frames) && len(frames[t.Frames].Ops) == 0 || part.Octets > 0 {
			break // an error, or the link is full
		}
	}
	if corked {
		l.qp.Uncork()
	}
	return t, err
}
