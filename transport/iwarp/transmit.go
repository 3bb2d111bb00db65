package iwarp

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/mpa"
)

// growAfter is when the segment of TCP has the size that the path allows: at
// first it is bounded by half of the peer's first window, which matters where the
// path has large ones, as within a host.
const growAfter = 64 << 10

// roundsInRow bounds what one caller of PostSend writes for all others before
// the event loop goes on.
const roundsInRow = 16

// errLocalMemory: a region that is being sent from was invalidated in the middle
// of a segment, which cannot be completed any more.
var errLocalMemory = errors.New("iwarp: region invalidated while it was being sent")

var errNoORD = errors.New("iwarp: read on a connection without reads (ORD 0)")

// transmitter is the sending half of a stream. There is one goroutine in it at
// a time, the one that set stream.sending; everybody else only adds work. The
// fields are that goroutine's, but for the atomics.
type transmitter struct {
	reader *mr.Reader // for local memory, and for regions that the peer reads
	inside int        // calls of enter without leave
	ulpdu  int        // longest segment
	grows  int        // bytes after which the path's segment size is looked at again, 0: never
	batch  batch
	doomed *failure // the segment that comes next cannot be sent
	done   bool     // nothing was left to be put into the batch when it was built
	short  bool     // the socket has taken less of the batch than it was given

	next     uint32 // the work request to start next
	sends    uint32 // MSN of the last message of each queue
	requests uint32
	atomics  uint32
	serving  uint64 // responses begun and built whole

	// The message in the middle of which a batch may end.
	open   bool
	from   origin // where that message comes from
	offset uint32 // offset of the message's next segment
	turn   origin // where the message that is due next comes from, if there is one
	passed uint32 // work requests that have gone to queues of their own

	orq     []uint32      // a ring: the work requests that await an answer, ORD of them
	asked   atomic.Uint64 // reads and atomics sent, ever
	replied atomic.Uint64 // serving, for the receiver: places of the irq that are free again
}

// origin is where messages come from.
type origin uint8

const (
	fromWork     origin = iota // the work request next-1 of the send queue
	fromResponse               // the peer's request numbered serving
	fromShared                 // a queue of messages to one of the peer's shared queues
	origins

	fromShort = origins // a short message that follows work requests, sent whole and in its place
)

// most is the longest payload of a segment.
func (t *transmitter) most(tagged bool) uint32 {
	if tagged {
		return uint32(t.ulpdu - ddp.TaggedLen)
	}
	return uint32(t.ulpdu - ddp.UntaggedLen)
}

// most is the longest payload of a segment of the request.
func (w *sendSlot) most(t *transmitter, tagged bool) uint32 {
	if n := t.most(tagged); w.segment == 0 || w.segment > n {
		return n
	}
	return w.segment
}

// kickLocked asks for work to be sent. If it returns true the caller has become
// the transmitter and calls transmit when it has unlocked.
func (s *stream) kickLocked() bool {
	switch {
	case s.sending:
		s.again = true
		return false
	case s.blocked:
		return false
	}
	s.sending = true
	return true
}

// transmit writes until nothing is left, the socket is full, or others have to
// have a turn. The caller has set sending.
func (s *stream) transmit() { s.transmitFrames(nil) }

// transmitFrames is transmit, and sends frames beside what else there is.
func (s *stream) transmitFrames(run *frameRun) {
	q, b := s.q, &s.tx.batch
	for round := 0; ; round++ {
		q.mu.Lock()
		s.again = false
		if q.state == StateError && !s.txEnded {
			s.endSendingLocked()
		}
		if s.txEnded {
			s.flushRestLocked() // flushRestLocked unlocks q.mu
			return
		}
		w := s.windowLocked(run)
		q.mu.Unlock()

		n, f, err := s.advance(w)
		if f != nil {
			q.fail(*f)
			continue
		}
		if n > 0 && !s.spoke.Load() {
			s.firstWrite()
		}
		q.mu.Lock()
		idle := b.size == 0 && !s.tx.short // nothing was built
		if s.wroteLocked(n) {
			round = 0 // frames of the caller's are on their way
		}
		switch {
		case q.state == StateError:
			// Whoever has failed it relies on this goroutine to end the sending.
		case err != nil:
			if errors.Is(err, errLocalMemory) {
				f := failure{err: err, status: Flushed, abort: true}
				if p := s.tx.batch.next(); p.use == nil {
					// All before it is written whole.
					f.status, f.vendor, f.slot, f.culprit = LocalProtection, uint32(mr.Revoked), q.sent, true
				}
				q.mu.Unlock()
				q.fail(f)
				continue
			}
			// The connection is ending, and Closed follows.
			s.blocked, s.sending = true, false
			q.mu.Unlock()
			return
		case s.tx.short && !s.writable:
			s.blocked, s.sending = true, false
			q.mu.Unlock()
			return
		case !s.again && (idle || s.idleLocked()):
			s.restLocked()
			return
		case round >= roundsInRow:
			s.sending, s.resume, s.writable = false, true, false
			q.mu.Unlock()
			s.conn.Wake()
			return
		}
		s.writable = s.writable && idle
		q.mu.Unlock()
	}
}

