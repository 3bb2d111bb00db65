package socket

import (
	"sync/atomic"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/fifo"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/rds/datagram"
)

// MaxFates bounds the fates a socket keeps for its application to receive. A
// send that asks for its fate is refused while so many are unread; those of
// messages already accepted may pass the bound, as far as the send buffer goes.
const MaxFates = 64 << 10

// Fates holds the fates of sent messages until they are received.
type Fates struct {
	N     atomic.Int64 // length of queue, readable without mu
	Mu    lockorder.Mutex[Fates]
	Queue fifo.Queue[conn.Fate]
}

func (q *Fates) Full() bool { return q.N.Load() >= MaxFates }

// Fate queues the end of a message for its sender to receive.
func (s *Inbox) Fate(f conn.Fate) {
	if s.Closed.Load() {
		return
	}
	q := &s.Fates
	q.Mu.Lock()
	q.Queue.Push(f)
	q.Mu.Unlock()
	q.N.Add(1)
	s.Readers.Wake(1)
}

// next makes m the oldest fate, taking it unless peek is set.
func (q *Fates) next(m *datagram.Message, peek bool) bool {
	var f conn.Fate
	if !q.Take(&f, peek) {
		return false
	}
	*m = datagram.Message{Kind: datagram.KindStatus, Token: f.Token, Status: f.Status}
	return true
}

// Take is next for those who know what to do with operations.
func (q *Fates) Take(f *conn.Fate, peek bool) bool {
	if q.N.Load() == 0 {
		return false
	}
	q.Mu.Lock()
	defer q.Mu.Unlock()
	if q.Queue.Len() == 0 {
		return false
	}
	*f = q.Queue.All()[0]
	if peek {
		return true
	}
	q.N.Add(-1)
	q.Queue.Drop(1)
	q.Queue.Shrink(1024)
	return true
}
