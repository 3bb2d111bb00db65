package client

import (
	"cmp"
	"slices"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/lockorder"
)

// askedFates are the fates that a half of a socket has asked for and has not been told. A
// daemon that is killed tells none of them any more: each message that it may have sent
// ends with StatusDropped then. The daemon knows a message by a number instead of the
// token that the program has chosen, which need not be unique.
type askedFates struct {
	mu   lockorder.Mutex[askedFates] // a leaf
	last uint64                      // number given; 0 is for messages whose fate nobody has asked for
	of   map[uint64]uint64
}

// ask numbers a message that is submitted if the daemon is to tell its fate: the end of one
// with an operation is that of the operation.
func (q *askedFates) ask(e *ipc.Entry, about []byte) {
	if e.Flags()&ipc.FlagNotify == 0 || ipc.HasOperation(about) {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.of == nil {
		q.of = make(map[uint64]uint64)
	}
	q.last++
	q.of[q.last] = e.Token()
	e[3] = q.last
}

// told returns the token of the message of a number, which it forgets. It is false if the
// program has been told already.
func (q *askedFates) told(number uint64) (token uint64, ok bool) {
	if number == 0 {
		return 0, true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	token, ok = q.of[number]
	delete(q.of, number)
	return token, ok
}

// fateOf reports a fate that the daemon of a half has told.
func (s *Socket) fateOf(h *half, f conn.Fate) {
	var ok bool
	if f.Token, ok = h.asked.told(f.Token); ok {
		s.Fate(f)
	}
}

// loseFates ends the messages whose fates the daemon of a half has not told, in their order.
func (s *Socket) loseFates(h *half) {
	type lost struct{ number, token uint64 }
	q := &h.asked
	q.mu.Lock()
	all := make([]lost, 0, len(q.of))
	for number, token := range q.of {
		all = append(all, lost{number, token})
	}
	q.of = nil
	q.mu.Unlock()
	slices.SortFunc(all, func(a, b lost) int { return cmp.Compare(a.number, b.number) })
	for _, l := range all {
		s.Fate(conn.Fate{Token: l.token, Status: conn.Dropped})
	}
}
