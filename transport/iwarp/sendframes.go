package iwarp

import (
	"sync/atomic"

	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// frameSender is the sending end of the peer's queues that frames are sent to.
type frameSender struct {
	// Guarded by QP.mu.
	want   bool        // a SendFrames took less than all: Writable is due
	fenced bool        // the message that is next follows work requests, and nothing else may
	fence  uint32      // if fenced: the work request that the message goes before
	writes uint32      // if fenced: number of Writes right before the fence that the message builds on
	stuck  *frameQueue // queue that waits for credit; nil: none does
	sent   uint64      // bytes of messages that SendFrames has taken
	acked  uint64      // bytes of messages that the peer has taken or refused
	ends   []frameEnd
	first  int // index in ends of the oldest message that is not acknowledged

	// While a batch is being written the peer may already acknowledge messages that the
	// transmitter has not noted yet. It notes the acknowledgements after the write.
	writing bool
	ahead   []*frameQueue // queues of which the peer has taken messages that the transmitter has not noted

	heard atomic.Bool // the peer's program takes messages
	late  atomic.Bool // acked has grown by messages taken, and the sink has not heard

	short []shortMessage // short messages that were copied and are not in a batch yet
	spare [][]byte       // memory of short messages, to use again

	// The transmitter's, but for queues, which is SendFrames's. What of them says which
	// messages have been sent is written under QP.mu.
	queues map[xctl.SRQN]*frameQueue
	built  []frameCut // messages of short that are in the batch at hand
	cuts   []frameCut // segments of frames that are in the batch at hand, behind all else
	open   openFrame
	bytes  uint64   // payload bytes of all segments begun
	run    frameRun // what SendFrames sends
	bufs   [][]byte // scratch of addFrames
}

// openFrame is the message in the middle of which the segments that were sent end.
type openFrame struct {
	queue  *frameQueue
	offset uint32 // offset of the next segment; 0: no message is open
	op     rdmap.Op
	dep    uint32 // ordinal of the first Write that the message builds on
}

// frameCut is a segment in the batch at hand.
type frameCut struct {
	start  int       // offset of the FPDU in the batch
	n      int       // length of the payload
	frames int       // whole frames that end with the segment
	last   bool      // a message ends with the segment
	open   openFrame // the message, as it was before the segment
}

// frameRun is what a part of SendFrames sends: leading frames, up to one whose operations
// come first.
type frameRun struct {
	frames  []transport.Frame
	queueOf func(port uint16) uint32
	fenced  bool  // frameSender.fenced, for the batch at hand
	done    int   // frames that were taken
	err     error // the next frame cannot be sent
}

// left tells whether some of the run is to be sent yet.
func (r *frameRun) left() bool { return r != nil && r.done < len(r.frames) && r.err == nil }

// SendFrames sends leading frames, as many as there is room for, and tells how much it has
// taken; the memory of frames is the caller's again. The next call goes on with a frame
// that was taken in part. Less than all with a nil error means that Sink.Writable follows
// once, unless the frame behind those that were taken whole has operations. One goroutine
// at a time calls it.
//
// queueOf tells which shared receive queue of the peer takes messages to a port. It is
// called while messages are made, and must not block. As many whole messages to one queue
// as fit a segment travel in one Send of one segment; a message that does not fit has a
// Send of its own. A queue is sent frames or work requests, not both.
//
// The call ends before a frame with operations, unless that is the first one, and the
// caller has posted its operations by PostFirst.
func (q *QP) SendFrames(frames []transport.Frame, queueOf func(port uint16) uint32) (t transport.Taken, err error) {
	for begin := true; t.Frames < len(frames); begin = false {
		left := frames[t.Frames:]
		if !begin && len(left[0].Ops) > 0 {
			break
		}
		part, all, err := q.sendRun(left, queueOf)
		t.Frames, t.Octets = t.Frames+part.Frames, part.Octets
		if !all || err != nil {
			return t, err
		}
	}
	return t, nil
}

// sendRun sends one frame that follows its operations, or frames up to one with operations.
// It tells whether all of that was taken.
func (q *QP) sendRun(frames []transport.Frame, queueOf func(port uint16) uint32) (t transport.Taken, all bool, err error) {
	q.mu.Lock()
	s := q.stream
	if err := q.sendsFramesLocked(); err != nil {
		q.mu.Unlock()
		return t, false, err
	}
	d := &s.shared.frames
	skip := d.open.offset
	run := &d.run
	if *run = (frameRun{frames: frames, queueOf: queueOf}); d.fenced {
		run.frames = frames[:1]
	}
	d.stuck = nil
	if kick, ok := d.takeShortLocked(q, run); ok {
		t.Frames = len(run.frames)
		kick = kick && s.kickLocked()
		q.mu.Unlock()
		if kick {
			s.transmit()
		}
		return t, true, nil
	}
	for err == nil {
		q.letGoLocked()
		if !s.kickLocked() { // the goroutine that is sending also sends what was held back
			d.want = true
			break
		}
		q.mu.Unlock()
		s.transmitFrames(run)
		q.mu.Lock()
		if !run.left() {
			err = run.err
			break
		}
		if s.sending || s.blocked || s.hold || !d.roomLocked() || d.behindLocked(s) {
			err = q.sendsFramesLocked()
			d.want = err == nil
			break
		}
		err = q.sendsFramesLocked()
	}
	if t.Frames, all = run.done, run.done == len(run.frames); !all {
		if t.Octets = int(d.open.offset); t.Frames == 0 {
			t.Octets -= int(skip)
		}
	}
	*run = frameRun{}
	q.mu.Unlock()
	return t, all, err
}

// sendsFramesLocked tells why frames cannot be sent.
func (q *QP) sendsFramesLocked() error {
	s := q.stream
	switch {
	case (q.state == StateError || q.state == StateSQD) && q.failed.err != nil:
		return q.failed.err
	case q.state == StateError || q.state == StateSQD:
		return ErrClosed
	case s == nil || s.shared == nil || s.shared.params.Sink == nil || s.tx.batch.markers != nil:
		return badField("SharedParams.Sink", "frames on a connection without one")
	}
	return nil
}

// roomLocked tells whether a message may begin, or go on.
func (d *frameSender) roomLocked() bool {
	return d.open.offset > 0 || d.stuck == nil || d.mayBegin(d.stuck, d.stuck.next, d.bytes)
}

// mayBegin tells whether a message of this number may follow so many bytes. What it
// looks at only ever allows more.
func (d *frameSender) mayBegin(l *frameQueue, msn uint32, bytes uint64) bool {
	return int32(l.limit.Load()-msn) >= 0 && (d.heard.Load() || bytes < SinkEarly)
}

// behindLocked tells whether a message has to wait for others, or for work requests.
func (d *frameSender) behindLocked(s *stream) bool {
	return len(d.short) > 0 || d.fenced && s.tx.next != d.fence
}

// wantLocked tells, once, that a SendFrames which took less than all can go on.
func (s *stream) wantLocked() bool {
	x := s.shared
	if x == nil || !x.frames.want || s.hold || !x.frames.roomLocked() || x.frames.behindLocked(s) {
		return false
	}
	x.frames.want = false
	return true
}

// addFrames appends segments of a run to the batch, until that is full, which is when it
// returns false, or the next message has to wait. Nothing may be appended behind them: what of them is not written at once is
// taken out again, see unbegun.
func (s *stream) addFrames(run *frameRun) (done bool) {
	b, d := &s.tx.batch, &s.shared.frames
	room, m, bytes := int(s.tx.most(false)), d.open, d.bytes
	for i := range d.built {
		bytes += uint64(d.built[i].n)
	}
	for i := run.done; i < len(run.frames); {
		if b.fullOfFrames() {
			return false
		}
		f := &run.frames[i]
		if len(f.Ops) > 0 && i > 0 {
			run.frames = run.frames[:i] // its operations come first
			break
		}
		size := f.Size()
		if m.offset == 0 {
			if m.queue = s.frameQueue(run.queueOf(f.Port)); m.queue == nil {
				run.err = badField("queueOf", "%#x is no queue, or is sent work requests", run.queueOf(f.Port))
				break
			}
			if d.stuck = nil; !d.mayBegin(m.queue, m.queue.next+m.queue.built, bytes) {
				d.stuck = m.queue
				break
			}
			if m.op, m.dep = frameOp(run.fenced), 0; run.fenced {
				m.dep = s.shared.dependencyOn(b, d.writes)
			}
		}
		c := frameCut{start: b.size, frames: 1, last: true, open: m}
		if at := int(m.offset); at > 0 || size > room {
			c.n = min(size-at, room)
			if c.last = at+c.n == size; !c.last {
				c.frames = 0
			}
			d.bufs = f.Slices(d.bufs[:0], at, at+c.n)
		} else {
			c.n, c.frames = d.gather(run, i, room, uint32(m.queue.num))
		}
		h := ddp.Untagged{Last: c.last, ULP: m.op.Control(), ULPData: m.dep, QN: m.queue.num.QN(), MSN: m.queue.next + m.queue.built, MO: m.offset}
		b.begin(ddp.UntaggedLen + c.n)
		b.stage.B = h.AppendTo(b.stage.B)
		for _, p := range d.bufs {
			b.borrow(p)
		}
		clear(d.bufs)
		b.end(mark{})
		m.offset += uint32(c.n)
		if bytes += uint64(c.n); c.last {
			m.queue.built++
			m.offset = 0
		}
		i += c.frames
		d.cuts = append(d.cuts, c)
	}
	return true
}

// gather puts the memory of whole messages into bufs, of as many as fit a segment and are for
// one queue, from frame i on, which does. It returns how many octets and frames that is. A
// frame whose operations come first ends the run.
func (d *frameSender) gather(run *frameRun, i, room int, queue uint32) (n, frames int) {
	f := &run.frames[i]
	port := f.Port
	bufs := f.Slices(d.bufs[:0], 0, f.Size())
	var tail []byte // the last of bufs
	if k := len(bufs) - 1; k >= 0 {
		bufs, tail = bufs[:k], bufs[k]
	}
	n = f.Size()
	list := run.frames[i+1:]
	for k := range list {
		f = &list[k]
		if len(f.Ops) > 0 {
			run.frames = run.frames[:i+1+k]
			break
		}
		size := len(f.Head) + len(f.Body)
		if n+size > room || f.Port != port && run.queueOf(f.Port) != queue || len(bufs) > frameSlices {
			break
		}
		frames++
		if n += size; len(f.Body) == 0 && transport.Follows(tail, f.Head) { // the usual case
			tail = tail[:len(tail)+len(f.Head)]
			continue
		}
		bufs = f.Slices(append(bufs, tail), 0, size)
		bufs, tail = bufs[:len(bufs)-1], bufs[len(bufs)-1]
	}
	d.bufs = append(bufs, tail)
	return n, frames + 1
}

// frameSlices bounds the slices of memory that one segment is made of, so that a batch of
// few segments fits a system call.
const frameSlices = 256

// frameOp is the kind of Send for a message whose sender waits for the acknowledgement, or
// does not.
func frameOp(waits bool) rdmap.Op {
	if waits {
		return rdmap.OpSendSolicited
	}
	return rdmap.OpSend
}

// unbegun is where in the batch, of which the first written bytes are written, the segments
// of frames begin that the peer has nothing of.
func (d *frameSender) unbegun(written int) (start int, ok bool) {
	for i := range d.cuts {
		if start = d.cuts[i].start; start >= written {
			return start, true
		}
	}
	return 0, false
}

// builtLocked notes the messages of a batch of which the first written bytes are written:
// all of the short ones are on their way, and segments of frames that have begun. It tells
// whether any has.
func (d *frameSender) builtLocked(s *stream, written int) (begun bool) {
	d.builtShortLocked()
	for i := range d.cuts {
		c := &d.cuts[i]
		if c.open.queue.built = 0; c.start < written {
			d.begunLocked(c)
			d.fenced = false
			d.sent += uint64(c.n)
			d.run.done += c.frames
			begun = true
		}
	}
	clear(d.cuts)
	if d.cuts = d.cuts[:0]; d.writing {
		d.writtenLocked(s)
	}
	return begun
}

// begunLocked notes that a segment is on its way.
func (d *frameSender) begunLocked(c *frameCut) {
	d.bytes += uint64(c.n)
	d.open = c.open
	if d.open.offset += uint32(c.n); !c.last {
		return
	}
	if d.first > 0 && len(d.ends) == cap(d.ends) {
		rest := d.ends[:copy(d.ends, d.ends[d.first:])]
		d.ends, d.first = rest, 0
	}
	d.ends = append(d.ends, frameEnd{c.open.queue, c.open.queue.next, d.bytes})
	c.open.queue.next++
	d.open = openFrame{}
}
