package rds

import (
	"sync"
	"sync/atomic"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/fifo"
)

// maxFates bounds the fates a socket keeps for its application to receive. A
// send that asks for its fate is refused while so many are unread; those of
// messages already accepted may pass the bound, as far as the send buffer goes.
const maxFates = 64 << 10

// fateQueue holds the fates of sent messages until they are received.
type fateQueue struct {
	n     atomic.Int64 // length of queue, readable without mu
	mu    sync.Mutex
	queue fifo.Queue[conn.Fate]
}

func (q *fateQueue) full() bool { return q.n.Load() >= maxFates }

// fate queues the end of a message for its sender to receive.
func (s *inbox) fate(f conn.Fate) {
	if s.closed.Load() {
		return
	}
	q := &s.fates
	q.mu.Lock()
	q.queue.Push(f)
	q.mu.Unlock()
	q.n.Add(1)
	s.readers.wake(1)
}

// next makes m the oldest fate, taking it unless peek is set.
func (q *fateQueue) next(m *Message, peek bool) bool {
	var f conn.Fate
	if !q.take(&f, peek) {
		return false
	}
	*m = Message{Kind: KindStatus, Token: f.Token, Status: f.Status}
	return true
}

// take is next for those who know what to do with operations.
func (q *fateQueue) take(f *conn.Fate, peek bool) bool {
	if q.n.Load() == 0 {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.queue.Len() == 0 {
		return false
	}
	*f = q.queue.All()[0]
	if peek {
		return true
	}
	q.n.Add(-1)
	q.queue.Drop(1)
	q.queue.Shrink(1024)
	return true
}
