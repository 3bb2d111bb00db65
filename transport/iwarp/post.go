package iwarp

import (
	"fmt"
	"math"
	"math/bits"
	"syscall"

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
	inline     int16  // bytes in the slot's part of QP.inline, 0: SGE
	sge        [MaxSGE]SGE
	local      [][]byte // memory instead of sge, if there is any
	length     uint32
	remoteKey  mr.Key
	invalidate mr.Key
	remoteAddr uint64
	args       [4]uint64 // Immediate; or Add, AddMask; or Compare, CompareMask, Swap, SwapMask

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

// PostFirst is PostSend for work requests that the message of a frame follows: the first
// frame of the next SendFrames. Nothing that others post goes between them and the message,
// which the peer refuses if a Write among them failed. All are posted, or none. It is for
// who calls SendFrames.
func (q *QP) PostFirst(reqs ...WorkRequest) error {
	q.mu.Lock()
	if len(reqs) > q.cfg.MaxSend-int(q.tail-q.head)-q.stream.detached() {
		q.mu.Unlock()
		return ErrQueueFull
	}
	n, run, err := q.postAllLocked(reqs)
	if s := q.stream; err == nil && s != nil && s.shared != nil {
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
		q.slots = make([]sendSlot, 1<<bits.Len(uint(q.cfg.MaxSend-1)))
	}
	if n := int(q.tail - q.head); n == len(q.slots) || n+q.stream.detached() >= len(q.slots) {
		return ErrQueueFull
	}
	total, err := q.checkRequest(w)
	if err != nil {
		return err
	}
	at := q.tail & uint32(len(q.slots)-1)
	s := &q.slots[at]
	s.id, s.op, s.flags, s.queue, s.deps, s.status = w.ID, w.Op, w.Flags, xctl.SRQN(w.Queue), w.Writes, Success
	s.remoteKey, s.remoteAddr, s.invalidate, s.length = w.RemoteKey, w.RemoteAddr, w.Invalidate, total
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

// checkRequest refuses what no connection could do and returns the length.
func (q *QP) checkRequest(w *WorkRequest) (uint32, error) {
	if len(w.SGE) > MaxSGE {
		return 0, badRequest("%d pieces of memory, at most %d", len(w.SGE), MaxSGE)
	}
	if w.Writes > 0 && (w.Queue == 0 || w.Op != OpSend) {
		return 0, badRequest("%v that builds on writes", w.Op)
	}
	if w.Queue != 0 {
		switch {
		case w.Op != OpSend && w.Op != OpSendInvalidate && w.Op != OpImmediate:
			return 0, badRequest("%v to a shared queue", w.Op)
		case !xctl.SRQN(w.Queue).Valid():
			return 0, badRequest("shared queue %#x", w.Queue)
		case q.stream == nil || q.stream.shared == nil || !q.stream.shared.agreed.Caps.Has(xctl.CapInitiator):
			return 0, badRequest("a connection that does not send to shared queues")
		case q.stream.shared.frames.queue(xctl.SRQN(w.Queue)) != nil:
			return 0, badRequest("queue %#x, which is sent frames", w.Queue)
		}
	}
	total := uint64(len(w.Inline))
	if len(w.Local) > 0 {
		switch {
		case w.Op != OpWrite:
			return 0, badRequest("unregistered memory with %v", w.Op)
		case len(w.SGE)+len(w.Inline) > 0:
			return 0, badRequest("registered and unregistered memory")
		case len(w.Local) > MaxSGE:
			return 0, badRequest("%d pieces of memory, at most %d", len(w.Local), MaxSGE)
		}
		for _, p := range w.Local {
			total += uint64(len(p))
		}
	} else if total > 0 {
		switch {
		case w.Op > OpWrite:
			return 0, badRequest("inline data with %v", w.Op)
		case len(w.SGE) > 0:
			return 0, badRequest("inline data and pieces of memory")
		case len(w.Inline) > q.cfg.MaxInline:
			return 0, badRequest("%d bytes inline, at most %d", len(w.Inline), q.cfg.MaxInline)
		}
	}
	for i := range w.SGE {
		total += uint64(w.SGE[i].Len)
	}
	switch w.Op {
	case OpSend, OpSendInvalidate, OpWrite:
	case OpRead:
		if len(w.SGE) > 1 {
			return 0, badRequest("a read has one sink")
		}
	case OpFetchAdd, OpCompareSwap:
		if len(w.SGE) != 1 || total != 8 {
			return 0, badRequest("an atomic returns 8 bytes to one place")
		}
		if w.RemoteAddr%8 != 0 {
			return 0, badRequest("atomic of a misaligned address")
		}
	case OpImmediate:
		if len(w.SGE) > 0 {
			return 0, badRequest("immediate data takes no memory")
		}
	default:
		return 0, badRequest("unknown operation %v", w.Op)
	}
	if total > maxMessage {
		return 0, badRequest("message of %d bytes", total)
	}
	return uint32(total), nil
}

func badRequest(format string, args ...any) error {
	return fmt.Errorf("iwarp: work request: "+format+": %w", append(args, syscall.EINVAL)...)
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
	soft := false
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
	if !q.cfg.SendCQ.push(comps) {
		q.dev.wg.Go(q.cfg.SendCQ.fail)
	}
}
