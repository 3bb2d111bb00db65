package rdma

import "github.com/rds-go/rds/transport"

// sender is what Send has to know of the frame that is next. It is the writer's.
type sender struct {
	skip   int    // octets that were taken of it
	begun  bool   // its operations have begun
	builds uint32 // number of Writes among its operations
	queue  uint32 // queue that what was taken of it has gone to

	cutter cutter
	bufs   [][]byte // scratch
}

// Send sends from the caller's goroutine. Operations, and the messages behind them, leave
// together.
func (l *link) Send(frames []transport.Frame) (t transport.Taken, err error) {
	o := &l.out
	corked := false
	for t.Frames < len(frames) {
		f := &frames[t.Frames]
		if len(f.Ops) > 0 && !o.begun {
			if !corked {
				l.qp.Cork()
				corked = true
			}
			var begun bool
			if begun, err = l.operate(f.Ops); err != nil {
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
		part, all, e := l.sendRun(frames[t.Frames:])
		if part.Frames > 0 {
			t.Ops = false
		}
		t.Frames, t.Octets = t.Frames+part.Frames, part.Octets
		if err = e; !all || err != nil {
			break
		}
	}
	if corked {
		l.qp.Uncork()
	}
	return t, err
}

// sendRun sends messages up to one with operations, or the one whose operations have begun,
// and tells whether all of what it has tried to send was taken.
func (l *link) sendRun(frames []transport.Frame) (t transport.Taken, all bool, err error) {
	o := &l.out
	after, builds := false, uint32(0)
	if o.begun {
		frames = frames[:1]
		if o.skip == 0 {
			after, builds = true, o.builds
		}
	}
	var n, size int
	o.bufs, n, size = transport.Flatten(o.bufs[:0], frames, o.skip, transport.MaxSlices)
	o.cutter.begin(&l.routes, frames[:n], o.skip, o.queue)
	octets, err := l.qp.SendDirect(o.bufs, o.cutter.cut, after, builds)
	clear(o.bufs)
	l.written.Add(uint64(octets))
	if octets == size {
		t.Frames = n
	} else {
		t = transport.Cut(frames, o.skip, octets)
	}
	if t.Frames > 0 {
		o.skip, o.begun = 0, false
	}
	if t.Octets > 0 {
		o.skip += t.Octets
		o.queue = o.cutter.queues[t.Frames]
	}
	if o.cutter.frames = nil; err != nil {
		err = transport.ErrClosed
	}
	return t, octets == size, err
}

// cutter says which segments frames go out in, and to which queues.
type cutter struct {
	frames []transport.Frame
	queues []uint32 // queues of frames
	next   int      // frame that the walk has come to
	start  int      // position at which it begins
}

// begin is for frames of which skip octets have gone to queue.
func (c *cutter) begin(r *routes, frames []transport.Frame, skip int, queue uint32) {
	c.frames, c.next, c.start = frames, 0, -skip
	c.queues = c.queues[:0]
	for i := range frames {
		c.queues = append(c.queues, r.queue(frames[i].Port))
	}
	if skip > 0 {
		c.queues[0] = queue
	}
}

// cut is an iwarp.Cut: as many whole messages to one queue as fit, or as much as fits
// of one. A Send that carries one message in several segments carries no other, for the
// peer may refuse it.
func (c *cutter) cut(pos, room int) (n int, last bool, queue uint32) {
	for pos < c.start {
		c.next--
		c.start -= c.frames[c.next].Size()
	}
	size := c.frames[c.next].Size()
	for pos >= c.start+size {
		c.start += size
		c.next++
		size = c.frames[c.next].Size()
	}
	queue = c.queues[c.next]
	if left := c.start + size - pos; pos > c.start || left > room {
		return min(left, room), left <= room, queue
	}
	for c.next < len(c.frames) && c.queues[c.next] == queue {
		size := c.frames[c.next].Size()
		if n+size > room {
			break
		}
		n += size
		c.next++
	}
	c.start = pos + n
	return n, true, queue
}
