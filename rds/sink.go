package rds

import (
	"math"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/driver"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport"
)

// sink puts the datagrams that a link brings on their sockets' queues. It runs on the
// transport's event loop.
type sink struct {
	peer *peer
	rx   *driver.Receiver

	arrived uint32     // number of the queue that messages come by
	reader  *mr.Reader // reader of the regions to be retired; nil before there are any

	cur       *nodeSocket // destination of the run of messages at hand; its q.mu is held
	curBytes  int
	curCount  int
	roomBytes int // payload bytes that fit below the hard bound of the socket at hand
	roomCount int // messages that fit below the hard bound of the socket at hand
	wait      roomWait
	touched   []*nodeSocket // sockets that got something in this burst, woken at its end

	first uint64 // lowest number of the messages that this burst has queued

	queued, noSock uint64 // counters of this burst
}

var _ driver.Sink = (*sink)(nil)

func newSink(p *peer, r *driver.Receiver) *sink {
	k := &sink{peer: p, rx: r, arrived: transport.FirstQueue, wait: roomWait{wake: r.Wake, parked: r.Parked}}
	if r.Caps().Reserves {
		p.local.join(r.Link())
	}
	return k
}

// Begin starts a burst.
func (k *sink) Begin() { k.first = math.MaxUint64 }

// Proved has the path's record be that of the peer's generation.
func (k *sink) Proved() { k.use() }

// Stated follows the peer's statement of another generation.
func (k *sink) Stated(before uint32) {
	k.use()
	k.restore(before)
}

// use has the path's record be that of the generation at hand, if there is one.
func (k *sink) use() {
	p, in := k.peer, k.rx.Inbound()
	s := p.sequence.Load()
	if s == nil {
		return
	}
	if record := p.node.sequences.use(s, &p.records, k.rx.Path(), in.Generation(), p.node.now()); record != nil {
		record.Next[k.rx.Path()].Store(in.Next())
	}
}

// restore has the record of another generation say what the path has received of that one:
// the link, which was taken for one of that generation, has changed the record.
func (k *sink) restore(generation uint32) {
	p := k.peer
	record := p.node.sequences.other(p.sequence.Load(), generation)
	if record == nil {
		return
	}
	next := uint64(0)
	k.rx.Inbound().Others(func(o conn.Received) {
		if o.Generation == generation {
			next = o.Next
		}
	})
	record.Next[k.rx.Path()].Store(next)
}

// remember stores what was received, before applications have it: neither a later peer of
// the address nor a successor shall take any of it twice.
func (k *sink) remember() {
	p, in, path := k.peer, k.rx.Inbound(), k.rx.Path()
	record := p.records[path].Load()
	if record == nil {
		if k.queued == 0 || p.own {
			return
		}
		var s *sequence
		s, record = p.node.sequences.keep(addressPair{p.local.addr, p.remote}, &p.records, path, in.Generation(), p.node.now())
		p.sequence.Store(s)
		p.proved()
	}
	record.Next[path].Store(in.Next())
	if k.queued > 0 {
		in.Took(k.queued)
		record.Taken.Add(k.queued)
	}
}

// Whole is for driver.Sink.
func (k *sink) Whole(owned *buf.Buf) {
	if b, ok := owned.Owner().(interface{ Whole() }); ok { // memory of an owner's, which counts what has begun
		b.Whole()
	}
}

// Take takes a message for a socket.
func (k *sink) Take(h *wire.Header, payload []byte, owned *buf.Buf) driver.Verdict {
	p := k.peer
	var about wire.Memory
	if h.Extensions[0] != wire.ExtNone && k.rx.Caps().Operations {
		about = k.memory(h)
	}
	s := k.cur
	if s == nil || s.port != h.Dport || s.q.closed {
		k.Leave()
		if s = k.enter(h.Dport); s == nil {
			k.noSock++
			k.wait.waiting = false
			return driver.NoPort
		}
	}
	n := len(payload)
	if (k.curBytes+n > k.roomBytes || k.curCount >= k.roomCount) && (k.curCount > 0 || s.q.count.Load() > 0) && !k.reserved(s, n) {
		if k.waits(s, n) {
			return driver.Waits
		}
		k.overrun(s)
		return driver.Dropped
	}
	it := recvItem{from: &p.remote, peer: p.index, seq: h.Sequence, length: uint32(n), sport: h.Sport, path: uint8(k.rx.Path())}
	if owned != nil {
		it.buf = owned
	} else if n > 0 {
		b, off := s.q.placeLocked(p.node.pool, payload)
		it.buf, it.off = b, uint32(off)
	}
	if about.HasDest {
		it.dest = true
		s.q.inDest = append(s.q.inDest, Cookie(about.Dest))
	}
	s.q.pushLocked(it)
	s.owner.placedLocked(it.buf)
	k.curBytes += n
	k.curCount++
	k.first = min(k.first, h.Sequence)
	k.wait.waiting = false
	if s.keeps {
		return driver.TakenUnsure
	}
	return driver.Taken
}

