package rds

import (
	"sync"
	"sync/atomic"

	"github.com/rds-go/rds/conn"
)

// maxFates bounds the fates a socket keeps for its application to receive. A
// send that asks for its fate is refused while so many are unread; those of
// messages already accepted may pass the bound, as far as the send buffer goes.
const maxFates = 64 << 10

// fateQueue holds the fates of sent messages until they are received.
type fateQueue struct {
	n     atomic.Int64 // in list, readable without mu
	mu    sync.Mutex
	list  []conn.Fate
	taken int
}

func (q *fateQueue) full() bool { return q.n.Load() >= maxFates }

// fate queues the end of a message for its sender to receive.
func (s *inbox) fate(f conn.Fate) {
	if s.closed.Load() {
		return
	}
	q := &s.fates
	q.mu.Lock()
	q.list = append(q.list, f)
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
	if q.taken == len(q.list) {
		return false
	}
	*f = q.list[q.taken]
	if peek {
		return true
	}
	q.list[q.taken].Op = nil
	q.n.Add(-1)
	q.taken++
	switch {
	case q.taken == len(q.list):
		q.list, q.taken = q.list[:0], 0
		if cap(q.list) > 1024 {
			q.list = nil
		}
	case q.taken >= 1024 && q.taken > len(q.list)/2: // one that is never empty would grow for ever
		n := copy(q.list, q.list[q.taken:])
		clear(q.list[n:])
		q.list, q.taken = q.list[:n], 0
	}
	return true
}
