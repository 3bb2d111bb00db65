package iwarp

import (
	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// A short message to the direct queue that follows work requests is copied and
// waits for its place among them, so that all of it leaves by one system call.

// shortMessage is one of them.
type shortMessage struct {
	lane   *lane
	data   []byte
	after  uint32 // the work request that it goes before
	builds uint32 // number of Writes right before after that the message builds on
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

// Cork has work requests, and short messages of SendDirect that follow them, wait for
// Uncork, which is to follow soon: they leave together. Both are for who calls
// SendDirect.
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

// takesShortLocked tells whether messages of so many bytes may be copied.
func (d *direct) takesShortLocked(q *QP, total int, after bool) bool {
	return (after || len(d.short) > 0) && total <= shortMost && d.offset == 0 && len(d.short) < shortWaiting &&
		!q.stream.hold
}

// addShortLocked copies one. It tells whether to send now.
func (d *direct) addShortLocked(q *QP, l *lane, bufs [][]byte, total int, after bool, builds uint32) bool {
	m := shortMessage{lane: l, data: d.shortData(total), after: q.tail, builds: builds, answer: after}
	for _, b := range bufs {
		m.data = append(m.data, b...)
	}
	d.short = append(d.short, m)
	l.waiting++
	return !q.corked
}

// shortData is memory for a short message.
func (d *direct) shortData(n int) []byte {
	if k := len(d.spare) - 1; k >= 0 {
		b := d.spare[k]
		if d.spare = d.spare[:k]; cap(b) >= n {
			return b
		}
	}
	return make([]byte, 0, max(n, shortLeast))
}

// shortLocked shows the transmitter what waits.
func (d *direct) shortLocked() []shortMessage {
	if len(d.short) > 0 {
		d.writing = true // CREDITs may come before builtLocked
	}
	return d.short
}

// behindLocked tells whether a message has to wait for others, or for work requests.
func (d *direct) behindLocked(s *stream) bool {
	return len(d.short) > 0 || d.after && s.tx.next != s.q.tail
}

// shortSegment appends the short message that is next.
func (s *stream) shortSegment(w *window) {
	d, b := &s.shared.direct, &s.tx.batch
	m := &w.short[0]
	w.short = w.short[1:]
	dep := s.shared.directDependency(b, m.builds)
	l := m.lane
	h := ddp.Untagged{Last: true, ULP: directOp(m.answer).Control(), QN: l.num.QN(), MSN: l.next + l.built, ULPData: dep}
	l.built++
	d.built = append(d.built, directCut{n: len(m.data), last: true, lane: l})
	b.begin(ddp.UntaggedLen + len(m.data))
	b.stage.B = append(h.AppendTo(b.stage.B), m.data...)
	b.end(mark{})
	s.tx.open = false
}

// builtLocked notes the short messages of a batch that is on its way.
func (d *direct) builtLocked(s *stream) {
	if len(d.built) > 0 {
		for i := range d.built {
			l := d.built[i].lane
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
	if d.writing {
		d.writtenLocked(s)
	}
}

// directOp is the kind of Send for a message whose sender waits for the
// acknowledgement, or does not.
func directOp(waits bool) rdmap.Op {
	if waits {
		return rdmap.OpSendSolicited
	}
	return rdmap.OpSend
}