// windowLocked is what there is to be sent.
func (s *stream) windowLocked(run *frameRun) window {
	w := window{tail: s.q.tail, hold: s.hold}
	if !s.tx.batch.empty() {
		s.tx.done = false // more may have come since it was built
		return w
	}
	if x := s.shared; x != nil && !s.hold {
		if len(x.out) > 0 {
			w.now = time.Now()
		}
		if w.short = x.frames.short; x.frames.fenced && s.q.state != StateSQD {
			w.tail = x.frames.fence // the message goes before what was posted behind
		}
		if run.left() {
			w.run, run.fenced = run, x.frames.fenced
		}
		x.frames.writing = len(w.short) > 0 || w.run != nil // CREDITs may come before builtLocked
	}
	// What may wait for company does so, for as long as the timer runs, if nothing else is to be sent.
	alone := false
	if x := s.shared; x != nil {
		nothing := w.run == nil && s.nothingLocked(&w)
		alone = nothing && x.says && x.backlog.MayWait() && s.q.state == StateRTS // at the end all is said at once
		x.rides = x.rides || !nothing && (x.says || w.now.Sub(x.alone) < sayDelay)
	}
	w.frames = s.framesLocked(w.now, alone)
	// There may be more to say than fits a batch. What there is to say from now on waits
	// for company, unless somebody kicks.
	s.again = s.shared != nil && !s.hold && !s.shared.backlog.Empty() && !alone
	return w
}

// nothingLocked tells whether no message and no response is to be sent, as far as is known before a batch is built.
func (s *stream) nothingLocked(w *window) bool {
	return s.tx.next == w.tail && !s.tx.open && len(w.short) == 0 && s.shared.turns.n == 0 && s.tx.serving == s.rx.asked.Load()
}

// idleLocked tells whether nothing is left to be sent behind the batch that is written.
func (s *stream) idleLocked() bool {
	return s.tx.batch.empty() && s.tx.done && s.tx.doomed == nil && s.tx.next == s.q.tail
}

// restLocked ends the sending until there is more to send. It unlocks.
func (s *stream) restLocked() {
	q := s.q
	s.sending = false
	s.tx.batch.release()
	finished := q.state == StateSQD && s.drained && s.tx.next == q.tail && !s.hold && !s.undecided()
	writable := s.wantLocked()
	q.mu.Unlock()
	if finished {
		s.conn.Close(transport.Drain)
	}
	if writable {
		s.shared.params.Sink.Writable()
	}
}

// framesLocked takes the ULPDUs that go before all messages, and makes those with what
// there is to say, unless that waits for company.
func (s *stream) framesLocked(now time.Time, waits bool) [][]byte {
	frames := s.frames
	s.frames = nil
	if s.shared == nil || s.hold {
		return frames
	}
	step := s.shared.stepLocked(s, now, waits)
	if frames == nil {
		return step
	}
	return append(frames, step...)
}

// advance builds a batch if there is none, and hands the socket what is left of it.
// f tells why nothing more can be sent.
func (s *stream) advance(w window) (n int, f *failure, err error) {
	b := &s.tx.batch
	s.tx.short = false
	if s.firm() {
		s.tx.enter()
		defer s.tx.leave()
	}
	if b.empty() {
		if f, ok := s.build(w); !ok {
			failed := f // a copy, so that the usual case allocates nothing
			return 0, &failed, nil
		}
	}
	if !b.empty() {
		n, err = s.write()
	}
	return n, nil, err
}

// firm tells whether a batch is built and written in one section, so that memory that
// was found when a message was begun is there when it is written: a region that goes
// in between costs its message and nobody else's. Without soft errors the program may
// be called from in there, and with a CRC all is copied.
func (s *stream) firm() bool { return s.softReads() && !s.tx.batch.crc }

// enter begins a section, unless it has begun; leave ends the outermost.
func (t *transmitter) enter() {
	if t.inside++; t.inside == 1 {
		t.reader.Enter()
	}
}

func (t *transmitter) leave() {
	if t.inside--; t.inside == 0 {
		t.reader.Leave()
	}
}

