package rds

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport"
)

// operation is what a message does to the peer's memory before it is
// delivered: an RDMA, an Atomic, or both.
type operation struct {
	core  conn.Operation
	s     *nodeSocket
	peer  *peer
	dport uint16
	path  int // path that the operation was begun on, guarded by the lock of the peer

	first  transport.Operation
	room   [2]*transport.Operation // memory of core.List: first, and a second operation of the same message
	pieces [2][1][]byte            // local memory of the operations, where it is one piece each
	found  uint64                  // the result of an atomic, unless the message says where it goes
	left   atomic.Int32            // operations of core.List that are not done
	worst  atomic.Uint32           // worst transport.OpStatus of the operations that are done
	paid   bool                    // the operation is of a suspected socket; guarded by the lock of the peer

	// Guarded by socketOps.mu.
	prev, next *operation // in socketOps
	pending    bool       // the operation is in socketOps
	canceled   bool       // the message was canceled meanwhile, with the fate late
	late       conn.Fate

	lent any // what the owner of the socket keeps with the operation
}

// operationCost is what an operation counts for in a write besides its memory.
const operationCost = 4 << 10

// newOperation makes the operation of a checked message, nil if it has none. It is
// one piece of memory, as far as that goes: there are as many as messages.
func newOperation(s *nodeSocket, p *peer, o *Outgoing, dport uint16) *operation {
	if o.RDMA == nil && o.Atomic == nil {
		return nil
	}
	op := new(operation)
	op.init(s, p, o, dport)
	return op
}

// init makes the operation of a message that has one.
func (op *operation) init(s *nodeSocket, p *peer, o *Outgoing, dport uint16) {
	op.s, op.peer, op.dport = s, p, dport
	op.core = conn.Operation{Work: op, List: op.room[:0], Cost: operationCost, Silent: size(o) == 0, Epoch: p.Epoch()}
	if r := o.RDMA; r != nil {
		t := op.add()
		t.Kind = transport.OpRead
		if r.Write {
			t.Kind = transport.OpWrite
		}
		if len(r.Local) == 1 { // the caller's slice of slices is not kept
			t.Local = op.piece(r.Local[0])
		} else {
			t.Local = append([][]byte(nil), r.Local...)
		}
		t.Key, t.Addr = r.Cookie.Key(), uint64(r.Cookie.Offset())+r.Offset
		for _, b := range r.Local {
			op.core.Cost += len(b)
		}
		op.core.Fence = r.Fence && !r.Write
		op.core.Silent = op.core.Silent && r.Silent
	}
	if a := o.Atomic; a != nil {
		t := op.add()
		t.Kind = transport.OpCompareSwap
		t.Key, t.Addr = a.Cookie.Key(), uint64(a.Cookie.Offset())+a.Offset
		switch a.Kind {
		case FetchAdd:
			t.Kind, t.Add, t.AddMask = transport.OpFetchAdd, a.Add, a.AddMask
		case CompareSwap:
			t.Compare, t.CompareMask, t.Swap, t.SwapMask = a.Compare, ^uint64(0), a.Swap, ^uint64(0)
		case MaskedCompareSwap:
			t.Compare, t.CompareMask, t.Swap, t.SwapMask = a.Compare, a.CompareMask, a.Swap, a.SwapMask
		}
		result := a.Result
		if result == nil {
			result = &op.found
		}
		t.Local = op.piece(unsafe.Slice((*byte)(unsafe.Pointer(result)), 8))
		op.core.Cost += 8
		op.core.Silent = op.core.Silent && a.Silent
	}
	op.left.Store(int32(len(op.core.List)))
}

func (op *operation) add() *transport.Operation {
	t := &op.first
	if len(op.core.List) > 0 {
		t = new(transport.Operation)
	}
	t.Owner, t.Done = op, operationDone
	op.core.List = append(op.core.List, t)
	return t
}

// piece is the local memory of what was added last, in one piece.
func (op *operation) piece(b []byte) [][]byte {
	p := &op.pieces[len(op.core.List)-1]
	p[0] = b
	return p[:]
}

