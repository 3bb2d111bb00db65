package iwarp

import (
	"time"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// maxArrived is how many records wait while the transmitter does, for a socket
// that is full. A peer that grants and acknowledges also reads.
const maxArrived = 1 << 16

// arrivedRecord is a CREDIT, NAK, WRACK or WRERR on its way to the transmitter.
type arrivedRecord struct {
	kind     xctl.Type
	credit   xctl.Credit
	nak      xctl.NAK
	writeAck xctl.WriteAck
	writeErr xctl.WriteError
}

func (r *arrivedRecord) queue() xctl.SRQN {
	if r.kind == xctl.TypeCredit {
		return r.credit.SRQ
	}
	return r.nak.SRQ
}

// route takes a segment of a queue that is not the RFCs'.
func (r *receiver) route(seg *rdmap.Segment, ulpdu []byte) bool {
	to, err := xctl.RouteOf(seg.Op, seg.Untagged.QN)
	whole := r.sink.n == len(seg.Payload)
	switch {
	case err != nil:
	case to == xctl.RouteControl && whole:
		r.controlMessage(seg, ulpdu)
		return false
	case to == xctl.RouteControl:
		err = rdmap.CauseOpcode // a control message is never so long
	default:
		if seg.Op.Immediate() {
			var d rdmap.Immediate
			if err = d.Decode(seg.Payload); err != nil {
				break
			}
			if h := &seg.Untagged; h.MO != 0 || !h.Last {
				err = rdmap.CauseStreamCatastrophic // immediate data is a message of its own
				break
			}
			r.sink.immediate = uint64(d)
		}
		n, _ := xctl.SRQOf(seg.Untagged.QN)
		return r.beginShared(n)
	}
	r.refuseSink(rdmap.CauseOf(err))
	return false
}

// beginShared checks a segment of a message to one of our shared queues. A
// message that cannot be delivered is dropped and its sender told; the connection
// goes on.
func (r *receiver) beginShared(n xctl.SRQN) bool {
	x, k, h := r.s.shared, &r.sink, &r.sink.untagged
	k.shared, k.drop = true, true
	rcv := x.in.Find(n)
	var srq *SRQ
	k.sunk = n == x.sink.open
	begins := h.MO == 0 && !k.sunk && x.passed != n && (x.open == nil || x.open.num != n)
	if begins {
		srq = x.find(n)
		k.sunk = srq != nil && srq.sink
		if srq == nil && rcv != nil && !rcv.Discarding() {
			if last, ok := x.in.Remove(n); ok {
				r.say(func(b *xctl.Backlog) bool { b.Credit(last); return true })
			}
			rcv = x.in.Find(n)
		}
		if srq != nil && rcv == nil {
			if rcv = x.in.Adopt(n, h); rcv == nil {
				r.prune()
				rcv = x.in.Adopt(n, h)
			}
		}
	}
	if k.sunk && !x.octets.arrived(k.n) {
		r.refuseSink(rdmap.CauseDDPNoBuffer)
		return false
	}
	if rcv == nil {
		x.passed = n
		if nak, last := xctl.Unknown(n, h); last {
			x.passed = 0
			return r.refuseUnknown(nak)
		}
		return true
	}
	arrival, err := rcv.Arrive(h)
	if err != nil {
		r.refuseSink(rdmap.CauseOf(err))
		return false
	}
	k.to = rcv
	r.touch(rcv)
	switch arrival {
	case xctl.ArrivalDrop:
		return true
	case xctl.ArrivalMore:
		if k.sunk {
			k.feed = x.params.Sink
		} else {
			k.srq = x.open
		}
	case xctl.ArrivalFirst:
		if x.open != nil && !k.sunk || x.sink.open != 0 && k.sunk {
			r.refuseSink(rdmap.CauseStreamCatastrophic) // messages do not interleave
			return false
		}
		if k.sunk {
			x.sink.open = n
		}
		dep, whole := h.ULPData, true
		if !k.sunk {
			x.qp = 0
		}
		if srq != nil && !k.sunk && x.agreed.Caps.Has(xctl.CapQP) {
			x.qp, dep, whole = x.placed.QPData(dep)
			srq = x.params.Target(uint32(n), x.qp)
		} else if k.op.Invalidates() {
			dep = 0
		}
		if srq == nil {
			return r.refuseMessage(xctl.NAKUnknown, 0)
		}
		if !whole {
			return r.refuseMessage(xctl.NAKDependency, 0)
		}
		if dep != 0 {
			ok, err := x.placed.Check(dep)
			if err != nil {
				r.refuseSink(rdmap.CauseOf(err))
				return false
			}
			if !ok {
				return r.refuseMessage(xctl.NAKDependency, 0)
			}
		}
		if k.sunk {
			if k.op.Immediate() || k.op.Invalidates() {
				return r.refuseMessage(xctl.NAKForbidden, 0)
			}
			rcv.Take()
			k.feed = x.params.Sink
			if n != x.sink.queue {
				x.sink.queue = n
				k.feed.Queue(uint32(n))
			}
			break
		}
		if !srq.pop(r.s, &x.recv) {
			nak, err := rcv.NotReady()
			if err != nil {
				r.refuseSink(rdmap.CauseOf(err))
				return false
			}
			x.hungry[rcv] = srq
			return r.mustSay(func(b *xctl.Backlog) bool { return b.NAK(nak) })
		}
		rcv.Take()
		x.open, k.srq = srq, srq
	}
	if k.sunk {
		k.drop = false
		return true
	}
	if room := x.recv.room(); uint64(h.MO)+uint64(k.n) > room && !k.op.Immediate() {
		return r.refuseMessage(xctl.NAKTooLong, uint32(min(room, 1<<32-1)))
	}
	k.drop, k.offset = k.op.Immediate(), uint64(h.MO)
	return true
}

// prune forgets queues that there are no more.
func (r *receiver) prune() {
	x := r.s.shared
	x.in.Prune(func(n xctl.SRQN) bool { return x.find(n) != nil }, func(last xctl.Credit) {
		r.say(func(b *xctl.Backlog) bool { b.Credit(last); return true })
	})
}

// refuseMessage drops the message at hand; the memory that it had is the next
// one's.
func (r *receiver) refuseMessage(code xctl.NAKCode, info uint32) bool {
	x, k := r.s.shared, &r.sink
	if x.open != nil && k.srq == x.open {
		x.open.putBack(&x.recv)
		x.open = nil
	}
	nak := k.to.Refuse(code, info)
	k.drop, k.srq = true, nil
	refusal := func(b *xctl.Backlog) bool { return b.NAK(nak) }
	if code == xctl.NAKUnknown {
		return r.mustSay(refusal) // the queue went away while the message came
	}
	return r.softError(refusal)
}

// refuseUnknown refuses a message to a queue that there is not.
func (r *receiver) refuseUnknown(nak xctl.NAK) bool {
	if !r.mustSay(func(b *xctl.Backlog) bool { return b.NAK(nak) }) {
		return false
	}
	if x := r.s.shared; !x.in.Blameless(nak) && !x.rate.AddQueue(nak.SRQ, time.Now()) {
		r.refuseSink(rdmap.CauseStreamCatastrophic)
		return false
	}
	return true
}

// faultShared ends a message because the memory posted for it is no good.
func (r *receiver) faultShared(fault mr.Fault) bool {
	x, srq := r.s.shared, r.sink.srq
	x.open, r.sink.srq = nil, nil
	srq.rq.settle()
	c := Completion{ID: x.recv.id, QP: r.s.q, Op: OpReceive, Status: LocalProtection, Vendor: uint32(fault), Queue: uint32(srq.num), Target: x.qp}
	if !srq.cq.push([]Completion{c}) {
		r.s.dev.wg.Go(srq.cq.fail)
	}
	return r.refuseMessage(xctl.NAKForbidden, 0)
}

// softError says what costs a message and not the connection, unless there are
// too many of them, or too many that the peer has not read.
func (r *receiver) softError(say func(*xctl.Backlog) bool) bool {
	if !r.mustSay(say) {
		return false
	}
	if !r.s.shared.rate.Add(time.Now()) {
		r.refuseSink(rdmap.CauseStreamCatastrophic)
		return false
	}
	return true
}

// mustSay is say for what the peer has to hear: where that piles up the connection
// ends.
func (r *receiver) mustSay(add func(*xctl.Backlog) bool) bool {
	if r.say(add) {
		return true
	}
	r.refuseSink(rdmap.CauseStreamCatastrophic)
	return false
}

// say adds to what the transmitter tells the peer. It is false if the peer has let
// too much of that pile up.
func (r *receiver) say(add func(*xctl.Backlog) bool) bool {
	q := r.s.q
	q.mu.Lock()
	ok := add(&r.s.shared.backlog)
	q.mu.Unlock()
	r.kick = true
	return ok
}

func (r *receiver) touch(rcv *xctl.Receiver) {
	x := r.s.shared
	if n := len(x.touched); n > 0 && x.touched[n-1] == rcv {
		return // the usual case
	}
	for _, t := range x.touched {
		if t == rcv {
			return
		}
	}
	x.touched = append(x.touched, rcv)
}

// finishShared ends a segment of a shared queue.
func (r *receiver) finishShared() {
	x, k := r.s.shared, &r.sink
	if k.to == nil {
		return // the message is for a queue that does not exist
	}
	c := Completion{ID: x.recv.id, Op: OpReceive, Len: k.untagged.MO + uint32(k.n), Solicited: k.op.Solicited(), QP: r.s.q, Serial: k.untagged.MSN, Target: x.qp}
	if k.op.Immediate() {
		c.Op, c.Immediate = OpImmediate, k.immediate
	}
	if k.srq != nil && k.last && k.op.Invalidates() {
		c.Invalidated = mr.Key(k.untagged.ULPData)
		if r.reader.Revoke(c.Invalidated, k.srq.pd.domain, r.s.peer) != mr.None && !r.refuseMessage(xctl.NAKInvalidate, 0) {
			return
		}
	}
	switch {
	case k.feed != nil && k.last: // the sink has had the payload
		if x.sink.unsaid += c.Len + ackCost; c.Solicited { // the sender waits for the acknowledgement
			x.sink.unsaid += ackBytes
		}
	case k.srq == nil || !k.last:
	case !r.deliver(c):
		return
	}
	if k.sunk && k.last {
		x.sink.open = 0
		x.octets.ended()
	}
	r.touch(k.to) // the segment may have begun in an earlier burst
	k.to.Advance(&k.untagged, k.n)
}

// deliver completes the message at hand in its queue, or refuses it if there is no
// such queue any more or its completion queue is lost. It returns false if the
// connection ends.
func (r *receiver) deliver(c Completion) bool {
	x, srq := r.s.shared, r.sink.srq
	if !srq.enter() {
		return r.refuseMessage(xctl.NAKUnknown, 0)
	}
	x.open = nil
	c.Queue = uint32(srq.num)
	srq.rq.settle() // before the program hears of the message
	pushed := srq.cq.push([]Completion{c})
	srq.leave() // Close returns after the last completion
	if pushed {
		if x.params.Delivered != nil {
			x.params.Delivered(c.Queue, c.Serial)
		}
		return true
	}
	r.s.dev.wg.Go(srq.cq.fail)
	// The peer has done nothing wrong, so it is not counted as its error.
	nak := r.sink.to.Refuse(xctl.NAKUnknown, 0)
	return r.mustSay(func(b *xctl.Backlog) bool { return b.NAK(nak) })
}

// controlMessage takes what the peer says beside messages.
func (r *receiver) controlMessage(seg *rdmap.Segment, ulpdu []byte) {
	x := r.s.shared
	err := xctl.CheckHeader(seg, &x.inbox)
	if err == nil {
		x.inbox.Advance(&seg.Untagged, len(seg.Payload))
		it := xctl.Iterate(seg.Payload)
		for err == nil && it.Next() {
			err = r.controlRecord(&it)
		}
		if err == nil {
			err = it.Err()
		}
	}
	if err != nil {
		r.refuse(rdmap.CauseOf(err), ulpdu)
	}
}

// controlRecord takes one record. An error ends the connection.
func (r *receiver) controlRecord(it *xctl.Records) error {
	x := r.s.shared
	switch it.Type() {
	case xctl.TypeCredit:
		return r.arrivedRecord(&arrivedRecord{kind: it.Type(), credit: it.Credit()})
	case xctl.TypeNAK:
		return r.arrivedRecord(&arrivedRecord{kind: it.Type(), nak: it.NAK()})
	case xctl.TypeWriteAck:
		return r.arrivedRecord(&arrivedRecord{kind: it.Type(), writeAck: it.WriteAck()})
	case xctl.TypeWriteError:
		return r.arrivedRecord(&arrivedRecord{kind: it.Type(), writeErr: it.WriteError()})
	case xctl.TypeResume:
		return x.in.Resume(it.Resume())
	case xctl.TypeReadError:
		if !r.readFailed(it.ReadError()) {
			return rdmap.CauseStreamCatastrophic
		}
	case xctl.TypeGrant:
		return r.granted(it.Grant())
	case xctl.TypeReturn:
		if x.octets.on {
			return r.returned(it.Return())
		}
	case xctl.TypeFull:
		if f := it.Full(); x.octets.on && x.params.Sink != nil {
			x.params.Sink.Full(f.Tag, f.On)
		}
	case xctl.TypeHome, xctl.TypeSRQ:
		r.queueNews(it)
	case xctl.TypeRefused:
		r.refused(it.Refused())
	case xctl.TypePing:
		p := it.Ping()
		r.say(func(b *xctl.Backlog) bool { b.Pong(xctl.Pong(p)); return true })
	case xctl.TypePong:
		x.ponged(r.s.q, it.Pong().Nonce)
	}
	return nil
}

// arrivedRecord takes what is the transmitter's, or of a queue that frames are sent to. An
// error ends the connection.
func (r *receiver) arrivedRecord(a *arrivedRecord) error {
	x, q := r.s.shared, r.s.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := x.framesTo(a); l != nil {
		// What there is to say of our own does not leave because of this.
		r.kick = r.kick || x.frames.want || q.state == StateSQD
		r.acked = true
		return x.frames.heardLocked(l, a)
	}
	if len(x.arrived) == maxArrived {
		return rdmap.CauseStreamCatastrophic
	}
	x.arrived = append(x.arrived, *a)
	r.kick = true
	return nil
}

// endShared gives back what the connection has of shared queues.
func (r *receiver) endShared() {
	x := r.s.shared
	if x.open != nil {
		x.open.putBack(&x.recv)
		x.open = nil
	}
	for _, srq := range x.hungry {
		srq.forget(r.s)
	}
	clear(x.hungry)
	x.touched = nil
	if x.octets.share != nil {
		x.octets.share.Leave()
	}
	if x.sink.fed {
		x.sink.fed = false
		x.params.Sink.Flush() // the sink may have bytes that came before the end
	}
}
