package rds

import (
	"math"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport"
)

// receiver is the transport.Handler of one link: it applies the sequence rule,
// gives control messages to the core, and puts datagrams on their sockets'
// queues. It runs on the transport's event loop.
type receiver struct {
	peer   *peer
	path   int
	id     conn.LinkID
	io     *pathIO
	proved bool

	sorter   transport.Link // the link, if applications have queues on it
	refuser  transport.Link // the link, if its peer can be told of refused messages
	arrived  uint32         // number of the queue that messages come by
	reserver transport.Link // the link, if its peer grants octets
	ignored  bool           // the peer has sent beyond what it was granted
	operator bool           // the link carries operations, and extensions about memory
	reader   *mr.Reader     // reader of the regions to be retired; nil before there are any

	cur       *nodeSocket // destination of the run of messages at hand; its q.mu is held
	curBytes  int
	curCount  int
	roomBytes int // payload bytes that fit below the hard bound of the socket at hand
	roomCount int // messages that fit below the hard bound of the socket at hand
	pause     pause
	doubts    doubts
	touched   []*nodeSocket // sockets that got something in this burst, woken at its end
	kick      [conn.MaxPaths]bool
	kicked    bool

	first uint64 // lowest number of the messages that this burst has queued

	queued, noSock, old, refused uint64 // counters of this burst
}

// Begin starts a burst.
func (r *receiver) Begin() {
	p := r.peer
	p.arrivals.Add(1)
	r.first = math.MaxUint64
	if r.proved {
		if r.io.asked.Load() {
			r.heard()
		}
		return
	}
	r.proved = true
	r.io.in.Begin()
	p.mu.Lock()
	if g, ok := p.core.Stated(r.path); ok {
		r.io.in.State(g)
	}
	r.io.refused.begin(r.io.in.Generation())
	r.use()
	if r.io.id == r.id {
		r.io.history.proved()
	}
	p.core.Proved(p.node.now(), r.path)
	p.armLocked()
	p.unlock(nil)
}

// heard tells the core that the link, which is being asked whether it lives, brings something.
func (r *receiver) heard() {
	p := r.peer
	p.mu.Lock()
	p.core.Heard(p.node.now(), r.path)
	p.mu.Unlock()
}

// state follows the peer's statement of its generation on the link.
func (r *receiver) state(generation uint32) {
	in := &r.io.in
	last := in.Generation()
	in.State(generation)
	if now := in.Generation(); now != last {
		r.io.refused.sync(now)
		r.use()
		r.restore(last)
	}
}

// use has the path's record be that of the generation at hand, if there is one.
func (r *receiver) use() {
	p := r.peer
	s := p.sequence.Load()
	if s == nil {
		return
	}
	if record := p.node.sequences.use(s, &p.records, r.path, r.io.in.Generation(), p.node.now()); record != nil {
		record.Next[r.path].Store(r.io.in.Next())
	}
}

// restore has the record of another generation say what the path has received of that one:
// the link, which was taken for one of that generation, has changed the record.
func (r *receiver) restore(generation uint32) {
	p := r.peer
	record := p.node.sequences.other(p.sequence.Load(), generation)
	if record == nil {
		return
	}
	next := uint64(0)
	r.io.in.Others(func(o conn.Received) {
		if o.Generation == generation {
			next = o.Next
		}
	})
	record.Next[r.path].Store(next)
}

// remember stores what was received, before applications have it: neither a later peer of
// the address nor a successor shall take any of it twice.
func (r *receiver) remember() {
	p := r.peer
	next := r.io.in.Next()
	r.io.nextRX.Store(next)
	record := p.records[r.path].Load()
	if record == nil {
		if r.queued == 0 || p.own {
			return
		}
		var s *sequence
		s, record = p.node.sequences.keep(addressPair{p.local.addr, p.remote}, &p.records, r.path, r.io.in.Generation(), p.node.now())
		p.sequence.Store(s)
		p.proved()
	}
	record.Next[r.path].Store(next)
	if r.queued > 0 {
		r.io.in.Took(r.queued)
		record.Taken.Add(r.queued)
	}
}

// Message takes one message, or keeps it for later.
func (r *receiver) Message(h *wire.Header, payload []byte, owned *buf.Buf) {
	if r.ignored { // the link is ending
		if owned != nil {
			owned.Release()
		}
		return
	}
	if owned != nil {
		whole(owned)
	}
	if (h.Retransmitted() || len(r.doubts.list) > 0) && r.doubtful(h, payload, owned) {
		return
	}
	r.take(h, payload, owned)
}

