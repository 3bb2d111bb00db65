package node

import (
	"math"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/driver"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/transport"
)

// sink puts the datagrams that a link brings on their sockets' queues. It runs on the
// transport's event loop.
type sink struct {
	peer *Peer
	rx   *driver.Receiver

	arrived uint32 // number of the queue that messages come by

	cur       *Socket // destination of the run of messages at hand; its q.mu is held
	entered   bool    // the socket's owner is to hear of the run's end (Owner.Left)
	hands     bool    // the socket's owner takes messages of the run itself (Owner.Hand)
	handed    int     // messages of the run that the owner has taken
	next      uint64  // the path's receive sequence behind the last message that the owner has taken
	curBytes  int     // payload bytes of the run that were queued
	curCount  int     // messages of the run that were queued
	roomBytes int     // payload bytes that fit below the hard bound of the socket at hand
	roomCount int     // messages that fit below the hard bound of the socket at hand
	wait      roomWait
	touched   []*Socket // sockets that got something in this burst, woken at its end

	first uint64 // lowest number of the messages that this burst has queued

	taken          uint64 // messages that sockets have got, or their owners, and that are not remembered
	queued, noSock uint64 // counters of this burst
}

var _ driver.Sink = (*sink)(nil)

func newSink(p *Peer, r *driver.Receiver) *sink {
	k := &sink{peer: p, rx: r, arrived: transport.FirstQueue, wait: roomWait{wake: r.Wake, parked: r.Parked}}
	if r.Caps().Reserves {
		p.Local.join(r.Link())
	}
	return k
}

// Begin starts a burst.
func (k *sink) Begin() { k.first = math.MaxUint64 }

// Proved has the path's record be that of the peer's generation.
func (k *sink) Proved() { k.use() }

// Stated follows the peer's statement of another generation. What has come by the link was
// remembered as of the generation that it was taken for.
func (k *sink) Stated(before uint32) {
	k.use()
	if in := k.rx.Inbound(); in.Taken() > 0 && !k.peer.own && k.peer.records[k.rx.Path()].Load() == nil {
		k.keep(in.Next(), in.Taken())
	}
	k.restore(before)
}

// use has the path's record be that of the generation at hand, if there is one.
func (k *sink) use() {
	p, in := k.peer, k.rx.Inbound()
	s := p.sequence.Load()
	if s == nil {
		return
	}
	if record := p.Node.Sequences.use(s, &p.records, k.rx.Path(), in.Generation(), time.Now()); record != nil {
		record.Take(k.rx.Path(), in.Next(), 0)
	}
}

// restore has the record of another generation say what the path has received of that one:
// the link, which was taken for one of that generation, has changed the record.
func (k *sink) restore(generation uint32) {
	next := uint64(0)
	k.rx.Inbound().Others(func(o conn.Received) {
		if o.Generation == generation {
			next = o.Next
		}
	})
	p := k.peer
	p.Node.Sequences.restore(p.sequence.Load(), &p.records, k.rx.Path(), generation, next)
}

// remember stores what was received, all before the message next, before applications have
// it: neither a later peer of the address nor a successor shall take any of it twice.
func (k *sink) remember(next uint64) {
	p, in, path := k.peer, k.rx.Inbound(), k.rx.Path()
	record := p.records[path].Load()
	if record == nil {
		if k.taken == 0 || p.own {
			k.taken = 0
			return
		}
		in.Took(k.taken)
		k.keep(next, k.taken)
		k.taken = 0
		return
	}
	record.Take(path, next, k.taken)
	if k.taken > 0 {
		in.Took(k.taken)
		k.taken = 0
	}
}

// keep makes the record of the generation at hand, of which taken messages were received, all
// before the message next.
func (k *sink) keep(next, taken uint64) {
	p := k.peer
	has := conn.Received{Generation: k.rx.Inbound().Generation(), Next: next, Taken: taken}
	s, _ := p.Node.Sequences.keep(addressPair{p.Local.Addr, p.Remote}, &p.records, k.rx.Path(), has, time.Now())
	p.sequence.Store(s)
	p.Proved()
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
	if int(h.Length) > len(payload) {
		k.tooLong(h)
		return driver.TooLong
	}
	var about wire.Memory
	if h.Extensions[0] != wire.ExtNone && k.rx.Caps().Operations {
		about = k.memory(h)
	}
	s := k.cur
	if s == nil || s.Port != h.Dport || s.Queue.Closed {
		k.Leave()
		if s = k.enter(h.Dport); s == nil {
			k.noSock++
			k.wait.waiting = false
			return driver.NoPort
		}
	}
	n := len(payload)
	if (k.curBytes+n > k.roomBytes || k.curCount >= k.roomCount) && (k.curCount > 0 || s.Queue.Count.Load() > 0) && !k.reserved(s, n) {
		if k.waits(s, n) {
			return driver.Waits
		}
		k.overrun(s)
		return driver.Dropped
	}
	it := socket.Item{From: &p.Remote, Peer: p.Index, Seq: h.Sequence, Length: uint32(n), Sport: h.Sport, Path: uint8(k.rx.Path())}
	if owned != nil {
		it.Buf = owned
	} else if n > 0 {
		b, off := s.Queue.PlaceLocked(p.Node.Pool, payload)
		it.Buf, it.Off = b, uint32(off)
	}
	it.Dest = about.HasDest
	k.wait.waiting = false
	if k.hands {
		if s.Owner.Hand(it, datagram.Cookie(about.Dest)) {
			k.handed++
			k.next = k.rx.Inbound().Next()
			if owned != nil { // a message with its own buffer is a run of its own: the next one may be read for long
				k.Leave()
			}
			return driver.Taken
		}
		k.hands = false // what follows goes to the queue, too: in order
	}
	if it.Dest {
		s.Queue.InDest = append(s.Queue.InDest, datagram.Cookie(about.Dest))
	}
	s.Queue.PushLocked(it)
	s.Owner.PlacedLocked(it.Buf)
	k.curBytes += n
	k.curCount++
	k.first = min(k.first, h.Sequence)
	if s.keeps {
		return driver.TakenUnsure
	}
	return driver.Taken
}