// used is the key that the message behind the operation names to its receiver.
func (op *operation) used() mr.Key { return mr.Key(op.first.Key) }

// operationDone is transport.Operation.Done.
func operationDone(t *transport.Operation, status transport.OpStatus) {
	op := t.Owner.(*operation)
	for {
		old := op.worst.Load()
		if uint32(status) <= old || op.worst.CompareAndSwap(old, uint32(status)) {
			break
		}
	}
	if op.left.Add(-1) > 0 {
		return
	}
	late, canceled := op.s.ops.remove(op)
	op.peer.operated(op)
	if canceled {
		op.s.endedLate(late)
	}
}

// endedLate ends a message whose fate has waited for the memory of its operation.
func (s *nodeSocket) endedLate(f conn.Fate) {
	s.owner.ended(f)
	s.owner.deliver()
}

// status is the fate of the message as far as the operation decides it.
func (op *operation) status() Status {
	switch transport.OpStatus(op.worst.Load()) {
	case transport.OpSuccess:
		return StatusSuccess
	case transport.OpRefused:
		return StatusRemoteError
	case transport.OpLost:
		return StatusDropped
	}
	return StatusOtherError
}

// socketOps are the operations of a socket that a link has, and with them
// memory of the application.
type socketOps struct {
	n          atomic.Int64
	ended      waitQueue
	suspicions suspicions
	mu         sync.Mutex
	head       *operation // guarded by mu
}

func (q *socketOps) add(op *operation) {
	q.mu.Lock()
	if q.head != nil {
		q.head.prev = op
	}
	op.next, op.pending, q.head = q.head, true, op
	q.n.Add(1)
	q.mu.Unlock()
}

// remove forgets an operation and returns the fate that has waited for it, if one
// has.
func (q *socketOps) remove(op *operation) (late conn.Fate, canceled bool) {
	q.mu.Lock()
	if op.prev != nil {
		op.prev.next = op.next
	} else {
		q.head = op.next
	}
	if op.next != nil {
		op.next.prev = op.prev
	}
	op.prev, op.next, op.pending = nil, nil, false
	q.n.Add(-1)
	late, canceled = op.late, op.canceled
	op.late, op.canceled = conn.Fate{}, false
	q.mu.Unlock()
	q.ended.wake(-1)
	return late, canceled
}

// defers keeps the fate of a message whose operation is under way until the
// link has given back its memory, and tells whether it is.
func (q *socketOps) defers(f conn.Fate) bool {
	op := f.Op.Work.(*operation)
	q.mu.Lock()
	defer q.mu.Unlock()
	if op.pending {
		op.late, op.canceled = f, true
	}
	return op.pending
}

// memoryWait is how long Close and CancelSentTo wait for memory that a link has.
const memoryWait = 5 * time.Second

// wait returns when the links have given back the memory of those operations
// under way that concerned tells, or with ErrBusy. They do so when the peer has
// answered or the connection is lost.
func (q *socketOps) wait(concerned func(*operation) bool) error {
	if q.n.Load() == 0 {
		return nil
	}
	ops := slices.DeleteFunc(q.all(), func(op *operation) bool { return !concerned(op) })
	ctx, cancel := context.WithTimeout(context.Background(), memoryWait)
	defer cancel()
	for {
		w := q.ended.add()
		var err error
		ended := q.gone(ops)
		if !ended {
			err = w.wait(ctx)
		}
		q.ended.done(w)
		switch {
		case ended:
			return nil
		case err != nil && !q.gone(ops):
			return ErrBusy
		}
	}
}

// all returns the operations under way.
func (q *socketOps) all() []*operation {
	q.mu.Lock()
	defer q.mu.Unlock()
	var ops []*operation
	for op := q.head; op != nil; op = op.next {
		ops = append(ops, op)
	}
	return ops
}

// gone tells whether none of ops is under way.
func (q *socketOps) gone(ops []*operation) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, op := range ops {
		if op.pending {
			return false
		}
	}
	return true
}
