package iwarp

import (
	"errors"
	"io"
	"net/netip"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/gnetloop"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp/mpa"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// Phases of a stream. Until phaseOpen it has no queue pair to speak of.
//
//	reply (initiator) ---------------------+--> open
//	request (responder) --> deciding ------+      (ends with its queue pair)
//	   any of them -----------> ended
const (
	phaseReply    uint32 = iota // our Request was sent, and the Reply is due
	phaseRequest                // the peer's Request is due
	phaseDeciding               // the program decides on the peer's Request
	phaseOpen                   // FPDUs may be sent and received
	phaseEnded                  // set-up has failed
)

// stream is one connection: the set-up frames, then two halves that work by
// themselves, rx on the connection's event loop and tx wherever work comes from.
type stream struct {
	dev  *Device
	conn gnetloop.Stream
	peer netip.Addr

	phase atomic.Uint32
	q     *QP // constant from before phaseOpen
	rx    receiver
	tx    transmitter
	// shared is not nil if both sides have agreed on shared receive queues;
	// constant from before phaseOpen.
	shared *shared

	mu     lockorder.Mutex[stream]
	ini    *mpa.Initiator   // guarded by mu; nil on the responder's side
	res    *mpa.Responder   // guarded by mu
	params ConnParams       // the initiator's
	ln     *Listener        // the responder's
	upper  []byte           // the program's part of the Request's private data
	asked  []byte           // all private data of the Request
	timer  *time.Timer      // guarded by mu; bounds the present step of the set-up
	kick   *time.Timer      // guarded by mu; runs until the peer is heard
	up     chan established // cap 1: how set-up ended

	first []byte      // the RTR, constant from before phaseOpen
	ready atomic.Bool // our set-up frame has left: the peer may send FPDUs
	heard atomic.Bool // an FPDU has come
	burst atomic.Bool // the event loop is between Feed, or Wake, and the end of Flush
	news  atomic.Bool // QPConfig.Completed is due
	spoke atomic.Bool // an FPDU has left

	// What follows is guarded by q.mu.
	sending  bool     // somebody is in tx
	again    bool     // whoever is in tx has to look once more
	blocked  bool     // the socket is full, Writable goes on
	writable bool     // Writable came while somebody was in tx
	resume   bool     // Wake goes on
	hold     bool     // no message may leave yet
	drained  bool     // in StateSQD: what came before is acknowledged
	frames   [][]byte // ULPDUs that go before all messages
	txEnded  bool     // the send queue is not touched any more
	rxEnded  bool     // neither the receive queue nor any region is touched any more
	last     []byte   // bytes that are still to be written
	reset    bool     // the connection is to be reset once last is written
	kicks    int
}

// established is how the set-up ended.
type established struct {
	set *mpa.Settled
	err error
}

func (d *Device) newStream(conn gnetloop.Stream) *stream {
	s := &stream{dev: d, conn: conn, peer: conn.RemoteAddr().Addr(), up: make(chan established, 1)}
	return s
}

// attached is the queue pair once the stream is open, else nil.
func (s *stream) attached() *QP {
	if s.phase.Load() != phaseOpen {
		return nil
	}
	return s.q
}

// openLocked gives the stream to its queue pair. The caller holds s.mu. The
// receiver is ready when it returns; sending waits for release.
func (s *stream) openLocked(set *mpa.Settled, to State, p *ConnParams) error {
	q := s.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.moveLocked(to); err != nil {
		return err
	}
	s.hold = true
	s.rx.init(s, set)
	s.tx.init(s, set, p)
	if s.shared != nil {
		s.rx.ops |= 1 << rdmap.OpPrivate
		if n := s.shared.agreed.MaxULPDU(); n > 0 && p.MaxULPDU == 0 && s.dev.cfg.MaxULPDU == 0 {
			s.tx.ulpdu = min(n, mpa.MaxULPDU)
		}
	}
	if s.ini != nil {
		s.ready.Store(true)
		if set.PeerToPeer {
			s.first = s.tx.rtr(set.RTR)
			if set.RTR&mpa.RTRWrite != 0 && s.softWrites() {
				s.shared.countWrite(rtrSlot)
			}
		}
	}
	q.stream = s
	if s.shared != nil {
		s.watchLocked()
	}
	s.stopTimerLocked()
	s.phase.Store(phaseOpen)
	return nil
}

func (s *stream) stopTimerLocked() {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if s.kick != nil {
		s.kick.Stop()
	}
}

// startTimerLocked bounds what comes next.
func (s *stream) startTimerLocked(d time.Duration, f func()) {
	s.stopTimerLocked()
	s.timer = time.AfterFunc(d, f)
}

// settle reports how the set-up ended, the first time.
func (s *stream) settle(e established) {
	select {
	case s.up <- e:
	default:
	}
}

// release lets messages leave: the guard delay of an initiator is over, or a
// responder has heard the first FPDU.
func (s *stream) release() {
	q := s.q
	q.mu.Lock()
	if !s.hold {
		q.mu.Unlock()
		return
	}
	s.hold = false
	if s.first != nil {
		s.frames = append(s.frames, s.first)
	}
	if q.state == StateRTR {
		_ = q.moveLocked(StateRTS)
	}
	run := q.state != StateError && s.kickLocked()
	q.mu.Unlock()
	if run {
		s.transmit()
	}
}

// firstWrite watches for a peer that does not look at our first FPDU: Linux's
// siw as a responder may miss one that comes before it is ready, and finds it
// when more comes. An empty Write is more, and means nothing.
func (s *stream) firstWrite() {
	s.spoke.Store(true)
	if s.ln != nil || s.shared != nil {
		return // a peer with shared queues is not siw, and counts Writes
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.heard.Load() {
		s.kick = time.AfterFunc(mpa.KickDelay, s.kickPeer)
	}
}

func (s *stream) kickPeer() {
	q := s.q
	q.mu.Lock()
	s.kicks++
	n := s.kicks
	if s.heard.Load() || n > mpa.MaxKicks || q.state != StateRTS {
		q.mu.Unlock()
		return
	}
	s.frames = append(s.frames, emptyWrite())
	run := s.kickLocked()
	q.mu.Unlock()
	s.dev.stats.kicks.Add(1)
	if run {
		s.transmit()
	}
	s.mu.Lock()
	s.kick.Reset(mpa.KickDelay)
	s.mu.Unlock()
}

// Feed is given what the peer sends.
func (s *stream) Feed(b []byte) error {
	if s.phase.Load() != phaseOpen {
		return s.negotiate(b)
	}
	if !s.ready.Load() {
		// Accept is writing the Reply, or has just written it and the peer is
		// quick. Nothing may be written beside it.
		s.mu.Lock()
		s.ready.Store(true)
		s.mu.Unlock()
	}
	s.burst.Store(true)
	s.rx.feed(b)
	return nil
}

// Space is where the next bytes belong.
func (s *stream) Space() ([]byte, int) {
	if s.phase.Load() != phaseOpen {
		return nil, 0
	}
	return s.rx.space()
}

// Filled follows Space.
func (s *stream) Filled(n int) {
	s.rx.filled(n)
}

// Wake comes when the queue pair wants something of the event loop.
func (s *stream) Wake() error {
	q := s.attached()
	if q == nil {
		return nil
	}
	s.burst.Store(true)
	q.mu.Lock()
	ended := q.state == StateError && !s.rxEnded
	run := s.resume && s.kickLocked()
	s.resume = false
	q.mu.Unlock()
	if s.shared != nil {
		s.rx.kick = true // for Flush: a time has come, or a queue has memory again
	}
	if ended {
		s.endReceiving()
	}
	if run {
		s.transmit()
	}
	return nil
}

// Flush ends a burst of input.
func (s *stream) Flush() {
	q := s.attached()
	if q == nil {
		return
	}
	s.rx.flush()
	told := s.tellCompleted(q)
	if s.burst.Store(false); told && s.news.Load() { // some are left, or have come since and relied on this burst
		s.conn.Wake()
	}
}

// tellCompleted tells of what has completed, behind the acknowledgements of frames that came with it: of a
// message and an operation behind it the program hears in this order. It is false if some of those wait for the
// transmitter, which wakes the event loop.
func (s *stream) tellCompleted(q *QP) bool {
	if !s.news.Load() {
		return true
	}
	if x := s.shared; x != nil && x.params.Sink != nil {
		q.mu.Lock()
		ahead := len(x.frames.ahead) > 0
		q.mu.Unlock()
		if ahead {
			return false
		}
		if x.frames.late.Swap(false) {
			x.params.Sink.Acked()
		}
	}
	if s.news.Swap(false) && q.cfg.Completed() {
		s.news.Store(true)
	}
	return true
}

// Begun is for gnetloop.Beginner: what the peer has begun of messages to the sink.
// A peer on such a connection has to answer PINGs whoever it is.
func (s *stream) Begun() (number uint64, left int, known bool) {
	if s.phase.Load() != phaseOpen || s.shared == nil || s.shared.params.Sink == nil {
		return 0, 0, false
	}
	number, left = s.shared.params.Sink.Begun()
	return number, left, false
}

// endReceiving stops receiving for good. It is called on the event loop, or when
// that has nothing to do with the stream any more.
func (s *stream) endReceiving() {
	s.rx.end()
	q := s.q
	q.mu.Lock()
	q.completeLocked()
	if !s.rxEnded {
		s.rxEnded = true
		if s.txEnded {
			q.flushLocked()
		}
	}
	q.mu.Unlock()
}

// endSending stops sending for good if the transmitter has left it to an event
// that will not come any more.
func (s *stream) endSending() {
	q := s.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if !s.sending && !s.txEnded {
		s.endSendingLocked()
	}
}

// Closed is the end of the connection.
func (s *stream) Closed(cause error) {
	s.mu.Lock()
	s.stopTimerLocked()
	open := s.phase.Load() == phaseOpen
	if !open {
		s.phase.Store(phaseEnded)
	}
	s.mu.Unlock()
	if !open {
		s.settle(established{err: setupError(cause)})
		return
	}
	q := s.q
	q.mu.Lock()
	if q.state == StateSQD || errors.Is(cause, transport.ErrClosed) {
		cause = ErrClosed
	} else if errors.Is(cause, io.EOF) {
		cause = ErrPeerClosed
	}
	q.mu.Unlock()
	q.fail(failure{err: cause, status: Flushed, quiet: true, abort: true})
	s.endSending()
	s.endReceiving()
	s.settle(established{err: q.Err()}) // the first reason, which may be another
	s.mu.Lock()
	s.stopTimerLocked()
	s.mu.Unlock()
}

// fail moves the queue pair to error, the first time. It must be called without
// locks.
func (q *QP) fail(f failure) {
	q.mu.Lock()
	if q.state == StateError {
		q.mu.Unlock()
		return
	}
	if q.state == StateInit {
		_ = q.moveLocked(StateError)
		q.failed = f
		q.flushLocked()
		q.mu.Unlock()
		return
	}
	_ = q.moveLocked(StateError)
	q.failed = f
	s := q.stream
	run, shut := false, false
	switch {
	case s.sending: // whoever is sending ends the sending
	case s.blocked:
		s.endSendingLocked()
		shut = s.reset || len(s.last) == 0
	default:
		s.sending, run = true, true
	}
	q.mu.Unlock()
	if f.terminate != nil {
		q.dev.stats.terminatesSent.Add(1)
	}
	if ce := q.dev.cfg.Logger.Check(zap.DebugLevel, "queue pair ended"); ce != nil {
		ce.Write(zap.Uint32("qp", q.num), zap.Stringer("peer", s.conn.RemoteAddr()), zap.Error(f.err))
	}
	// The peer may never take the rest, or never end its side.
	s.mu.Lock()
	s.startTimerLocked(q.dev.cfg.CloseTimeout, func() { s.conn.Close(transport.Abort) })
	s.mu.Unlock()
	s.conn.Wake()
	switch {
	case run:
		s.transmit()
	case shut && s.reset:
		s.conn.Close(transport.Abort)
	case shut:
		s.conn.Close(transport.Drain)
	}
}

// errStuck: a section of one half lasts so long that a bug has to be behind it.
var errStuck = errors.New("iwarp: stuck in memory that is being invalidated")

// stuck is for readers: the connection ends, and the peer hears, whatever the half that is stuck does.
func (s *stream) stuck() {
	s.q.fail(failure{err: errStuck, status: Flushed, abort: true})
	s.conn.Close(transport.Abort)
}

// flushLocked completes whatever is left: neither half touches anything now.
func (q *QP) flushLocked() {
	if q.over {
		return
	}
	q.over = true
	q.flushSendLocked()
	var first []Completion
	if s := q.stream; s != nil {
		first = s.rx.flushed(q.failed)
		s.rx.endUses()
		s.rx.reader.Close()
		s.tx.reader.Close()
	}
	q.flushReceiveQueue(first)
	close(q.done)
	if s := q.stream; s != nil && s.shared != nil && s.shared.params.Sink != nil {
		sink, err := s.shared.params.Sink, q.failed.err
		q.dev.wg.Go(func() { sink.Closed(err) })
	}
}