// memory reads what a message says about memory, and retires the region that
// the operation before it has used, if it was for one use.
func (k *sink) memory(h *wire.Header) wire.Memory {
	about := wire.ParseMemory(&h.Extensions)
	if !about.HasUsed {
		return about
	}
	s := k.peer.local.lookup(h.Dport)
	if s == nil || !s.once(mr.Key(about.Used)) {
		return about
	}
	k.Leave() // nobody may wait for an invalidation while holding a queue's lock
	if k.reader == nil {
		k.reader = s.reader("receiver of " + k.peer.remote.String())
	}
	s.retire(k.reader, mr.Key(about.Used), k.peer.remote)
	return about
}

// Acquainted is for driver.Sink.
func (k *sink) Acquainted() bool { return k.peer.acquainted() }

// Place is for driver.Sink: a large payload for an attached application is
// received straight into its memory. The parser asks only where earlier messages of the link
// have had a sixteenth of the payload. Of strangers no more than a part of that memory
// is taken by what they have begun.
func (k *sink) Place(h *wire.Header) *buf.Buf {
	s := k.peer.local.lookup(h.Dport)
	if s == nil || h.Length <= slabInline {
		return nil
	}
	return s.owner.place(int(h.Length), !k.peer.acquainted())
}

// enter makes the socket bound to port the one at hand, nil if there is none.
func (k *sink) enter(port uint16) *nodeSocket {
	s := k.peer.local.lookup(port)
	if s == nil {
		if s = k.peer.local.keeper(k.peer.node, port); s == nil {
			return nil
		}
	}
	s.q.mu.Lock()
	if s.q.closed {
		s.q.mu.Unlock()
		if s.keeps { // the port's next owner has what the keeper had
			return k.enter(port)
		}
		return nil
	}
	k.cur = s
	if k.rx.Caps().Queues && k.arrived != s.owner.queue() {
		k.peer.node.counters.recvMisplaced.Add(1)
		s.owner.home(k.rx.Link(), s.port)
	}
	hard := s.bound()
	k.roomBytes = int(hard - s.q.bytes.Load())
	k.roomCount = int(hard/itemCost - s.q.count.Load())
	return s
}

// Queue is for driver.Sink.
func (k *sink) Queue(queue uint32) {
	k.Leave()
	k.arrived = queue
}

// Leave ends the run for the socket at hand.
func (k *sink) Leave() {
	s := k.cur
	if s == nil {
		return
	}
	k.cur = nil
	if k.curCount > 0 {
		if !k.peer.told.Load() {
			k.peer.told.Store(true)
		}
		s.owner.heard(k.peer.index)
		s.owner.received(int64(k.curBytes), int64(k.curCount))
		s.q.bytes.Add(int64(k.curBytes))
		if s.q.count.Add(int64(k.curCount)) == int64(k.curCount) || len(k.touched) == 0 || k.touched[len(k.touched)-1] != s {
			k.touched = append(k.touched, s)
		}
		k.queued += uint64(k.curCount)
		k.curBytes, k.curCount = 0, 0
	}
	s.q.mu.Unlock()
}

func (k *sink) overrun(s *nodeSocket) {
	k.peer.node.counters.recvDropOverrun.Add(1)
	if !s.dropping.Swap(true) {
		k.peer.log.Warn("receive buffer overrun, dropping", zap.Uint16("port", s.port), zap.Int64("queued", s.q.bytes.Load()))
	}
}

// End wakes every socket that received something, once.
func (k *sink) End() {
	k.Leave()
	k.remember()
	for i, s := range k.touched {
		if !s.owner.deliver() {
			k.undelivered(s)
		}
		s.congest()
		if n := s.readers.n.Load(); n > 0 {
			s.readers.wake(int(min(int64(n), max(1, s.q.count.Load()))))
		}
		k.touched[i] = nil
	}
	k.touched = k.touched[:0]
	c := &k.peer.node.counters
	add := func(a *atomic.Uint64, n *uint64) {
		if *n > 0 {
			a.Add(*n)
			*n = 0
		}
	}
	add(&c.recvQueued, &k.queued)
	add(&c.recvDropNoSock, &k.noSock)
	add(&c.recvDropOld, &k.rx.Old)
	add(&c.recvRefused, &k.rx.Refused)
}

// Closed is the end of a link of which everything is taken.
func (k *sink) Closed() {
	if k.reader != nil {
		k.reader.Close()
	}
	if k.rx.Caps().Reserves {
		k.peer.local.leave(k.rx.Link())
	}
}
