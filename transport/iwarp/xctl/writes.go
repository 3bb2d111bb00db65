package xctl

import (
	"sort"

	"github.com/rds-go/rds/internal/fifo"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// Writes have no numbers on the wire. Both ends count them, from 1 and as their
// last segments pass, so that a failed one can be named and a message that
// builds on it refused. 0 is left out: it says that a message builds on none.

func nextOrdinal(n uint32) uint32 {
	if n++; n == 0 {
		n++
	}
	return n
}

// WriteOutcome is what became of a Write.
type WriteOutcome struct {
	ID    uint64
	Cause rdmap.Cause
	OK    bool // the Write succeeded: Cause means nothing
}

// WriteSender is the sending end of the Writes of a connection. Like a Sender it
// holds IDs of the owner's, until Pop.
//
// A message that follows Writes and belongs to them carries the ordinal of the
// first one in the upper 32 bits of RsvdULP (ddp.Untagged.ULPData). It is refused
// if any Write from there on failed, so Writes of others had better not go
// between the first of a unit and its message.
type WriteSender struct {
	last  uint32 // ordinal
	acked uint32

	begun fifo.Queue[write] // Writes that Pop has not returned
}

type write struct {
	id      uint64
	ordinal uint32
	failed  bool
	cause   rdmap.Cause
}

// Outstanding is how many Writes Pop has not returned.
func (w *WriteSender) Outstanding() int { return w.begun.Len() }

// Begin takes a Write and returns its ordinal. Writes go out in the order of
// Begin.
func (w *WriteSender) Begin(id uint64) (ordinal uint32) {
	w.last = nextOrdinal(w.last)
	w.begun.Push(write{id: id, ordinal: w.last})
	return w.last
}

// Ack takes a WRACK. An error ends the connection: the Write was not begun.
func (w *WriteSender) Ack(a WriteAck) error {
	if after(a.Ordinal, w.last) {
		return rdmap.CauseStreamCatastrophic
	}
	w.acked = latest(w.acked, a.Ordinal)
	return nil
}

// Error takes a WRERR. An error ends the connection: the Write was not begun, or
// it was answered before.
func (w *WriteSender) Error(e WriteError) error {
	list := w.begun.All() // in ascending order
	at := sort.Search(len(list), func(i int) bool { return !after(e.Ordinal, list[i].ordinal) })
	if at == len(list) || list[at].ordinal != e.Ordinal || list[at].failed || !after(e.Ordinal, w.acked) {
		return rdmap.CauseStreamCatastrophic
	}
	list[at].failed, list[at].cause = true, e.Cause
	return nil
}

// Pop returns the next Write whose fate is known, in the order of Begin.
func (w *WriteSender) Pop() (o WriteOutcome, ok bool) {
	list := w.begun.All()
	if len(list) == 0 || !list[0].failed && after(list[0].ordinal, w.acked) {
		return WriteOutcome{}, false
	}
	m := list[0]
	w.begun.Drop(1)
	return WriteOutcome{m.id, m.cause, !m.failed}, true
}

// Lost returns, one by one, the Writes whose fate is not known when the
// connection is gone. Pop comes first.
func (w *WriteSender) Lost() (id uint64, ok bool) {
	if w.begun.Len() == 0 {
		return 0, false
	}
	id = w.begun.All()[0].id
	w.begun.Drop(1)
	return id, true
}

// WriteReceiver is the receiving end of the Writes of a connection. The zero
// WriteReceiver has seen none.
type WriteReceiver struct {
	last   uint32 // ordinal of the last Write that is whole
	told   uint32 // ordinal of the last WRACK
	bad    uint32 // ordinal of the last Write that failed
	failed bool   // bad is set, and less than half the ordinals ago
}

// Next is the ordinal of the Write that is arriving.
func (w *WriteReceiver) Next() uint32 { return nextOrdinal(w.last) }

// Done counts a Write whose last segment is placed, or dropped after an error.
func (w *WriteReceiver) Done(ok bool) {
	w.last = w.Next()
	if !ok {
		w.bad, w.failed = w.last, true
	}
	if w.failed && w.last-w.bad >= 1<<31-1 {
		w.failed = false // the ordinal bad will mean another Write
	}
}

// Check tells whether a message that names dep may be delivered: with 0 always,
// else if no Write from dep to the last one has failed. It is enough to know the
// last failure: there is one in that range just if the last one is. An error ends
// the connection: dep is yet to come.
func (w *WriteReceiver) Check(dep uint32) (ok bool, err error) {
	if dep == 0 {
		return true, nil
	}
	if after(dep, w.last) {
		return false, rdmap.CauseStreamCatastrophic
	}
	return !w.failed || after(dep, w.bad), nil
}

// Ack returns the WRACK that is due: Writes are whole that the last one does not
// tell of.
func (w *WriteReceiver) Ack() (a WriteAck, due bool) {
	if w.last == w.told {
		return WriteAck{}, false
	}
	w.told = w.last
	return WriteAck{w.last}, true
}
