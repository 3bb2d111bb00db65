package conn

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/rds-go/rds/internal/invariants"
	"github.com/rds-go/rds/internal/wire"
)

// path is one of a connection's paths: a link or the want of one, a queue,
// and the sequence numbers that outlive links.
type path struct {
	index int
	state State
	link  LinkID
	born  uint64 // number of the link among all of the connection, in the order they came
	sport uint16 // source port of the link, if that is inbound

	sequence uint64 // sequence number of the next message picked for the first time
	q        queue
	shelf    shelf // messages held back, see hold.go
	log      log
	nextOff  int // bytes of the message at q.next already written
	written  uint64
	acked    uint64
	pongs    int

	control    []byte    // unwritten rest of the encoded map or probe being written
	mapBuf     []byte    // memory of control, if that is a map
	mapPending bool      // this link has not carried our map yet
	probe      bool      // a probe is due on this link
	probes     uint32    // probes sent on this link
	probeAt    time.Time // when an unanswered probe is repeated; zero: no repetition is due
	probeWait  time.Duration
	answers    uint32 // probes of this link that were answered
	told       bool   // the peer has stated its generation on this link
	toldGen    uint32 // the stated generation; 0: the peer has stated that it has none
	survey     uint32 // answers that end the present survey of this link
	surveys    int    // surveys begun on this link
	mapAt      uint32 // probes when the last map was written: more answers prove that it was taken
	filling    bool   // Fill has shown bytes, and Wrote has not been called
	agrees     bool   // this link has stated what is known of the peer, see claim.go
	claiming   bool   // nothing is written while this link claims something else
	leaving    bool   // nothing new is picked; the link ends when what is partly written is out, see Leave
	bound      bool   // the link takes what is written next for the message of an operation it has begun
	hold       bool   // nothing is written before that bound operation is done
	compact    bool   // canceled messages wait for Wrote

	dialing  bool // a dial was asked for and has not been answered
	outbound bool // the link was dialed by us
	proved   bool // the peer's RDS has taken the link, not just its TCP
	paused   bool // the link is not read for now; see pause.go
	proveBy  time.Time
	redialAt time.Time
	window   time.Duration // back-off before the next dial
	idle     bool          // redialAt is that of a path with nothing to send
	resets   uint64

	asked   uint32         // not 0: the probe whose answer has the links refused that wait for this path, see challenge.go
	askedBy time.Time      // when the wait for that answer ends
	heard   time.Time      // when something arrived on the link last, since asked was set
	met     bool           // Meets is to follow when what this link claims is believed
	claim   wire.Handshake // what this link claims, if claiming

	pending int    // operations begun and not done
	quiet   int    // messages in [first,next) that wait only for their operation
	holes   int    // settled messages in [first,next)
	settled uint64 // link offset up to which acked was applied: all of acked, once the link is proved
}

// Ready tells whether path i has something to write.
func (c *Conn) Ready(i int) bool {
	p := &c.paths[i]
	return p.state == Up && p.ready(c)
}

// ready tells whether there is something to write.
func (p *path) ready(c *Conn) bool {
	if p.hold || p.claiming {
		return false
	}
	if p.leaving {
		return p.begun()
	}
	if len(p.control) > 0 || p.mapPending || p.probe {
		return true
	}
	return (p.q.next < p.q.fresh || p.q.next < p.q.tail && !c.blocked(p)) && !c.opWaits(p)
}

// blocked tells whether new messages must wait for path 0; see barrier.go.
func (c *Conn) blocked(p *path) bool { return p.index > 0 && c.barrier > 0 }

// Batch is what one vectored write is to carry.
type Batch struct {
	Bufs  [][]byte
	Bytes int

	lastChunk *chunk
	lastEnd   int

	// Op, if not nil, is to be begun before anything is written.
	Op *Operation
	// Behind says that the bytes are of one message whose operation the link has
	// begun, or begins first, and which had not to wait for its end.
	Behind bool

	// Octets and Short are FillWithin's: how many octets more than those claimed the
	// link needs for what was picked, and, if there were not enough for the message that
	// is next, how many more than those claimed that needs; else 0.
	Octets, Short int
}

const (
	batchBytes  = 1 << 20
	batchSlices = 1024 // UIO_MAXIOV: more fails with EINVAL
)

func (b *Batch) reset() {
	clear(b.Bufs)
	b.Bufs, b.Bytes, b.Op, b.Behind, b.lastChunk = b.Bufs[:0], 0, nil, false, nil
	b.Octets, b.Short = 0, 0
}

