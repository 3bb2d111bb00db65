package socket

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/rds/datagram"
)

// Inbox is the receiving half of a socket: what has come for it, and who waits.
type Inbox struct {
	Settings
	Queue         Queue
	Fates         Fates
	Readers       WaitQueue
	ReceiveBuffer atomic.Int64
	Maps          atomic.Uint64 // congestion maps received, as Poll has seen last
	Owner         Owner
}

// Owner is the socket around an inbox.
type Owner interface {
	// Drained follows each attempt to take data, of which n messages came.
	Drained(n int)
	// Trouble is asked when a look has found nothing to receive, with what Begun has said
	// before the look: an error ends the call that would wait.
	Trouble(seen uint64) error
	// Lost is asked when what follows comes from another daemon than number loss, which
	// has brought what was taken last, and has ended: an error ends the call.
	Lost(loss uint64) error
	// Begun is asked when a call begins to wait, and before each look, and Missed when a look
	// was in vain, with both answers: an error ends the call.
	Begun() uint64
	Missed(since, seen uint64) error
	// Wait is w.wait, and look tells whether more is there than was known.
	Wait(ctx context.Context, w *Waiter) error
	Look() bool
	// WakeWriters wakes the senders wherever they wait.
	WakeWriters()
}

func (s *Inbox) drained(n int) { s.Owner.Drained(n) }

// SetDeadline moves the deadlines of calls that receive, of those that send, or both.
func (s *Inbox) SetDeadline(read, write bool, t time.Time) {
	if read {
		s.ReadDeadline.Set(t, func() { s.Readers.Wake(-1) })
	}
	if write {
		s.WriteDeadline.Set(t, s.Owner.WakeWriters)
	}
}

// PollIn is the part of Poll about what can be received. maps is the count of congestion maps
// received.
func (s *Inbox) PollIn(maps uint64) (ev datagram.Events) {
	if s.Fates.N.Load() > 0 || s.Queue.Count.Load() > int64(s.Queue.unpublished()) {
		ev |= datagram.PollIn
	}
	if m := s.Monitor.Load(); m != nil {
		m.Mu.Lock()
		if m.Notify != 0 {
			ev |= datagram.PollIn
		}
		m.Mu.Unlock()
	} else if s.Maps.Swap(maps) != maps {
		ev |= datagram.PollIn | datagram.PollWrBand
	}
	return ev
}

// WakeReaders wakes as many receivers as there are messages.
func (s *Inbox) WakeReaders() {
	if n := s.Readers.N.Load(); n > 0 {
		s.Readers.Wake(int(min(int64(n), max(1, s.Queue.Count.Load()))))
	}
}

// Recv takes the next message: fates first, then congestion news, then data
// (net/rds/recv.c, rds_recvmsg).
func (s *Inbox) Recv(ctx context.Context, block, peek bool) (m datagram.Message, err error) {
	if ok, err := s.tryRecv(&m, peek); ok || err != nil {
		return m, err
	}
	err = s.awaitRecv(ctx, block, func() (bool, error) { return s.tryRecv(&m, peek) })
	if peek && err == nil {
		s.Readers.Wake(1) // the message is still there for the next who waits
	}
	return m, err
}

func (s *Inbox) RecvBatch(ctx context.Context, ms []datagram.Message, block bool) (int, error) {
	if len(ms) == 0 {
		return 0, nil
	}
	n, err := s.tryRecvBatch(ms)
	if n > 0 || err != nil {
		return n, err
	}
	err = s.awaitRecv(ctx, block, func() (bool, error) {
		n, err = s.tryRecvBatch(ms)
		return n > 0, err
	})
	return n, err
}

// awaitRecv calls try until it has something, waiting in between.
func (s *Inbox) awaitRecv(ctx context.Context, block bool, try func() (bool, error)) error {
	if !block {
		if s.Owner.Look() {
			if ok, err := try(); ok || err != nil {
				return err
			}
		}
		return datagram.ErrWouldBlock
	}
	since := s.Owner.Begun()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		w := s.Readers.Add()
		seen := s.Owner.Begun()
		ok, err := try()
		switch {
		case ok || err != nil:
		case s.ReadDeadline.expired.Load():
			err = s.ReadDeadline.Err()
		default:
			if err = s.Owner.Wait(ctx, w); err == nil {
				seen = s.Owner.Begun()
				ok, err = try()
			}
		}
		s.Readers.Done(w)
		if ok || err != nil {
			return err
		}
		if err := s.Owner.Missed(since, seen); err != nil {
			return err
		}
	}
}

func (s *Inbox) tryRecv(m *datagram.Message, peek bool) (bool, error) {
	if s.Closed.Load() {
		return false, net.ErrClosed
	}
	if s.Fates.next(m, peek) {
		return true, nil
	}
	if s.Monitor.Load() != nil {
		if bits := s.takeNews(peek); bits != 0 {
			*m = datagram.Message{Kind: datagram.KindCongestion, Congestion: bits}
			return true, nil
		}
	}
	q, seen := &s.Queue, s.Owner.Begun()
	q.TakeMu.Lock()
	if err := s.lost(); err != nil {
		q.TakeMu.Unlock()
		return false, err
	}
	it := q.Next()
	if it == nil {
		q.TakeMu.Unlock()
		s.drained(0)
		return false, s.Owner.Trouble(seen)
	}
	q.fill(m, it)
	if peek {
		if b := m.Held(); b != nil {
			b.Retain(1)
		}
		q.TakeMu.Unlock()
		return true, nil
	}
	q.Take(it)
	s.settleTaken()
	q.TakeMu.Unlock()
	s.drained(1)
	return true, nil
}

func (s *Inbox) tryRecvBatch(ms []datagram.Message) (int, error) {
	if s.Closed.Load() {
		return 0, net.ErrClosed
	}
	n := 0
	for n < len(ms) && s.Fates.next(&ms[n], false) {
		n++
	}
	if n == len(ms) {
		return n, nil
	}
	if s.Monitor.Load() != nil {
		if bits := s.takeNews(false); bits != 0 {
			ms[n] = datagram.Message{Kind: datagram.KindCongestion, Congestion: bits}
			return n + 1, nil
		}
	}
	q := &s.Queue
	first, seen := n, s.Owner.Begun()
	q.TakeMu.Lock()
	var err error
	for n < len(ms) {
		if q.atCut() && n > 0 {
			break // the next call tells of the loss
		}
		if err = s.lost(); err != nil {
			break
		}
		it := q.Next()
		if it == nil {
			break
		}
		ms[n] = datagram.Message{}
		q.fill(&ms[n], it)
		q.Take(it)
		n++
	}
	s.settleTaken()
	q.TakeMu.Unlock()
	s.drained(n - first)
	if n == 0 && err == nil {
		err = s.Owner.Trouble(seen)
	}
	return n, err
}

// lost is the error of a daemon that was lost before it has brought what is due. The caller
// holds q.rmu.
func (s *Inbox) lost() error {
	for {
		loss, passed := s.Queue.pass()
		if !passed {
			return nil
		}
		if err := s.Owner.Lost(loss); err != nil {
			return err
		}
	}
}

// settleTaken publishes what was taken when it has become much: a shared
// counter is not touched per message. The caller holds q.rmu.
func (s *Inbox) settleTaken() {
	q := &s.Queue
	if limit := int(s.ReceiveBuffer.Load()); q.Taken*8 >= limit || q.TakenN*ItemCost*8 >= limit || q.OutPos == len(q.Out) {
		q.Publish()
	}
}
