package conn

import (
	"encoding/binary"
	"math"

	"github.com/rds-go/rds/internal/invariants"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

// Batch is what one Send of a link is to carry.
type Batch struct {
	Frames []transport.Frame
	Ops    []BatchOp // operations that the link is to begin with them
	Bytes  int       // octets of Frames that the link has not taken before
	Cost   int       // sum of Cost of Ops

	// Octets and Short are FillWithin's: how many octets more than those claimed the
	// link needs for what was picked, and, if there were not enough for the message that
	// is next, how many more than those claimed that needs; else 0.
	Octets, Short int
}

// BatchOp is an operation that the link is to begin with a batch.
type BatchOp struct {
	Op    *Operation
	Frame int // index of its frame
}

// Taken is how many octets of a batch t stands for.
func (b *Batch) Taken(t transport.Taken) int {
	if t.Frames == len(b.Frames) {
		return b.Bytes
	}
	left := b.Bytes
	for i := t.Frames; i < len(b.Frames); i++ {
		left -= b.Frames[i].Size()
	}
	if t.Frames == 0 {
		left = 0 // some of the first frame may have been taken before
	}
	return left + t.Octets
}

const (
	batchBytes  = 1 << 20 // octets of a batch, and Cost of its operations
	batchFrames = 2048
)

func (b *Batch) reset() {
	clear(b.Frames)
	clear(b.Ops)
	b.Frames, b.Ops, b.Bytes, b.Cost, b.Octets, b.Short = b.Frames[:0], b.Ops[:0], 0, 0, 0, 0
}

// Fill collects into b what path i is to write next and tells whether there is
// anything. Its memory is valid until Wrote, which must follow before any
// other Fill on the path: until then the log is neither compacted nor cut by a cancel.
// A frame that the link has begun is first, whole, as the link expects it.
//
// A map goes before messages, a probe between those that are resent and those
// that are new; both only where a message ends.
func (c *Conn) Fill(i int, b *Batch) bool { return c.FillWithin(i, b, 0, math.MaxInt) }

// FillWithin is Fill for a link that takes no more octets than were granted to it.
// claimed octets are there for what earlier Fills have picked and Wrote has not taken,
// fresh ones for other messages: Batch.Octets tells how many of the fresh ones belong to
// what was picked now, and are claimed from then on. What has been picked, and so
// has its number, always has its octets.
func (c *Conn) FillWithin(i int, b *Batch, claimed, fresh int) bool {
	p := &c.paths[i]
	b.reset()
	if p.state != Up || p.filling || p.hold || p.claiming || c.closed || p.leaving && !p.begun() {
		return false
	}
	q := &p.q
	if !p.begun() {
		switch {
		case p.mapPending:
			if !b.takes(wire.HeaderSize+wire.CongestionMapSize, fresh) {
				return false
			}
			p.mapPending, p.mapAt = false, p.probes
			p.control = c.encodeMap(p)
		case p.probe && q.next == q.fresh:
			if !b.takes(wire.HeaderSize, fresh) {
				return false
			}
			p.probe = false
			p.control = c.encodeProbe(p)
		}
	}
	if len(p.control) > 0 {
		b.Frames = append(b.Frames, transport.Frame{Head: p.control, Port: wire.PortHost})
		b.Bytes = len(p.control) - p.controlOff
		p.filling = true
		return true
	}
	end := q.tail
	if p.begun() && p.mapPending || p.leaving {
		end = q.next + 1
	}
	if c.blocked(p) {
		end = min(end, q.fresh)
	}
	c.pick(p, b, end, claimed, fresh)
	p.filling = len(b.Frames) > 0
	return p.filling
}

// pick shows the messages from next on and before end that there are octets for.
func (c *Conn) pick(p *path, b *Batch, end uint64, claimed, fresh int) {
	q := &p.q
	room := claimed + fresh
	if room < 0 {
		room = math.MaxInt // negative: room is not bounded
	}
	picked, most := 0, max(1, p.opsMost)
	pos := q.next
	for pos < end && picked+b.Cost < batchBytes && len(b.Frames) < batchFrames {
		e := q.at(pos)
		size := e.size()
		if e.flags&entryOp == 0 && (pos != q.next || !p.begun()) { // the usual case
			if size > room-picked {
				b.Short = size + picked - claimed
				break
			}
			if pos == q.fresh {
				if p.probe {
					break
				}
				p.number(e)
			}
			if invariants.Enabled && e.flags&entryCanceled != 0 {
				panic("conn: a canceled message is picked")
			}
			b.show(e)
			picked += size
			b.Bytes += size
			pos++
			continue
		}
		var op *Operation
		if e.flags&entryOp != 0 {
			op = c.ops[e.token]
			if op.Silent {
				size = 0
			}
		}
		if pos == q.next && p.begun() {
			size -= p.nextOff
		} else {
			if op != nil && !op.begun {
				if op.Epoch != c.epoch {
					// The operation was meant for an earlier generation of the peer. Its key may
					// by chance name memory of the present one.
					pos, end = c.passBy(p, pos, end, RemoteError)
					continue
				}
				if c.opWaits(p, pos) {
					break
				}
			}
			if size > room-picked {
				b.Short = size + picked - claimed
				break
			}
			if pos == q.fresh && p.probe {
				break
			}
			if op != nil && !op.begun && c.cfg.Begins != nil && !c.cfg.Begins(p.index, op) {
				pos, end = c.passBy(p, pos, end, Again)
				continue
			}
			if invariants.Enabled && e.flags&entryCanceled != 0 {
				panic("conn: a canceled message is picked")
			}
			if pos == q.fresh {
				p.number(e)
			}
		}
		picked += size
		pos++
		if op != nil && !b.operate(op, e.dport) {
			if op.Fence && !op.Silent || len(b.Ops) >= most {
				break // with Fence the message waits for the end of the operation
			}
			continue
		}
		f := b.show(e)
		if op != nil && !op.Fence { // a fence that is over binds nothing
			f.Ops = op.List
		}
		b.Bytes += size
		if len(b.Ops) >= most { // what is behind keeps its chance to expire, or to be held back
			break
		}
	}
	p.shown, p.opsShown = pos, len(b.Ops)
	b.Octets = max(0, picked-claimed)
}

// show appends the frame of a message. What follows the frames in memory is clear.
func (b *Batch) show(e *entry) *transport.Frame {
	n := len(b.Frames)
	if n == cap(b.Frames) {
		b.Frames = append(b.Frames, transport.Frame{})
	} else {
		b.Frames = b.Frames[:n+1]
	}
	f := &b.Frames[n]
	f.Head = e.chunk.b.B[e.off:][:e.head()]
	if e.body != nil {
		f.Body = e.body.B
	}
	f.Port = e.dport
	return f
}

// operate notes an operation that is to begin, for a port. It is false if its frame, which is
// then in the batch, is without the message.
func (b *Batch) operate(op *Operation, port uint16) (message bool) {
	if op.begun {
		return true
	}
	b.Ops = append(b.Ops, BatchOp{op, len(b.Frames)})
	b.Cost += op.Cost
	if op.Silent || op.Fence {
		b.Frames = append(b.Frames, transport.Frame{Ops: op.List, Port: port})
		return false
	}
	return true
}

// passBy ends the message at pos of those that are looked through up to end, and returns
// where the next one is, and their end.
func (c *Conn) passBy(p *path, pos, end uint64, status Status) (uint64, uint64) {
	tail := p.q.tail
	c.remove(p, pos, status)
	if p.q.tail == tail { // messages behind have kept their places
		return pos + 1, end
	}
	return pos, end - 1
}

// takes claims n of the fresh octets, or says that there are not enough.
func (b *Batch) takes(n, fresh int) bool {
	if n > fresh {
		b.Short = n
		return false
	}
	b.Octets = n
	return true
}

// Picked tells whether path i has octets to write that were picked before.
func (c *Conn) Picked(i int) bool {
	p := &c.paths[i]
	return len(p.control) > 0 || p.q.next < p.q.fresh
}

// number gives the first message that was never picked its sequence number. A silent
// operation has that of the last message, so that numbers never descend in the queue.
func (p *path) number(e *entry) {
	e.flags &^= entryLimited
	p.q.fresh++
	if e.flags&entrySilent != 0 {
		e.seq = p.sequence - 1
		return
	}
	e.seq = p.sequence
	p.sequence++
	binary.BigEndian.PutUint64(e.chunk.b.B[e.off:], e.seq)
}

// Wrote tells how much of the last Fill the link of path i has taken, and whether there
// is more to write.
func (c *Conn) Wrote(i int, t transport.Taken) (more bool) {
	p := &c.paths[i]
	p.filling = false
	if len(p.control) > 0 {
		p.controlTaken(t)
	} else {
		p.opsBegun = 0
		for k := 0; k < t.Frames; k++ {
			if k += p.messagesTaken(t.Frames - k); k < t.Frames {
				c.frameTaken(p)
			}
		}
		if t.Begun() {
			c.frameBegun(p, t)
		}
		p.boundOps(c.cfg.OneOperation)
	}
	if p.unread && p.unreadTo == math.MaxUint64 {
		c.mark(p)
	}
	switch {
	case c.closed:
		c.discard(p)
		return false
	case p.compact:
		p.compact = false
		c.dropCanceled(p)
	}
	if p.tooLong {
		p.tooLong = false
		c.endLong(p)
	}
	c.fencePath(p)
	if p.index >= c.used() {
		c.migrate(p)
	}
	c.leave(p)
	return p.ready(c)
}

// boundOps sets how many operations the next Fill shows: one at first, twice as many each
// time when the link has begun all of them, and as many as it has begun when it had no room.
func (p *path) boundOps(one bool) {
	switch {
	case p.opsShown == 0:
	case one:
		p.opsMost = 1
	case p.opsBegun < p.opsShown:
		p.opsMost = max(1, p.opsBegun)
	default:
		p.opsMost = min(max(2, 2*p.opsMost), batchFrames)
	}
}

func (p *path) controlTaken(t transport.Taken) {
	if t.Frames == 0 {
		p.controlOff += t.Octets
		p.written += uint64(t.Octets)
		return
	}
	p.written += uint64(len(p.control) - p.controlOff)
	p.control, p.controlOff = nil, 0
}

// messagesTaken follows up to n frames of messages without operations, and returns of how
// many.
func (p *path) messagesTaken(n int) (taken int) {
	q := &p.q
	written, off := p.written, p.nextOff
	for ; taken < n; taken++ {
		e := q.at(q.next)
		if e.flags&entryOp != 0 {
			break
		}
		size := e.size()
		e.flags |= entryWritten
		written += uint64(size - off)
		e.end = written
		off = 0
		q.unsent -= size
		q.next++
	}
	p.written, p.nextOff = written, off
	return taken
}

// frameTaken follows the frame of the message that is next.
func (c *Conn) frameTaken(p *path) {
	q := &p.q
	e := q.at(q.next)
	if e.flags&entryOp != 0 {
		if op := c.ops[e.token]; !op.begun {
			c.began(p, op)
			if op.Silent || op.Fence {
				return
			}
		}
	}
	e.flags |= entryWritten
	p.written += uint64(e.size() - p.nextOff)
	e.end = p.written
	p.nextOff, p.bound = 0, false
	q.unsent -= e.size()
	q.next++
}

// frameBegun follows a part of the frame of the message that is next.
func (c *Conn) frameBegun(p *path, t transport.Taken) {
	e := p.q.at(p.q.next)
	if t.Ops {
		c.began(p, c.ops[e.token])
	}
	if t.Octets > 0 {
		e.flags |= entryWritten
		p.nextOff += t.Octets
		p.written += uint64(t.Octets)
	}
}
