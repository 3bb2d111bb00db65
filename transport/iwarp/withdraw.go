package iwarp

import (
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// On a connection with shared receive queues a request whose own memory is no good
// costs nobody else anything, as long as nothing of it has left: a message is taken
// back before it has a number, a Write before it is counted.

// whole tells whether all memory of a request is there, before the first of its
// segments is built. If not, the request has its status.
func (s *stream) whole(w *sendSlot) bool {
	s.tx.enter()
	defer s.tx.leave()
	left := w.length
	for i := 0; left > 0; i++ {
		p := piece{key: w.sge[i].Key, n: int(w.sge[i].Len), addr: w.sge[i].Addr}
		req := s.lookup(&p)
		if _, fault := s.tx.reader.Check(&req); fault != mr.None {
			w.status, w.vendor = LocalProtection, uint32(fault)
			return false
		}
		left -= w.sge[i].Len
	}
	return true
}

// withdraw takes back the message at hand, which q has just begun and which has its
// status.
func (s *stream) withdraw(q *outQueue) {
	q.Withdraw()
	s.tx.open = false
	s.shared.withdrawn = append(s.shared.withdrawn, q)
}

// settleWithdrawnLocked completes messages that were withdrawn, as far as those
// before them are decided.
func (x *shared) settleWithdrawnLocked(qp *QP) {
	for _, q := range x.withdrawn {
		x.settleLocked(qp, q)
	}
	clear(x.withdrawn)
	x.withdrawn = x.withdrawn[:0]
}

// failWrite ends the Write at hand, which has its status.
func (s *stream) failWrite() {
	x := s.shared
	x.taken++
	x.spoilt = x.taken
	s.tx.open = false
	s.tx.passed++
}

// spoiled tells whether one of the last n Writes that had their turn has failed here.
func (x *shared) spoiled(n uint32) bool {
	return x.spoilt > 0 && x.taken-x.spoilt < uint64(n)
}

// dependencyOn is what a message of SendFrames names that builds on so many
// Writes. The peer has not heard of one that has failed here, and the message has its
// place among the bytes that were sent: so it is preceded by a Write that the peer
// refuses.
func (x *shared) dependencyOn(b *batch, builds uint32) uint32 {
	switch {
	case builds == 0:
		return 0
	case !x.spoiled(builds):
		return x.firstOf(builds)
	}
	h := ddp.Tagged{Last: true, ULP: rdmap.OpWrite.Control()} // no region has STag 0
	b.add(append(h.AppendTo(nil), 0))
	x.countWrite(rtrSlot)
	return x.lastWrite
}