// take takes a message whose turn it is, or parks it.
func (r *receiver) take(h *wire.Header, payload []byte, owned *buf.Buf) {
	first := r.pause.parked.Len() == 0
	if !first || !r.message(h, payload, owned, false) {
		r.park(h, payload, owned, first)
	}
}

// message takes one message, to which the sequence rule has been applied if accepted is
// set. It returns false, having applied the rule and kept nothing, if the message has to
// wait.
func (r *receiver) message(h *wire.Header, payload []byte, owned *buf.Buf, accepted bool) (taken bool) {
	p := r.peer
	if r.io.refused.pending && !h.IsCongestion() {
		r.io.refused.passed(h.Sequence)
	}
	if !accepted && !h.IsCongestion() && !r.io.in.Accept(h) {
		r.old++
		r.again(h)
		if owned != nil {
			owned.Release()
		}
		return true
	}
	if p.core.IsControl(h) {
		r.control(h, payload)
		if owned != nil {
			owned.Release()
		}
		return true
	}
	var about wire.Memory
	if h.Extensions[0] != wire.ExtNone && r.operator {
		about = r.memory(h)
	}
	s := r.cur
	if s == nil || s.port != h.Dport || s.q.closed {
		r.leave()
		if s = r.enter(h.Dport); s == nil {
			r.noSock++
			r.refuse(h, transport.RefusedPort)
			if owned != nil {
				owned.Release()
			}
			return true
		}
	}
	n := len(payload)
	if (r.curBytes+n > r.roomBytes || r.curCount >= r.roomCount) && (r.curCount > 0 || s.q.count.Load() > 0) && !r.reserved(s, n) {
		if r.waits(s, n) {
			return false
		}
		r.overrun(s)
		r.refuse(h, transport.RefusedUnknown) // RefusedUnknown, because success may not be claimed
		if owned != nil {
			owned.Release()
		}
		return true
	}
	it := recvItem{from: &p.remote, peer: p.index, seq: h.Sequence, length: uint32(n), sport: h.Sport, path: uint8(r.path)}
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
	if s.app != nil {
		s.app.placedLocked(it.buf)
	}
	r.curBytes += n
	r.curCount++
	r.first = min(r.first, h.Sequence)
	if s.keeps {
		r.refuse(h, transport.RefusedUnknown)
	}
	return true
}

// memory reads what a message says about memory, and retires the region that
// the operation before it has used, if it was for one use.
func (r *receiver) memory(h *wire.Header) wire.Memory {
	about := wire.ParseMemory(&h.Extensions)
	if !about.HasUsed {
		return about
	}
	s := r.peer.local.lookup(h.Dport)
	if s == nil || !s.once(mr.Key(about.Used)) {
		return about
	}
	r.leave() // nobody may wait for an invalidation while holding a queue's lock
	if r.reader == nil {
		r.reader = s.reader("receiver of " + r.peer.remote.String())
	}
	s.retire(r.reader, mr.Key(about.Used), r.peer.remote)
	return about
}

// Acquainted is for transport.Handler.
func (r *receiver) Acquainted() bool { return r.peer.acquainted() }

// Place is for transport.Handler: a large payload for an attached application is
// received straight into its memory. The parser asks only where earlier messages of the link
// have had a sixteenth of the payload. Of strangers no more than a part of that memory
// is taken by what they have begun.
func (r *receiver) Place(h *wire.Header) *buf.Buf {
	s := r.peer.local.lookup(h.Dport)
	if s == nil || s.app == nil || h.Length <= slabInline {
		return nil
	}
	return s.app.begin(int(h.Length), !r.peer.acquainted())
}

// enter makes the socket bound to port the one at hand, nil if there is none.
func (r *receiver) enter(port uint16) *nodeSocket {
	s := r.peer.local.lookup(port)
	if s == nil {
		if s = r.peer.local.keeper(r.peer.node, port); s == nil {
			return nil
		}
	}
	s.q.mu.Lock()
	if s.q.closed {
		s.q.mu.Unlock()
		if s.keeps { // the port's next owner has what the keeper had
			return r.enter(port)
		}
		return nil
	}
	r.cur = s
	if r.sorter != nil && r.arrived != queueOf(s) {
		r.misplaced(s)
	}
	hard := s.bound()
	r.roomBytes = int(hard - s.q.bytes.Load())
	r.roomCount = int(hard/itemCost - s.q.count.Load())
	return s
}

// misplaced has the peer told whose a socket's port is.
func (r *receiver) misplaced(s *nodeSocket) {
	r.peer.node.counters.recvMisplaced.Add(1)
	if s.app != nil && s.app.sess.queue.number != 0 {
		s.app.sess.queue.misplaced(s.app.sess, r.sorter, s.port)
	} else {
		r.sorter.Home(s.port, transport.FirstQueue)
	}
}