// write hands the socket what is left of the batch.
func (s *stream) write() (int, error) {
	b := &s.tx.batch
	if t := &s.tx; t.grows > 0 && s.conn.Written() > uint64(t.grows) {
		t.grows = 0
		t.ulpdu = max(t.ulpdu, mpa.MULPDU(s.conn.MSS(), b.markers != nil))
	}
	if b.lends {
		// Registered memory stays valid within the section, and the socket has
		// copied it when the call returns, without waiting for anything.
		s.tx.enter()
		defer s.tx.leave()
	}
	iov, size := b.slices(s.look)
	if size == 0 {
		return 0, errLocalMemory
	}
	n, err := s.conn.Writev(iov)
	clear(iov)
	if err == nil && n == size && n < b.size-b.written {
		err = errLocalMemory
	}
	if n == size {
		return n, err
	}
	s.tx.short = true
	if s.shared != nil {
		if end, ok := s.shared.frames.unbegun(b.written + n); ok {
			b.trim(end)
		}
	}
	if b.borrows {
		b.unlend(n) // from here on, a peer's wrong invalidation of the region harms nobody else
	}
	return n, err
}

// look finds the memory of a piece, in a section.
func (s *stream) look(p *piece) ([]byte, bool) {
	req := s.lookup(p)
	mem, fault := s.tx.reader.Check(&req)
	return mem, fault == mr.None
}

// wroteLocked completes what ended in the n bytes that the socket took. It tells whether
// frames are on their way with them.
func (s *stream) wroteLocked(n int) (frames bool) {
	if s.shared != nil {
		frames = s.shared.frames.builtLocked(s, n)
	}
	requests := s.tx.batch.wrote(n)
	if s.shared != nil {
		s.shared.watch.wroteLocked(s.conn.Written() + uint64(s.tx.batch.size-s.tx.batch.written))
	}
	if s.tx.batch.empty() {
		requests += s.tx.passed // no work request before those is left
		s.tx.passed = 0
	}
	if requests > 0 && !s.q.over {
		s.q.sent += requests
		s.q.completeLocked()
	}
	if s.shared != nil && !s.q.over {
		s.shared.settleWithdrawnLocked(s.q)
	}
	return frames
}

// Writable goes on after the socket was full.
func (s *stream) Writable() {
	q := s.attached()
	if q == nil {
		return
	}
	q.mu.Lock()
	if s.sending {
		s.writable = true // the writer at work has not noticed yet that the socket is full
		q.mu.Unlock()
		return
	}
	s.blocked, s.sending = false, true
	q.mu.Unlock()
	s.transmit()
}

// endSendingLocked stops sending for good: nothing of the send queue is touched
// any more. What is left to write is the rest of the segment that has begun, and
// a Terminate. The caller is the transmitter, or there is none.
func (s *stream) endSendingLocked() {
	q, b := s.q, &s.tx.batch
	s.txEnded = true
	s.tx.reader.Enter()
	rest, ok := b.cut(s.look)
	s.tx.reader.Leave()
	switch f := &q.failed; {
	case !ok || f.abort:
		s.last, s.reset = nil, true
	case f.quiet:
		s.last, s.reset = nil, len(rest) > 0
	default:
		s.last = rest
		if f.terminate != nil {
			b.add(f.terminate)
			s.last = append(s.last, b.stage.B...)
			b.reset()
		}
	}
	b.release()
	if s.rxEnded {
		q.flushLocked()
	}
}

// flushRestLocked writes what endSendingLocked has left and then ends the
// connection. It unlocks.
func (s *stream) flushRestLocked() {
	q := s.q
	for len(s.last) > 0 && !s.reset {
		last := s.last
		q.mu.Unlock()
		n, err := s.conn.Writev([][]byte{last})
		q.mu.Lock()
		s.last = last[n:]
		switch {
		case err != nil:
			s.last = nil
		case len(s.last) > 0 && !s.writable:
			s.blocked, s.sending = true, false
			q.mu.Unlock()
			return
		}
		s.writable = false
	}
	mode := transport.Drain
	if s.reset {
		mode = transport.Abort
	}
	s.blocked, s.sending = true, false
	q.mu.Unlock()
	s.conn.Close(mode)
}

// init readies the sending half. Nothing leaves before release.
func (t *transmitter) init(s *stream, set *mpa.Settled, p *ConnParams) {
	t.reader = s.dev.regions.NewReader("iwarp send", s.stuck)
	t.ulpdu = p.MaxULPDU
	if t.ulpdu == 0 {
		t.ulpdu = s.dev.cfg.MaxULPDU
	}
	if t.ulpdu == 0 {
		t.ulpdu = mpa.MULPDU(s.conn.MSS(), set.SendMarkers)
		t.grows = growAfter
	}
	t.orq = make([]uint32, set.ORD)
	t.batch.pool, t.batch.crc = &s.dev.pool, set.CRC
	if set.SendMarkers {
		t.batch.markers = new(mpa.MarkerWriter)
	}
}