// tooLong counts a message that is longer than the node takes, and logs the first of a peer's. The peer, if it is one of ours, was told
// how long messages may be, so that few come: those of its last moments before it knew, or before we
// came back with another limit.
func (k *sink) tooLong(h *wire.Header) {
	n := k.peer.Node
	n.Counters.recvDropTooLong.Add(1)
	k.Leave() // a log may be slow
	if k.peer.sentTooLong.Swap(true) {
		return
	}
	k.peer.log.Warn("message longer than max_message dropped", zap.Uint32("bytes", h.Length), zap.Int("max_message", n.Config.MaxMessage),
		zap.Uint16("from port", h.Sport), zap.Uint16("to port", h.Dport))
}

// memory reads what a message says about memory. If the operation before it is on a
// use-once region then that has ended when memory returns.
func (k *sink) memory(h *wire.Header) wire.Memory {
	about := wire.ParseMemory(&h.Extensions)
	if !about.HasUsed {
		return about
	}
	s := k.peer.Local.lookup(h.Dport)
	if s == nil || !s.once(mr.Key(about.Used)) {
		return about
	}
	k.Leave() // nobody may wait for an invalidation while holding a queue's lock
	s.retire(mr.Key(about.Used), k.peer.Remote)
	return about
}

// Acquainted is for driver.Sink.
func (k *sink) Acquainted() bool { return k.peer.acquainted() }

// Place is for driver.Sink: a large payload for an attached application is
// received straight into its memory. The parser asks only where earlier messages of the link
// have had a sixteenth of the payload. Of strangers no more than a part of that memory
// is taken by what they have begun.
func (k *sink) Place(h *wire.Header) *buf.Buf {
	s := k.peer.Local.lookup(h.Dport)
	if s == nil || h.Length <= socket.SlabInline {
		return nil
	}
	k.Leave() // nobody waits for what is to be read
	return s.Owner.Place(int(h.Length), !k.peer.acquainted())
}

// enter makes the socket bound to port the one at hand, nil if there is none.
func (k *sink) enter(port uint16) *Socket {
	s := k.peer.Local.lookup(port)
	if s == nil {
		if s = k.peer.Local.keeper(k.peer.Node, port); s == nil {
			return nil
		}
	}
	k.entered = s.Owner.Enter()
	s.Queue.Mu.Lock()
	if s.Queue.Closed {
		s.Queue.Mu.Unlock()
		k.left(s)
		if s.keeps { // the port's next owner has what the keeper had
			return k.enter(port)
		}
		return nil
	}
	k.cur = s
	k.hands = k.entered && s.Queue.Count.Load() == 0
	if k.rx.Caps().Queues && k.arrived != s.Owner.ReceiveQueue() {
		k.peer.Node.Counters.recvMisplaced.Add(1)
		s.Owner.Home(k.rx.Link(), s.Port)
	}
	hard := s.bound()
	k.roomBytes = int(hard - s.Queue.Bytes.Load())
	k.roomCount = int(hard/socket.ItemCost - s.Queue.Count.Load())
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
	if n := k.curCount + k.handed; n > 0 {
		if !k.peer.Told.Load() {
			k.peer.Told.Store(true)
		}
		s.Owner.Heard(k.peer.Index)
		k.taken += uint64(n)
		k.queued += uint64(n)
		again := len(k.touched) > 0 && k.touched[len(k.touched)-1] == s
		if k.curCount > 0 {
			s.Owner.Received(int64(k.curBytes), int64(k.curCount))
			s.Queue.Bytes.Add(int64(k.curBytes))
			if s.Queue.Count.Add(int64(k.curCount)) == int64(k.curCount) {
				again = false
			}
			k.curBytes, k.curCount = 0, 0
		}
		if !again {
			k.touched = append(k.touched, s)
		}
	}
	s.Queue.Mu.Unlock()
	k.left(s)
}

// left ends the run for the owner, who may show its application what was handed over.
func (k *sink) left(s *Socket) {
	if !k.entered {
		return
	}
	if k.handed > 0 {
		k.remember(k.next) // before anything of it is shown
		k.handed = 0
	}
	s.Owner.Left()
	k.entered, k.hands = false, false
}

func (k *sink) overrun(s *Socket) {
	k.peer.Node.Counters.recvDropOverrun.Add(1)
	if !s.dropping.Swap(true) {
		k.peer.log.Warn("receive buffer overrun, dropping", zap.Uint16("port", s.Port), zap.Int64("queued", s.Queue.Bytes.Load()))
	}
}

// End wakes every socket that received something, once.
func (k *sink) End() {
	k.Leave()
	k.remember(k.rx.Inbound().Next())
	for i, s := range k.touched {
		if !s.Owner.Deliver() {
			k.undelivered(s)
		}
		s.Congest()
		s.WakeReaders()
		k.touched[i] = nil
	}
	k.touched = k.touched[:0]
	c := &k.peer.Node.Counters
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
	if k.rx.Caps().Reserves {
		k.peer.Local.leave(k.rx.Link())
	}
}
