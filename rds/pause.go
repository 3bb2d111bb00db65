package rds

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/fifo"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

// A message that has come and has no room in its socket's receive queue stops the link
// that brought it, if the link can pause (transport.Caps): a Linux peer sends its whole
// queue whatever our congestion map says, and TCP has acknowledged the message. The
// receiver keeps the message, and what the link had read behind it, until the socket
// has room, is closed, or Config.ReceiveStall is over; the kernel and the peer keep the
// rest. All other messages of that path wait as long: for other sockets, maps, probes.

// pause is what a receiver needs to stop its link and to go on. But for what waiters
// guards it belongs to the goroutine that calls the handler.
type pause struct {
	link   transport.Link // nil: the link cannot pause
	on     bool           // the link is paused
	parked fifo.Queue[parkedArrival]
	bytes  atomic.Int64 // payload of parked: other goroutines read it
	slab   *buf.Buf     // collects small payloads of parked messages
	used   int          // bytes of slab in use

	// The wait of the first message in parked:
	waiting bool        // the first parked message waits for room
	since   time.Time   // when the wait began
	sock    *nodeSocket // the socket that has no room
	need    int         // payload bytes that the socket must have room for
	listed  bool        // the receiver is in localAddr.waiters; guarded by waiters.mu
	timer   *time.Timer

	over  atomic.Bool   // the link has ended: whoever wakes the receiver sends to woken
	woken chan struct{} // capacity 1; set before over
}

// parkedArrival is a message that came while its link was being paused. Small payloads
// are together in slabs.
type parkedArrival struct {
	h        wire.Header
	buf      *buf.Buf // nil for an empty payload
	off      int      // offset of the payload in buf
	owned    bool     // buf holds nothing but the payload, and passes to the socket as it is
	accepted bool     // the sequence rule has been applied
}

// mustWait tells until when a message that has waited since then may keep the link from
// being read for want of room in s: the zero time if it does not wait. For a port that is
// expected s is its keeper.
func (r *receiver) mustWait(s *nodeSocket, since time.Time) (until time.Time) {
	switch {
	case r.pause.link == nil:
		return time.Time{}
	case s.stuck.Load() && !r.pause.waiting:
		return time.Time{} // another message has already waited for ReceiveStall
	}
	return since.Add(r.peer.node.cfg.ReceiveStall)
}

// waits tells whether the message at hand, of n bytes, waits for room in s, and has the
// receiver woken when there may be some.
func (r *receiver) waits(s *nodeSocket, n int) bool {
	r.leave()
	p := &r.pause
	now := r.peer.node.now()
	if !p.waiting {
		p.since = now
	}
	until := r.mustWait(s, p.since)
	if !now.Before(until) {
		if p.waiting {
			r.giveUp(s)
		}
		p.waiting = false
		return false
	}
	p.waiting, p.sock, p.need = true, s, n
	r.peer.local.waiters.add(r)
	r.io.paused.Store(&pausedFor{p.since, s})
	if p.timer == nil {
		p.timer = time.AfterFunc(until.Sub(now), r.wake)
	} else {
		p.timer.Reset(until.Sub(now))
	}
	if s.q.isClosed() || s.roomFor(n) {
		r.wake() // room came before others could see that the receiver waits
	}
	if !p.on {
		p.on = true
		p.link.Pause()
		r.peer.node.counters.recvPaused.Add(1)
		r.peer.paused(r.path, r.id, true)
	}
	return true
}

// giveUp has messages for s dropped until s has room.
func (r *receiver) giveUp(s *nodeSocket) {
	s.stuck.Store(true)
	if !s.dropping.Swap(true) {
		r.peer.log.Warn("a socket takes nothing, messages for it are dropped", zap.Uint16("port", s.port),
			zap.Int64("queued", s.q.bytes.Load()), zap.Duration("after", r.peer.node.cfg.ReceiveStall))
	}
}

// park keeps a message for later.
func (r *receiver) park(h *wire.Header, payload []byte, owned *buf.Buf, accepted bool) {
	p := &r.pause
	it := parkedArrival{h: *h, buf: owned, owned: owned != nil, accepted: accepted}
	switch n := len(payload); {
	case owned != nil || n == 0:
	case n > slabInline:
		it.buf, it.owned = r.peer.node.pool.Get(n), true
		copy(it.buf.B, payload)
	default:
		if p.slab == nil || p.used+n > len(p.slab.B) {
			p.dropSlab()
			p.slab = r.peer.node.pool.Get(maxSlab)
		}
		it.buf, it.off = p.slab, p.used
		p.slab.Retain(1)
		p.used += copy(p.slab.B[p.used:], payload)
	}
	p.bytes.Add(int64(len(payload)))
	p.parked.Push(it)
}

func (p *pause) dropSlab() {
	if p.slab != nil {
		p.slab.Release()
		p.slab, p.used = nil, 0
	}
}

// wake has the link go on, or try to. Any goroutine may call it.
func (r *receiver) wake() {
	if !r.pause.over.Load() {
		r.pause.link.Resume()
		return
	}
	select {
	case r.pause.woken <- struct{}{}:
	default:
	}
}

