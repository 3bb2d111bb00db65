package iwarp

import (
	"fmt"
	"math"
	"time"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// maxMessage is the longest message (RFC 5041 section 5: MO has 32 bits).
const maxMessage = math.MaxUint32

// sendSlot is a posted WorkRequest. PostSend fills it; from then on until it
// completes it is the transmitter's, which fills in index. Of a read or an
// atomic the receiver looks at what the transmitter has published by transmitter.asked.
type sendSlot struct {
	id         uint64
	op         Op
	flags      Flags
	queue      xctl.SRQN
	deps       uint32 // number of Writes that a message builds on; later the ordinal of the first of them
	qp         uint32 // WorkRequest.QP
	inline     int16  // bytes in the slot's part of QP.inline, 0: SGE
	sge        [MaxSGE]SGE
	local      [][]byte // memory instead of sge, if there is any
	length     uint32
	remoteKey  mr.Key
	invalidate mr.Key
	remoteAddr uint64
	args       [4]uint64 // Immediate; or Add, AddMask; or Compare, CompareMask, Swap, SwapMask

	offers  uint8 // WorkRequest.Offers, and the others
	again   time.Duration
	segment uint32

	index  uint64 // reads and atomics: how many were sent before; Writes: how many Writes
	status Status // status of a request that the peer has refused by itself
	vendor uint32
}

// answered tells whether the operation completes with the peer's response.
func (s *sendSlot) answered() bool {
	return s.op == OpRead || s.op == OpFetchAdd || s.op == OpCompareSwap
}

// PostSend posts requests in order and returns how many it took; the error is
// about the first that it did not take. A list goes out in one batch, so posting
// many at once costs less. In StateError requests complete as flushed.
func (q *QP) PostSend(reqs ...WorkRequest) (n int, err error) {
	q.mu.Lock()
	n, run, err := q.postAllLocked(reqs)
	s := q.stream
	q.mu.Unlock()
	if run {
		s.transmit()
	}
	return n, err
}

// PostLeaving is PostSend that leaves so many places of the send queue to others, and takes no
// Write without the message that builds on it. Messages
// to shared queues keep their places when they have completed, as long as a read or a write
// is before them that has not.
func (q *QP) PostLeaving(places int, reqs ...WorkRequest) (n int, err error) {
	q.mu.Lock()
	room := min(max(q.placesLocked()-places, 0), len(reqs))
	for i := room; i < len(reqs); i++ {
		if w := int(reqs[i].Writes); w > 0 { // the first message behind the cut that builds on Writes
			room = min(room, max(i-w, 0))
			break
		}
	}
	n, run, err := q.postAllLocked(reqs[:room])
	if err == nil && n < len(reqs) {
		err, q.wants = ErrQueueFull, true
		q.letGoLocked() // what is held back holds the places
		run = run || !q.over && !q.corked && q.stream.kickLocked()
	}
	s := q.stream
	q.mu.Unlock()
	if run {
		s.transmit()
	}
	return n, err
}

// PostAll is PostSend that posts all work requests, or none if there is no room for all.
func (q *QP) PostAll(reqs ...WorkRequest) error { return q.postWhole(reqs, false) }

// placesLocked is how many work requests there is room for.
func (q *QP) placesLocked() int {
	n := int(q.tail - q.head)
	return min(q.cfg.MaxSend, q.cfg.MaxUnderWay-q.stream.detached()) - n
}

// PostFirst is PostSend for work requests that the message of a frame follows: the first
// frame of the next SendFrames. Nothing that others post goes between them and the message,
// which the peer refuses if a Write among them failed. All are posted, or none. It is for
// who calls SendFrames.
func (q *QP) PostFirst(reqs ...WorkRequest) error { return q.postWhole(reqs, true) }

func (q *QP) postWhole(reqs []WorkRequest, first bool) error {
	q.mu.Lock()
	if len(reqs) > q.placesLocked() {
		q.wants = true
		q.mu.Unlock()
		return ErrQueueFull
	}
	n, run, err := q.postAllLocked(reqs)
	if s := q.stream; first && err == nil && s != nil && s.shared != nil {
		d := &s.shared.frames
		d.fenced, d.fence, d.writes = true, q.tail, 0
		for i := range reqs[:n] {
			if reqs[i].Op == OpWrite {
				d.writes++
			}
		}
	}
	s := q.stream
	q.mu.Unlock()
	if run {
		s.transmit()
	}
	return err
}

// postAllLocked posts requests. It tells whether the caller has to send them.
func (q *QP) postAllLocked(reqs []WorkRequest) (n int, run bool, err error) {
	if q.state == StateInit || q.state == StateSQD {
		return 0, false, fmt.Errorf("%w: post in state %v", ErrState, q.state)
	}
	var bytes uint32
	for n = range reqs {
		if err = q.postLocked(&reqs[n]); err != nil {
			break
		}
		bytes += min(q.slots[(q.tail-1)&uint32(len(q.slots)-1)].length, streakBytes)
	}
	if err == nil {
		n = len(reqs)
	}
	switch {
	case q.over:
		q.flushSendLocked()
	case n > 0 && q.corked:
	case n > 0 && !q.holdLocked(n, bytes):
		run = q.stream.kickLocked()
	}
	return n, run, err
}

func (q *QP) postLocked(w *WorkRequest) error {
	if q.slots == nil { // made late, because many queue pairs never send, or only frames
		q.slots = make([]sendSlot, q.cfg.MaxSend)
	}
	if q.placesLocked() <= 0 {
		return ErrQueueFull
	}
	total, err := q.checkRequest(w)
	if err != nil {
		return err
	}
	at := q.tail & uint32(len(q.slots)-1)
	s := &q.slots[at]
	s.id, s.op, s.flags, s.queue, s.deps, s.status = w.ID, w.Op, w.Flags, 0, w.Writes, Success
	s.remoteKey, s.invalidate, s.length = w.RemoteKey, w.Invalidate, total
	if w.Op.Tagged() {
		s.remoteAddr = q.stream.remoteOffset(w)
	} else {
		s.queue = xctl.SRQN(w.Queue)
	}
	s.qp = w.QP
	s.offers, s.again, s.segment = w.Offers, w.Again, w.Segment
	copy(s.sge[:], w.SGE)
	s.inline, s.local = 0, w.Local
	switch w.Op {
	case OpImmediate:
		s.args[0] = w.Immediate
	case OpFetchAdd:
		s.args[0], s.args[1] = w.Add, w.AddMask
	case OpCompareSwap:
		s.args = [4]uint64{w.Compare, w.CompareMask, w.Swap, w.SwapMask}
	}
	if len(w.Inline) > 0 {
		if q.inline == nil {
			q.inline = make([]byte, len(q.slots)*q.cfg.MaxInline)
		}
		s.inline = int16(copy(q.inlineOf(at), w.Inline))
	}
	q.tail++
	return nil
}

func (q *QP) inlineOf(slot uint32) []byte {
	return q.inline[int(slot)*q.cfg.MaxInline:][:q.cfg.MaxInline]
}

const maxQP = 1<<24 - 1 // highest WorkRequest.QP

// checkRequest refuses what no connection could do and returns the length.
func (q *QP) checkRequest(w *WorkRequest) (uint32, error) {
	bad := func(field, format string, args ...any) (uint32, error) {
		return 0, badField("WorkRequest."+field, format, args...)
	}
	total := uint64(len(w.Inline))
	for i := range w.SGE {
		total += uint64(w.SGE[i].Len)
	}
	for _, p := range w.Local {
		total += uint64(len(p))
	}
	switch {
	case w.Op > OpImmediate:
		return bad("Op", "%v is none of a work request", w.Op)
	case len(w.SGE) > MaxSGE:
		return bad("SGE", "%d pieces of memory, at most %d", len(w.SGE), MaxSGE)
	case len(w.Local) > MaxSGE:
		return bad("Local", "%d pieces of memory, at most %d", len(w.Local), MaxSGE)
	case len(w.Local) > 0 && w.Op != OpWrite:
		return bad("Local", "set for %v", w.Op)
	case len(w.Local) > 0 && len(w.SGE)+len(w.Inline) > 0:
		return bad("Local", "set beside SGE or Inline")
	case len(w.Inline) > 0 && w.Op > OpWrite:
		return bad("Inline", "set for %v", w.Op)
	case len(w.Inline) > 0 && len(w.SGE) > 0:
		return bad("Inline", "set beside SGE")
	case len(w.Inline) > q.cfg.MaxInline:
		return bad("Inline", "%d bytes, at most %d", len(w.Inline), q.cfg.MaxInline)
	case w.Op == OpRead && len(w.SGE) > 1:
		return bad("SGE", "%d pieces of memory for a read, at most 1", len(w.SGE))
	case w.Op == OpImmediate && len(w.SGE) > 0:
		return bad("SGE", "set for %v", w.Op)
	case (w.Op == OpFetchAdd || w.Op == OpCompareSwap) && (len(w.SGE) != 1 || total != 8):
		return bad("SGE", "%d pieces of %d bytes for an atomic, not 1 of 8", len(w.SGE), total)
	case (w.Op == OpFetchAdd || w.Op == OpCompareSwap) && w.RemoteAddr%8 != 0:
		return bad("RemoteAddr", "%#x of an atomic is no multiple of 8", w.RemoteAddr)
	case total > maxMessage:
		return bad("SGE", "%d bytes, at most %d", total, uint32(maxMessage))
	case w.Writes > 0 && (w.Queue == 0 || w.Op != OpSend):
		return bad("Writes", "%d for %v, and not for a Send with Queue", w.Writes, w.Op)
	case w.Writes > xctl.MostBuilds && q.stream != nil && q.stream.shared != nil && q.stream.shared.agreed.Caps.Has(xctl.CapQP):
		return bad("Writes", "%d, at most %d", w.Writes, xctl.MostBuilds)
	case w.QP > maxQP:
		return bad("QP", "%#x is not in 0..%#x", w.QP, maxQP)
	case w.Queue == 0:
	case !xctl.SRQN(w.Queue).Valid():
		return bad("Queue", "%#x is not in 1..%#x", w.Queue, xctl.MaxSRQN)
	case w.Op.Tagged() && w.RemoteAddr > xctl.MaxTagged-total:
		return bad("RemoteAddr", "%#x is beyond the addresses that can be named with a queue", w.RemoteAddr)
	case w.Op.Tagged():
	case q.stream == nil || q.stream.shared == nil || !q.stream.shared.agreed.Caps.Has(xctl.CapInitiator):
		return bad("Queue", "set on a connection that does not send to shared receive queues")
	case q.stream.shared.frames.queues[xctl.SRQN(w.Queue)] != nil:
		return bad("Queue", "%#x is sent frames", w.Queue)
	}
	return uint32(total), nil
}

// completeLocked completes, in order, the work requests that are done: a send or
// write when TCP has it, a read or atomic when its response is placed. Where the
// peer tells the fate of Writes they complete by that; messages to shared queues
// complete elsewhere.
func (q *QP) completeLocked() {
	if q.over {
		return
	}
	comps := q.comps[:0]
	var answered, written uint64
	soft, first := false, q.head
	if q.stream != nil {
		answered = q.stream.rx.answered.Load()
		if x := q.stream.shared; x != nil && x.agreed.Caps.Has(xctl.CapSoftWrite) {
			soft, written = true, x.written
		}
	}
	for q.head != q.sent {
		s := &q.slots[q.head&uint32(len(q.slots)-1)]
		if s.answered() && s.index >= answered || soft && s.op == OpWrite && s.status == Success && s.index >= written {
			break
		}
		switch {
		case s.queue != 0:
			q.stream.shared.undecided.Add(1)
		case s.status != Success:
			comps = append(comps, Completion{ID: s.id, QP: q, Op: s.op, Status: s.status, Vendor: s.vendor})
		case s.flags&Signaled != 0 || q.cfg.SignalAll:
			comps = append(comps, Completion{ID: s.id, QP: q, Op: s.op, Len: s.length})
		}
		s.local = nil
		q.head++
	}
	q.comps = comps
	q.pushSends(comps)
	if q.wants && q.head != first {
		q.wants = false
		q.toldLocked()
	}
}

// flushSendLocked completes everything in the send queue: what is at fault with
// its status, the rest as flushed.
func (q *QP) flushSendLocked() {
	comps := q.comps[:0]
	begun := q.head
	if q.stream != nil && q.stream.shared != nil {
		begun = q.stream.tx.next
		comps = q.stream.shared.flushLocked(q, comps)
	}
	for ; q.head != q.tail; q.head++ {
		s := &q.slots[q.head&uint32(len(q.slots)-1)]
		s.local = nil
		if s.queue != 0 && int32(q.head-begun) < 0 {
			continue // flushLocked has completed requests that have had their turn
		}
		c := Completion{ID: s.id, QP: q, Op: s.op, Status: Flushed, Queue: uint32(s.queue)}
		if q.failed.culprit && q.failed.slot == q.head {
			c.Status, c.Vendor = q.failed.status, q.failed.vendor
		}
		comps = append(comps, c)
	}
	q.sent = q.tail
	q.comps = nil
	q.pushSends(comps)
}

func (q *QP) pushSends(comps []Completion) {
	if len(comps) == 0 {
		return
	}
	if !q.cfg.SendCQ.push(comps) {
		q.dev.wg.Go(q.cfg.SendCQ.fail)
	}
	q.toldLocked()
}

// toldLocked has QPConfig.Completed called at the end of the burst at hand, or soon.
func (q *QP) toldLocked() {
	s := q.stream
	if q.cfg.Completed == nil || s == nil {
		return
	}
	s.news.Store(true)
	if !s.burst.Load() {
		s.conn.Wake()
	}
}
