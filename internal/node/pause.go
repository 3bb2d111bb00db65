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

// RoomWait is what a sink needs to wait for room: the first message that waits on its link
// does. But for what waiters guards it belongs to the goroutine that calls the sink.
type RoomWait struct {
	waiting bool      // the first parked message waits for room
	Since   time.Time // when the wait began
	Sock    *Socket   // the socket that has no room
	Need    int       // payload bytes that the socket must have room for
	listed  bool      // the sink is in Local.Waiters; guarded by waiters.mu
	timer   *time.Timer

	Wake   func()       // has what waits tried again: driver.Receiver.Wake
	Parked func() int64 // payload that waits: driver.Receiver.Parked
}

// mustWait tells until when a message that has waited since then may keep the link from
// being read for want of room in s: the zero time if it does not wait. For a port that is
// expected s is its keeper.
func (k *Sink) mustWait(s *Socket, since time.Time) (until time.Time) {
	switch {
	case !k.rx.Caps().Pauses:
		return time.Time{}
	case s.stuck.Load() && !k.Wait.waiting:
		return time.Time{} // another message has already waited for ReceiveStall
	}
	return since.Add(k.peer.Node.Config.ReceiveStall)
}

// waits tells whether the message at hand, of n bytes, waits for room in s, and has the
// receiver woken when there may be some.
func (k *Sink) waits(s *Socket, n int) bool {
	k.Leave()
	p := &k.Wait
	now := k.peer.Node.Now()
	if !p.waiting {
		p.Since = now
	}
	until := k.mustWait(s, p.Since)
	if !now.Before(until) {
		if p.waiting {
			k.giveUp(s)
		}
		p.waiting = false
		return false
	}
	p.waiting, p.Sock, p.Need = true, s, n
	k.peer.Local.Waiters.Add(k)
	k.peer.paused[k.rx.Path()].Store(&pausedFor{p.Since, s})
	if p.timer == nil {
		p.timer = time.AfterFunc(until.Sub(now), p.Wake)
	} else {
		p.timer.Reset(until.Sub(now))
	}
	if s.Queue.IsClosed() || s.roomFor(n) {
		p.Wake() // room came before others could see that the receiver waits
	}
	if !k.rx.Paused() {
		k.peer.Node.Counters.recvPaused.Add(1)
	}
	return true
}

// giveUp has messages for s dropped until s has room.
func (k *Sink) giveUp(s *Socket) {
	s.stuck.Store(true)
	if !s.dropping.Swap(true) {
		k.peer.log.Warn("a socket takes nothing, messages for it are dropped", zap.Uint16("port", s.Port),
			zap.Int64("queued", s.Queue.Bytes.Load()), zap.Duration("after", k.peer.Node.Config.ReceiveStall))
	}
}

// Retry takes the sink off the list of those that wait: what waits is tried again.
func (k *Sink) Retry() {
	k.peer.Local.Waiters.Remove(k)
	k.Wait.timer.Stop()
}

// Reading follows the end of a pause.
func (k *Sink) Reading() {
	k.Wait.Sock = nil
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
	if s.Awaited.Load() > 0 {
		s.At.Waiters.spare(s)
	}
}

// waiters are the sinks of an address whose links wait for a socket, the one that
// has waited longest first.
type waiters struct {
	mu   lockorder.Mutex[waiters]
	List []*Sink
}

func (w *waiters) Add(r *Sink) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i, _ := slices.BinarySearchFunc(w.List, r, func(a, b *Sink) int {
		return cmp.Or(a.Wait.Since.Compare(b.Wait.Since), -1)
	})
	w.List = slices.Insert(w.List, i, r)
	r.Wait.listed = true
	r.Wait.Sock.Awaited.Add(1)
}

func (w *waiters) Remove(r *Sink) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Wait.listed {
		w.List = slices.DeleteFunc(w.List, func(q *Sink) bool { return q == r })
		w.unlist(r)
	}
}

func (w *waiters) unlist(r *Sink) {
	r.Wait.listed = false
	r.Wait.Sock.Awaited.Add(-1)
}

// spare wakes as many of those that wait for s as it has room for.
func (w *waiters) spare(s *Socket) {
	free, empty := s.room(0), s.Queue.Count.Load() == 0
	w.wake(func(r *Sink) bool {
		if r.Wait.Sock != s || !empty && free < max(1, int64(r.Wait.Need)) {
			return false
		}
		free, empty = free-r.Wait.Parked(), false
		return true
	})
}

// Ended wakes those that wait for s, which is closed.
func (w *waiters) Ended(s *Socket) {
	w.wake(func(r *Sink) bool { return r.Wait.Sock == s })
}

// wake wakes those for which fits says so, in the order in which they began to wait.
func (w *waiters) wake(fits func(*Sink) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.List = slices.DeleteFunc(w.List, func(r *Sink) bool {
		if !fits(r) {
			return false
		}
		w.unlist(r)
		r.Wait.Wake()
		return true
	})
}