// add appends n bytes of a chunk, to the last slice if they follow it.
func (b *Batch) add(ck *chunk, off, n int) {
	if b.lastChunk == ck && b.lastEnd == off {
		last := &b.Bufs[len(b.Bufs)-1]
		*last = (*last)[: len(*last)+n : cap(*last)]
	} else {
		b.Bufs = append(b.Bufs, ck.b.B[off:off+n])
	}
	b.lastChunk, b.lastEnd = ck, off+n
	b.Bytes += n
}

func (b *Batch) addBody(s []byte) {
	b.Bufs = append(b.Bufs, s)
	b.lastChunk = nil
	b.Bytes += len(s)
}

// Fill collects into b what path i is to write next and tells whether there is
// anything. Its slices are valid until Wrote, which must follow before any
// other Fill on the path. Until Wrote the bytes shown are pinned: the log is
// neither compacted nor cut by a cancel.
//
// A map goes before messages, a probe between those that are resent and those
// that are new; both only where a message ends. A message with an operation is
// alone in its batch; see Operation.
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
	if p.nextOff == 0 && !p.bound && len(p.control) == 0 {
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
		b.addBody(p.control)
		p.filling = true
		return true
	}
	c.refuseStale(p)
	end := q.tail
	if p.mapPending && p.nextOff > 0 || p.leaving {
		end = q.next + 1
	}
	if c.blocked(p) {
		end = min(end, q.fresh)
	}
	if q.next < end && q.at(q.next).flags&entryOp != 0 {
		if c.opWaits(p) {
			return false
		}
		if e := q.at(q.next); e.flags&entrySilent == 0 && !b.takes(max(0, e.size()-p.nextOff-claimed), fresh) {
			return false
		}
		c.fillOp(p, b)
		return true
	}
	room := claimed + fresh
	if room < 0 {
		room = math.MaxInt // negative: room is not bounded
	}
	for pos := q.next; pos < end && b.Bytes < batchBytes && len(b.Bufs) < batchSlices-1; pos++ {
		e := q.at(pos)
		skip := 0
		if pos == q.next {
			skip = p.nextOff
		}
		if skip == 0 {
			if e.flags&entryOp != 0 {
				break
			}
			if e.size() > room-b.Bytes {
				b.Short = e.size() + b.Bytes - claimed
				break
			}
			if invariants.Enabled && e.flags&entryCanceled != 0 {
				panic("conn: a canceled message is picked")
			}
		}
		if pos == q.fresh {
			if p.probe {
				break
			}
			p.number(e)
		}
		if head := e.head(); skip < head {
			b.add(e.chunk, int(e.off)+skip, head-skip)
			skip = 0
		} else {
			skip -= head
		}
		if e.body != nil && len(e.body.B) > skip {
			b.addBody(e.body.B[skip:])
		}
	}
	b.Octets = max(0, b.Bytes-claimed)
	p.filling = len(b.Bufs) > 0
	return p.filling
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

// number gives the first message that was never picked its sequence number.
func (p *path) number(e *entry) {
	e.seq = p.sequence
	e.flags &^= entryLimited
	p.sequence++
	p.q.fresh++
	binary.BigEndian.PutUint64(e.chunk.b.B[e.off:], e.seq)
}

// Wrote tells how many bytes of the last Fill the link of path i has taken,
// and whether there is more to write.
func (c *Conn) Wrote(i, n int) (more bool) {
	p := &c.paths[i]
	p.filling = false
	if len(p.control) > 0 {
		p.control = p.control[min(n, len(p.control)):]
		p.written += uint64(n)
	} else {
		q := &p.q
		was := q.next
		for q.next < q.fresh {
			e := q.at(q.next)
			if e.flags&entrySilent != 0 {
				break // Began passes the silent operation
			}
			left := e.size() - p.nextOff
			if n > 0 || left == 0 {
				e.flags |= entryWritten
			}
			if n < left {
				p.nextOff += n
				p.written += uint64(n)
				break
			}
			n -= left
			p.written += uint64(left)
			e.end = p.written
			p.nextOff = 0
			q.unsent -= e.size()
			q.next++
		}
		p.bound = p.bound && q.next == was
	}
	switch {
	case c.closed:
		c.discard(p)
		return false
	case p.compact:
		p.compact = false
		c.dropCanceled(p)
	}
	c.fencePath(p)
	if p.index >= c.used() {
		c.migrate(p)
	}
	c.leave(p)
	return p.ready(c)
}

// Trim gives back the memory that empty queues keep for the next burst. The
// owner calls it when the connection has been idle for a moment.
func (c *Conn) Trim() {
	for i := range c.paths {
		if p := &c.paths[i]; p.q.len() == 0 && !p.filling {
			p.log.shrink()
			p.q.shrink()
			if len(p.control) == 0 {
				p.mapBuf = nil
			}
		}
	}
	c.shrinkOps()
}
