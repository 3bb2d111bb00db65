package node

import (
	"cmp"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/internal/socket"
)

// A message that has come and has no room in its socket's receive queue stops the link
// that brought it, if the link can pause (transport.Caps): a Linux peer sends its whole
// queue whatever our congestion map says, and TCP has acknowledged the message. The
// receiver keeps the message, and what the link had read behind it, until the socket
// has room, is closed, or config.Node.ReceiveStall is over; the kernel and the peer keep the
// rest. All other messages of that path wait as long: for other sockets, maps, probes.

// roomWait is what a sink needs to wait for room: the first message that waits on its link
// does. But for what waiters guards it belongs to the goroutine that calls the sink.
type roomWait struct {
	waiting bool      // the first parked message waits for room
	since   time.Time // when the wait began
	sock    *Socket   // the socket that has no room
	need    int       // payload bytes that the socket must have room for
	listed  bool      // the sink is in Local.waiters; guarded by waiters.mu
	timer   *time.Timer

	wake   func()       // has what waits tried again: driver.Receiver.Wake
	parked func() int64 // payload that waits: driver.Receiver.Parked
}

// mustWait tells until when a message that has waited since then may keep the link from
// being read for want of room in s: the zero time if it does not wait. For a port that is
// expected s is its keeper.
func (k *sink) mustWait(s *Socket, since time.Time) (until time.Time) {
	switch {
	case !k.rx.Caps().Pauses:
		return time.Time{}
	case s.stuck.Load() && !k.wait.waiting:
		return time.Time{} // another message has already waited for ReceiveStall
	}
	return since.Add(k.peer.Node.Config.ReceiveStall)
}

// waits tells whether the message at hand, of n bytes, waits for room in s, and has the
// receiver woken when there may be some.
func (k *sink) waits(s *Socket, n int) bool {
	k.Leave()
	p := &k.wait
	now := time.Now()
	if !p.waiting {
		p.since = now
	}
	until := k.mustWait(s, p.since)
	if !now.Before(until) {
		if p.waiting {
			k.giveUp(s)
		}
		p.waiting = false
		return false
	}
	p.waiting, p.sock, p.need = true, s, n
	k.peer.Local.waiters.add(k)
	k.peer.paused[k.rx.Path()].Store(&pausedFor{p.since, s})
	if p.timer == nil {
		p.timer = time.AfterFunc(until.Sub(now), p.wake)
	} else {
		p.timer.Reset(until.Sub(now))
	}
	if s.Queue.IsClosed() || s.roomFor(n) {
		p.wake() // room came before others could see that the receiver waits
	}
	if !k.rx.Paused() {
		k.peer.Node.Counters.recvPaused.Add(1)
	}
	return true
}

// giveUp has messages for s dropped until s has room.
func (k *sink) giveUp(s *Socket) {
	s.stuck.Store(true)
	if !s.dropping.Swap(true) {
		k.peer.log.Warn("a socket takes nothing, messages for it are dropped", zap.Uint16("port", s.Port),
			zap.Int64("queued", s.Queue.Bytes.Load()), zap.Duration("after", k.peer.Node.Config.ReceiveStall))
	}
}

// Retry takes the sink off the list of those that wait: what waits is tried again.
func (k *sink) Retry() {
	k.peer.Local.waiters.remove(k)
	k.wait.timer.Stop()
}

// Reading follows the end of a pause.
func (k *sink) Reading() {
	k.wait.sock = nil
	k.peer.paused[k.rx.Path()].Store(nil)
}

// pausedFor is why a path is not read, for reports.
type pausedFor struct {
	since time.Time
	sock  *Socket
}

// roomStep is how much room a full socket makes before links go on, and an eighth of
// its bound at most: each time costs some system calls.
const roomStep = 1 << 20

// bound is what s holds at most: payload, and socket.ItemCost for each message.
func (s *Socket) bound() int64 { return s.ReceiveBuffer.Load() + int64(s.Node.Config.ReceiveOverrun) }

// roomFor tells whether s has room for n bytes, and some more, or is empty.
func (s *Socket) roomFor(n int) bool { return s.room(n) > 0 || s.Queue.Count.Load() == 0 }

// room is how many bytes s has room for, 0 if that is too little for n bytes.
func (s *Socket) room(n int) int64 {
	bound := s.bound()
	step := min(bound/8, roomStep)
	bytes := bound - s.Queue.Bytes.Load()
	count := bound/socket.ItemCost - s.Queue.Count.Load()
	if bytes < max(int64(n), step) || count < max(1, step/socket.ItemCost) {
		return 0
	}
	return bytes
}

// Spare follows the taking of messages: links that wait for room go on.
func (s *Socket) Spare() {
	if s.stuck.Load() && s.roomFor(0) && s.stuck.Swap(false) {
		s.dropping.Store(false)
	}
	if s.awaited.Load() > 0 {
		s.At.waiters.spare(s)
	}
}

// waiters are the sinks of an address whose links wait for a socket, the one that
// has waited longest first.
type waiters struct {
	mu   lockorder.Mutex[waiters]
	list []*sink
}

func (w *waiters) add(r *sink) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i, _ := slices.BinarySearchFunc(w.list, r, func(a, b *sink) int {
		return cmp.Or(a.wait.since.Compare(b.wait.since), -1)
	})
	w.list = slices.Insert(w.list, i, r)
	r.wait.listed = true
	r.wait.sock.awaited.Add(1)
}

func (w *waiters) remove(r *sink) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.wait.listed {
		w.list = slices.DeleteFunc(w.list, func(q *sink) bool { return q == r })
		w.unlist(r)
	}
}

func (w *waiters) unlist(r *sink) {
	r.wait.listed = false
	r.wait.sock.awaited.Add(-1)
}

// spare wakes as many of those that wait for s as it has room for.
func (w *waiters) spare(s *Socket) {
	free, empty := s.room(0), s.Queue.Count.Load() == 0
	w.wake(func(r *sink) bool {
		if r.wait.sock != s || !empty && free < max(1, int64(r.wait.need)) {
			return false
		}
		free, empty = free-r.wait.parked(), false
		return true
	})
}

// ended wakes those that wait for s, which is closed.
func (w *waiters) ended(s *Socket) {
	w.wake(func(r *sink) bool { return r.wait.sock == s })
}

// wake wakes those for which fits says so, in the order in which they began to wait.
func (w *waiters) wake(fits func(*sink) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = slices.DeleteFunc(w.list, func(r *sink) bool {
		if !fits(r) {
			return false
		}
		w.unlist(r)
		r.wait.wake()
		return true
	})
}
