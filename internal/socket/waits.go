package socket

import (
	"slices"
	"time"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/rds/info"
)

// WaitList is who of a socket's senders waits, and for what. Senders enter it before they
// sleep, so it costs nothing while there is room.
type WaitList struct {
	mu   lockorder.Mutex[WaitList] // guards list; a leaf
	list []*SenderWait
	Show func([]SenderWait) // called with every change of list, under mu; nil: nobody is told
}

// SenderWait is one cause that senders of a socket wait for.
type SenderWait struct {
	Cause   string
	Peer    uint32 // number of the connection
	Any     bool   // no peer in particular
	Port    uint16 // the peer's port; 0: no port in particular
	Since   time.Time
	Senders int
}

// enter adds a sender, and leave takes it away. Senders that wait for the same share an
// entry, which is as old as the first of them.
func (l *WaitList) enter(w SenderWait) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.list {
		if e.Same(&w) {
			e.Senders++
			return
		}
	}
	w.Since, w.Senders = time.Now(), 1
	l.list = append(l.list, &w)
	l.changed()
}

func (l *WaitList) leave(w SenderWait) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.list, func(e *SenderWait) bool { return e.Same(&w) })
	if l.list[i].Senders--; l.list[i].Senders == 0 {
		l.list = slices.Delete(l.list, i, i+1)
		l.changed()
	}
}

func (w *SenderWait) Same(o *SenderWait) bool {
	return w.Cause == o.Cause && w.Peer == o.Peer && w.Any == o.Any && w.Port == o.Port
}

func (l *WaitList) changed() {
	if l.Show != nil {
		l.Show(l.copyLocked())
	}
}

// Hide has nobody hear of changes any more.
func (l *WaitList) Hide() {
	l.mu.Lock()
	l.Show = nil
	l.mu.Unlock()
}

// All returns the waits, oldest first.
func (l *WaitList) All() []SenderWait {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.copyLocked()
}

func (l *WaitList) copyLocked() []SenderWait {
	out := make([]SenderWait, len(l.list))
	for i, e := range l.list {
		out[i] = *e
	}
	return out
}

// WaitScope is the wait of one call. It lasts over wake-ups that brought nothing, so that
// the wait is as old as the call.
type WaitScope struct {
	List *WaitList
	w    SenderWait
	on   bool
}

// Enter tells whether the call has not waited for this just before.
func (s *WaitScope) Enter(w SenderWait) bool {
	if s.on && s.w.Same(&w) {
		return false
	}
	s.End()
	s.w, s.on = w, true
	s.List.enter(w)
	return true
}

func (s *WaitScope) End() {
	if s.on {
		s.on = false
		s.List.leave(s.w)
	}
}

// WaitCauses are the causes as a cell has them.
var WaitCauses = map[ipc.WaitCause]string{ipc.WaitRoom: info.CauseSendBuffer, ipc.WaitPort: info.CauseCongested, ipc.WaitMemory: info.CauseMemory, ipc.WaitPeer: info.CauseBudget}
