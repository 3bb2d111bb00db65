package rds

import (
	"slices"
	"sync"
	"time"

	"github.com/rds-go/rds/internal/ipc"
)

// waitList is who of a socket's senders waits, and for what. Senders enter it before they
// sleep, so it costs nothing while there is room.
type waitList struct {
	mu   sync.Mutex // guards list; a leaf
	list []*senderWait
	show func([]senderWait) // called with every change of list, under mu; nil: nobody is told
}

// senderWait is one cause that senders of a socket wait for.
type senderWait struct {
	cause   string
	peer    uint32 // number of the connection
	any     bool   // no peer in particular
	port    uint16 // the peer's port; 0: no port in particular
	since   time.Time
	senders int
}

// enter adds a sender, and leave takes it away. Senders that wait for the same share an
// entry, which is as old as the first of them.
func (l *waitList) enter(w senderWait) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.list {
		if e.same(&w) {
			e.senders++
			return
		}
	}
	w.since, w.senders = time.Now(), 1
	l.list = append(l.list, &w)
	l.changed()
}

func (l *waitList) leave(w senderWait) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.list, func(e *senderWait) bool { return e.same(&w) })
	if l.list[i].senders--; l.list[i].senders == 0 {
		l.list = slices.Delete(l.list, i, i+1)
		l.changed()
	}
}

func (w *senderWait) same(o *senderWait) bool {
	return w.cause == o.cause && w.peer == o.peer && w.any == o.any && w.port == o.port
}

func (l *waitList) changed() {
	if l.show != nil {
		l.show(l.copyLocked())
	}
}

// hide has nobody hear of changes any more.
func (l *waitList) hide() {
	l.mu.Lock()
	l.show = nil
	l.mu.Unlock()
}

// all returns the waits, oldest first.
func (l *waitList) all() []senderWait {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.copyLocked()
}

func (l *waitList) copyLocked() []senderWait {
	out := make([]senderWait, len(l.list))
	for i, e := range l.list {
		out[i] = *e
	}
	return out
}

// waitScope is the wait of one call. It lasts over wake-ups that brought nothing, so that
// the wait is as old as the call.
type waitScope struct {
	list *waitList
	w    senderWait
	on   bool
}

// enter tells whether the call has not waited for this just before.
func (s *waitScope) enter(w senderWait) bool {
	if s.on && s.w.same(&w) {
		return false
	}
	s.end()
	s.w, s.on = w, true
	s.list.enter(w)
	return true
}

func (s *waitScope) end() {
	if s.on {
		s.on = false
		s.list.leave(s.w)
	}
}

// waitCauses are the causes as a cell has them.
var waitCauses = map[ipc.WaitCause]string{ipc.WaitRoom: CauseSendBuffer, ipc.WaitPort: CauseCongested, ipc.WaitMemory: CauseMemory, ipc.WaitPeer: CauseBudget}