// Resumed is for transport.Handler: it takes what is parked, as far as it has room.
func (r *receiver) Resumed() (read bool) {
	p := &r.pause
	if !p.on {
		return true
	}
	r.peer.local.waiters.remove(r)
	p.timer.Stop()
	r.Begin()
	for p.parked.Len() > 0 {
		it := &p.parked.All()[0]
		var payload []byte
		var owned *buf.Buf
		if it.buf != nil {
			payload = it.buf.B[it.off : it.off+int(it.h.Length)]
		}
		if it.owned {
			owned = it.buf
		}
		if !r.message(&it.h, payload, owned, it.accepted) {
			it.accepted = true
			r.End()
			return false
		}
		if it.buf != nil && !it.owned {
			it.buf.Release()
		}
		p.waiting = false
		p.bytes.Add(-int64(len(payload)))
		p.parked.Drop(1)
	}
	r.End()
	p.parked.Shrink(0)
	p.dropSlab()
	p.on, p.sock = false, nil
	r.io.paused.Store(nil)
	r.peer.paused(r.path, r.id, false)
	return true
}

// finish takes what is parked after the link's end, and then reports the end: what
// comes on the path's next link comes after it.
func (r *receiver) finish(cause error, acked uint64) {
	p := &r.pause
	p.woken = make(chan struct{}, 1)
	p.over.Store(true)
	n := r.peer.node
	n.work.Add(1)
	go func() {
		defer n.work.Done()
		for !r.Resumed() {
			<-p.woken // woken at the latest when the socket or the node is closed
		}
		r.closed(cause, acked)
	}()
}

// pausedFor is why a path is not read, for reports.
type pausedFor struct {
	since time.Time
	sock  *nodeSocket
}

// paused tells the core that path i's link is not read for now, or is again.
func (p *peer) paused(i int, link conn.LinkID, on bool) {
	p.mu.Lock()
	p.core.Paused(i, link, on)
	p.unlock(nil)
}

// roomStep is how much room a full socket makes before links go on, and an eighth of
// its bound at most: each time costs some system calls.
const roomStep = 1 << 20

// bound is what s holds at most: payload, and itemCost for each message.
func (s *nodeSocket) bound() int64 { return s.rcvbuf.Load() + int64(s.node.cfg.ReceiveOverrun) }

// roomFor tells whether s has room for n bytes, and some more, or is empty.
func (s *nodeSocket) roomFor(n int) bool { return s.room(n) > 0 || s.q.count.Load() == 0 }

// room is how many bytes s has room for, 0 if that is too little for n bytes.
func (s *nodeSocket) room(n int) int64 {
	bound := s.bound()
	step := min(bound/8, roomStep)
	bytes := bound - s.q.bytes.Load()
	count := bound/itemCost - s.q.count.Load()
	if bytes < max(int64(n), step) || count < max(1, step/itemCost) {
		return 0
	}
	return bytes
}

// spare follows the taking of messages: links that wait for room go on.
func (s *nodeSocket) spare() {
	if s.stuck.Load() && s.roomFor(0) && s.stuck.Swap(false) {
		s.dropping.Store(false)
	}
	if s.awaited.Load() > 0 {
		s.la.waiters.spare(s)
	}
}

// waiters are the receivers of an address whose links wait for a socket, the one that
// has waited longest first.
type waiters struct {
	mu   sync.Mutex
	list []*receiver
}

func (w *waiters) add(r *receiver) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i, _ := slices.BinarySearchFunc(w.list, r, func(a, b *receiver) int {
		return cmp.Or(a.pause.since.Compare(b.pause.since), -1)
	})
	w.list = slices.Insert(w.list, i, r)
	r.pause.listed = true
	r.pause.sock.awaited.Add(1)
}

func (w *waiters) remove(r *receiver) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.pause.listed {
		w.list = slices.DeleteFunc(w.list, func(q *receiver) bool { return q == r })
		w.unlist(r)
	}
}

func (w *waiters) unlist(r *receiver) {
	r.pause.listed = false
	r.pause.sock.awaited.Add(-1)
}

// spare wakes as many of those that wait for s as it has room for.
func (w *waiters) spare(s *nodeSocket) {
	free, empty := s.room(0), s.q.count.Load() == 0
	w.wake(func(r *receiver) bool {
		if r.pause.sock != s || !empty && free < max(1, int64(r.pause.need)) {
			return false
		}
		free, empty = free-r.pause.bytes.Load(), false
		return true
	})
}

// ended wakes those that wait for s, which is closed.
func (w *waiters) ended(s *nodeSocket) {
	w.wake(func(r *receiver) bool { return r.pause.sock == s })
}

// wake wakes those for which fits says so, in the order in which they began to wait.
func (w *waiters) wake(fits func(*receiver) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = slices.DeleteFunc(w.list, func(r *receiver) bool {
		if !fits(r) {
			return false
		}
		w.unlist(r)
		r.wake()
		return true
	})
}