// Queue is for transport.Handler.
func (r *receiver) Queue(queue uint32) {
	r.leave()
	r.arrived = queue
}

// Hold is for transport.Handler: applications of the peer take no messages now.
func (r *receiver) Hold(ports []uint16, on bool) {
	r.leave()
	r.peer.hold(r.path, r.id, ports, on)
}

// leave ends the run for the socket at hand.
func (r *receiver) leave() {
	s := r.cur
	if s == nil {
		return
	}
	r.cur = nil
	if r.curCount > 0 {
		if !r.peer.told.Load() {
			r.peer.told.Store(true)
		}
		if s.app != nil {
			s.app.sess.heard.add(r.peer.index)
			s.app.received(int64(r.curBytes), int64(r.curCount))
		}
		s.q.bytes.Add(int64(r.curBytes))
		if s.q.count.Add(int64(r.curCount)) == int64(r.curCount) || len(r.touched) == 0 || r.touched[len(r.touched)-1] != s {
			r.touched = append(r.touched, s)
		}
		r.queued += uint64(r.curCount)
		r.curBytes, r.curCount = 0, 0
	}
	s.q.mu.Unlock()
}

func (r *receiver) overrun(s *nodeSocket) {
	r.peer.node.counters.recvDropOverrun.Add(1)
	if !s.dropping.Swap(true) {
		r.peer.log.Warn("receive buffer overrun, dropping", zap.Uint16("port", s.port), zap.Int64("queued", s.q.bytes.Load()))
	}
}

// control gives a message to the core.
func (r *receiver) control(h *wire.Header, payload []byte) {
	r.leave()
	p := r.peer
	p.mu.Lock()
	gen, paths := p.core.PeerGeneration(), p.core.Paths()
	p.core.HandleControl(p.node.now(), r.path, h, payload)
	generation, stated := p.core.Stated(r.path)
	p.epoch.Store(p.core.Epoch())
	p.generation.Store(p.core.PeerGeneration())
	p.partingLocked()
	newGen, newPaths := p.core.PeerGeneration(), p.core.Paths()
	p.armLocked()
	p.unlock(&r.kick)
	r.kicked = true
	if stated {
		r.state(generation)
	}
	if gen != newGen || paths != newPaths {
		p.log.Info("handshake", zap.Int("paths", newPaths), zap.Uint32("generation", newGen))
	}
	p.met(gen, newGen)
	if h.IsCongestion() {
		p.node.mapNews()
	}
}

// End wakes every socket that received something, once, and answers pings.
func (r *receiver) End() {
	r.leave()
	r.remember()
	for i, s := range r.touched {
		if s.app != nil && !s.app.deliver() {
			r.undelivered(s)
		}
		s.congest()
		if n := s.readers.n.Load(); n > 0 {
			s.readers.wake(int(min(int64(n), max(1, s.q.count.Load()))))
		}
		r.touched[i] = nil
	}
	r.touched = r.touched[:0]
	c := &r.peer.node.counters
	add := func(a *atomic.Uint64, n *uint64) {
		if *n > 0 {
			a.Add(*n)
			*n = 0
		}
	}
	add(&c.recvQueued, &r.queued)
	add(&c.recvDropNoSock, &r.noSock)
	add(&c.recvDropOld, &r.old)
	add(&c.recvRefused, &r.refused)
	if r.kicked {
		r.kicked = false
		for i, k := range r.kick {
			if k {
				r.kick[i] = false
				r.peer.transmit(i)
			}
		}
	}
}

// Acked settles what the peer has acknowledged.
func (r *receiver) Acked() { r.peer.acked(r.path, r.id) }

// Writable continues a write that found the link full.
func (r *receiver) Writable() { r.peer.writable(r.path, r.id) }

// Closed is the link's end.
func (r *receiver) Closed(cause error, acked uint64) {
	if len(r.doubts.list) > 0 {
		r.Begin()
		r.unstated()
		r.End()
	}
	if r.pause.on {
		r.finish(cause, acked)
		return
	}
	r.closed(cause, acked)
}

// closed is the end of a link of which everything is taken.
func (r *receiver) closed(cause error, acked uint64) {
	if r.reader != nil {
		r.reader.Close()
	}
	if r.sorter != nil {
		r.peer.node.forgetSorter(r.sorter)
	}
	if r.reserver != nil {
		r.peer.local.leave(r.reserver)
	}
	r.peer.ended(r.path, r.id, cause, acked)
}
