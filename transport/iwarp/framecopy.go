package iwarp

import (
	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// A short message that follows work requests is copied and
// waits for its place among them, so that all of it leaves by one system call.

// shortMessage is one of them.
type shortMessage struct {
	queue  *frameQueue
	data   []byte
	after  uint32 // the work request that it goes before
	writes uint32 // number of Writes right before after that the message builds on
	answer bool   // the message is to be acknowledged at once
}

// shortMost is how long they are: with their segments they fit any batch.
const shortMost = 2 << 10

// shortWaiting bounds how many wait, and shortSpare how much memory of such is kept for
// others, of shortLeast octets or more each.
const (
	shortWaiting = 256
	shortSpare   = 64
	shortLeast   = 128
)

// Cork has work requests, and short messages of SendFrames that follow them, wait for
// Uncork, which is to follow soon: they leave together. Both are for who calls
// SendFrames.
func (q *QP) Cork() {
	q.mu.Lock()
	q.corked = true
	q.mu.Unlock()
}

// Uncork sends what waits.
func (q *QP) Uncork() {
	q.mu.Lock()
	q.corked = false
	s := q.stream
	run := s != nil && !q.over && s.kickLocked()
	q.mu.Unlock()
	if run {
		s.transmit()
	}
}

// takeShortLocked copies the frames of a run, if they are one short message that has to wait
// for work requests or for others that do. It tells whether to send now.
func (d *frameSender) takeShortLocked(q *QP, run *frameRun) (kick, ok bool) {
	if !d.fenced && len(d.short) == 0 || d.open.offset > 0 || len(d.short) >= shortWaiting || q.stream.hold {
		return false, false
	}
	total, n := 0, run.queueOf(run.frames[0].Port)
	frames := run.frames
	for i := range frames {
		f := &frames[i]
		if i > 0 && len(f.Ops) > 0 {
			frames = frames[:i]
			break
		}
		if total += f.Size(); total > shortMost || i > 0 && run.queueOf(f.Port) != n {
			return false, false
		}
	}
	l := q.stream.shared.useQueueLocked(xctl.SRQN(n))
	if l == nil || !d.mayBegin(l, l.next+l.waiting, d.bytes+uint64(len(d.short))*shortMost) {
		return false, false
	}
	m := shortMessage{queue: l, data: d.shortData(total), after: q.tail}
	if d.fenced {
		m.after, m.writes, m.answer, d.fenced = d.fence, d.writes, true, false
	}
	run.frames = frames
	for i := range frames {
		m.data = append(append(m.data, frames[i].Head...), frames[i].Body...)
	}
	d.sent += uint64(total)
	d.short = append(d.short, m)
	l.waiting++
	return !q.corked, true
}

// shortData is memory for a short message.
func (d *frameSender) shortData(n int) []byte {
	if k := len(d.spare) - 1; k >= 0 {
		b := d.spare[k]
		if d.spare = d.spare[:k]; cap(b) >= n {
			return b
		}
	}
	return make([]byte, 0, max(n, shortLeast))
}

// shortSegment appends the short message that is next.
func (s *stream) shortSegment(w *window) {
	d, b := &s.shared.frames, &s.tx.batch
	m := &w.short[0]
	w.short = w.short[1:]
	dep := s.shared.dependencyOn(b, m.writes)
	l := m.queue
	h := ddp.Untagged{Last: true, ULP: frameOp(m.answer).Control(), QN: l.num.QN(), MSN: l.next + l.built, ULPData: dep}
	l.built++
	d.built = append(d.built, frameCut{n: len(m.data), last: true, open: openFrame{queue: l}})
	b.begin(ddp.UntaggedLen + len(m.data))
	b.stage.B = append(h.AppendTo(b.stage.B), m.data...)
	b.end(mark{})
	s.tx.open = false
}

// builtShortLocked notes the short messages of a batch that is on its way.
func (d *frameSender) builtShortLocked() {
	if len(d.built) == 0 {
		return
	}
	for i := range d.built {
		l := d.built[i].open.queue
		l.built = 0
		l.waiting--
		d.begunLocked(&d.built[i])
		if len(d.spare) < shortSpare {
			d.spare = append(d.spare, d.short[i].data[:0])
		}
	}
	rest := d.short[copy(d.short, d.short[len(d.built):]):]
	clear(rest)
	d.short = d.short[:len(d.short)-len(rest)]
	d.built = d.built[:0]
}
