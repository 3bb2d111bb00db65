package rds

import (
	"context"
	"sync/atomic"
)

// inbox is the receiving half of a socket: what has come for it, and who waits.
type inbox struct {
	closed  atomic.Bool
	q       recvQueue
	fates   fateQueue
	readers waitQueue
	rdl     deadline
	rcvbuf  atomic.Int64
	monitor atomic.Pointer[monitor]
	owner   inboxOwner
}

// inboxOwner is the socket around an inbox.
type inboxOwner interface {
	// drained follows each attempt to take data, of which n messages came.
	drained(n int)
	// cause is the error of a closed socket.
	cause() error
	// trouble is asked when there is nothing to receive: an error ends the
	// call that would wait.
	trouble() error
	// begun is asked when a call begins to wait, and missed each time it was
	// woken for nothing, with that answer: an error ends the call.
	begun() uint64
	missed(since uint64) error
	// wait is w.wait, and look tells whether more is there than was known.
	wait(ctx context.Context, w *waiter) error
	look() bool
}

func (s *inbox) drained(n int) { s.owner.drained(n) }
func (s *inbox) cause() error  { return s.owner.cause() }

// recv takes the next message: fates first, then congestion news, then data
// (net/rds/recv.c, rds_recvmsg).
func (s *inbox) recv(ctx context.Context, block, peek bool) (m Message, err error) {
	if ok, err := s.tryRecv(&m, peek); ok || err != nil {
		return m, err
	}
	err = s.awaitRecv(ctx, block, func() (bool, error) { return s.tryRecv(&m, peek) })
	if peek && err == nil {
		s.readers.wake(1) // the message is still there for the next who waits
	}
	return m, err
}

func (s *inbox) recvBatch(ctx context.Context, ms []Message, block bool) (int, error) {
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
func (s *inbox) awaitRecv(ctx context.Context, block bool, try func() (bool, error)) error {
	if !block {
		if s.owner.look() {
			if ok, err := try(); ok || err != nil {
				return err
			}
		}
		return ErrWouldBlock
	}
	since := s.owner.begun()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		w := s.readers.add()
		ok, err := try()
		switch {
		case ok || err != nil:
		case s.rdl.expired.Load():
			err = s.rdl.err()
		default:
			if err = s.owner.wait(ctx, w); err == nil {
				ok, err = try()
			}
		}
		s.readers.done(w)
		if ok || err != nil {
			return err
		}
		if err := s.owner.missed(since); err != nil {
			return err
		}
	}
}

func (s *inbox) tryRecv(m *Message, peek bool) (bool, error) {
	if s.closed.Load() {
		return false, s.cause()
	}
	if s.fates.next(m, peek) {
		return true, nil
	}
	if s.monitor.Load() != nil {
		if bits := s.takeNews(peek); bits != 0 {
			*m = Message{Kind: KindCongestion, Congestion: bits}
			return true, nil
		}
	}
	q := &s.q
	q.rmu.Lock()
	it := q.next()
	if it == nil {
		q.rmu.Unlock()
		s.drained(0)
		return false, s.owner.trouble()
	}
	q.fill(m, it)
	if peek {
		if b := m.Held(); b != nil {
			b.Retain(1)
		}
		q.rmu.Unlock()
		return true, nil
	}
	q.take(it)
	s.settleTaken()
	q.rmu.Unlock()
	s.drained(1)
	return true, nil
}

func (s *inbox) tryRecvBatch(ms []Message) (int, error) {
	if s.closed.Load() {
		return 0, s.cause()
	}
	n := 0
	for n < len(ms) && s.fates.next(&ms[n], false) {
		n++
	}
	if n == len(ms) {
		return n, nil
	}
	if s.monitor.Load() != nil {
		if bits := s.takeNews(false); bits != 0 {
			ms[n] = Message{Kind: KindCongestion, Congestion: bits}
			return n + 1, nil
		}
	}
	q := &s.q
	first := n
	q.rmu.Lock()
	for n < len(ms) {
		it := q.next()
		if it == nil {
			break
		}
		ms[n] = Message{}
		q.fill(&ms[n], it)
		q.take(it)
		n++
	}
	s.settleTaken()
	q.rmu.Unlock()
	s.drained(n - first)
	if n == 0 {
		return 0, s.owner.trouble()
	}
	return n, nil
}

// settleTaken publishes what was taken when it has become much: a shared
// counter is not touched per message. The caller holds q.rmu.
func (s *inbox) settleTaken() {
	q := &s.q
	if limit := int(s.rcvbuf.Load()); q.taken*8 >= limit || q.takenN*itemCost*8 >= limit || q.outPos == len(q.out) {
		q.publish()
	}
}
