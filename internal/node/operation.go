package node

import (
	"context"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/transport"
)

// Operation is what a message does to the peer's memory before it is
// delivered: an RDMA, an Atomic, or both.
type Operation struct {
	Core  conn.Operation
	S     *Socket
	Peer  *Peer
	Dport uint16
	path  int // path that the operation was begun on, guarded by the lock of the peer

	First  transport.Operation
	Room   [2]*transport.Operation // memory of core.List: first, and a second operation of the same message
	pieces [2][1][]byte            // local memory of the operations, where it is one piece each
	Found  uint64                  // the result of an atomic, unless the message says where it goes
	Left   atomic.Int32            // operations of core.List that are not done
	worst  atomic.Uint32           // worst transport.OpStatus of the operations that are done
	paid   bool                    // the operation is of a suspected socket; guarded by the lock of the peer

	// Guarded by socketOps.mu.
	prev, next *Operation // in socketOps
	pending    bool       // the operation is in socketOps
	canceled   bool       // the message was canceled meanwhile, with the fate late
	late       conn.Fate

	Lent any // what the owner of the socket keeps with the operation
}

// OperationCost is what an operation counts for in a write besides its memory.
const OperationCost = 4 << 10

// newOperation makes the operation of a checked message, nil if it has none. It is
// one piece of memory, as far as that goes: there are as many as messages.
func newOperation(s *Socket, p *Peer, o *datagram.Outgoing, dport uint16) *Operation {
	if o.RDMA == nil && o.Atomic == nil {
		return nil
	}
	op := new(Operation)
	op.Init(s, p, o, dport)
	return op
}

// Init makes the operation of a message that has one.
func (op *Operation) Init(s *Socket, p *Peer, o *datagram.Outgoing, dport uint16) {
	op.S, op.Peer, op.Dport = s, p, dport
	op.Core = conn.Operation{Work: op, List: op.Room[:0], Cost: OperationCost, Silent: socket.Size(o) == 0, Epoch: p.Epoch()}
	if r := o.RDMA; r != nil {
		t := op.Add()
		t.Kind = transport.OpRead
		if r.Write {
			t.Kind = transport.OpWrite
		}
		if len(r.Local) == 1 { // the caller's slice of slices is not kept
			t.Local = op.Piece(r.Local[0])
		} else {
			t.Local = append([][]byte(nil), r.Local...)
		}
		t.Key, t.Addr = r.Cookie.Key(), uint64(r.Cookie.Offset())+r.Offset
		for _, b := range r.Local {
			op.Core.Cost += len(b)
		}
		op.Core.Fence = r.Fence && !r.Write
		op.Core.Silent = op.Core.Silent && r.Silent
	}
	if a := o.Atomic; a != nil {
		t := op.Add()
		t.Kind = transport.OpCompareSwap
		t.Key, t.Addr = a.Cookie.Key(), uint64(a.Cookie.Offset())+a.Offset
		switch a.Kind {
		case datagram.FetchAdd:
			t.Kind, t.Add, t.AddMask = transport.OpFetchAdd, a.Add, a.AddMask
		case datagram.CompareSwap:
			t.Compare, t.CompareMask, t.Swap, t.SwapMask = a.Compare, ^uint64(0), a.Swap, ^uint64(0)
		case datagram.MaskedCompareSwap:
			t.Compare, t.CompareMask, t.Swap, t.SwapMask = a.Compare, a.CompareMask, a.Swap, a.SwapMask
		}
		result := a.Result
		if result == nil {
			result = &op.Found
		}
		t.Local = op.Piece(unsafe.Slice((*byte)(unsafe.Pointer(result)), 8))
		op.Core.Cost += 8
		op.Core.Silent = op.Core.Silent && a.Silent
	}
	op.Left.Store(int32(len(op.Core.List)))
}

func (op *Operation) Add() *transport.Operation {
	t := &op.First
	if len(op.Core.List) > 0 {
		t = new(transport.Operation)
	}
	t.Owner, t.Done = op, operationDone
	op.Core.List = append(op.Core.List, t)
	return t
}

// Piece is the local memory of what was added last, in one piece.
func (op *Operation) Piece(b []byte) [][]byte {
	p := &op.pieces[len(op.Core.List)-1]
	p[0] = b
	return p[:]
}

// used is the key that the message behind the operation names to its receiver.
func (op *Operation) used() mr.Key { return mr.Key(op.First.Key) }

// operationDone is transport.Operation.Done.
func operationDone(t *transport.Operation, status transport.OpStatus) {
	op := t.Owner.(*Operation)
	for {
		old := op.worst.Load()
		if uint32(status) <= old || op.worst.CompareAndSwap(old, uint32(status)) {
			break
		}
	}
	if op.Left.Add(-1) > 0 {
		return
	}
	late, canceled := op.S.ops.remove(op)
	op.Peer.operated(op)
	if canceled {
		op.S.endedLate(late)
	}
}

// endedLate ends a message whose fate has waited for the memory of its operation.
func (s *Socket) endedLate(f conn.Fate) {
	s.Owner.Ended(f)
	s.Owner.Deliver()
}

// status is the fate of the message as far as the operation decides it.
func (op *Operation) status() datagram.Status {
	switch transport.OpStatus(op.worst.Load()) {
	case transport.OpSuccess:
		return datagram.StatusSuccess
	case transport.OpRefused:
		return datagram.StatusRemoteError
	case transport.OpLost:
		return datagram.StatusDropped
	}
	return datagram.StatusOtherError
}

// socketOps are the operations of a socket that a link has, and with them
// memory of the application.
type socketOps struct {
	n          atomic.Int64
	ended      socket.WaitQueue
	suspicions suspicions
	mu         lockorder.Mutex[socketOps]
	head       *Operation // guarded by mu
}

func (q *socketOps) add(op *Operation) {
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
func (q *socketOps) remove(op *Operation) (late conn.Fate, canceled bool) {
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
	q.ended.Wake(-1)
	return late, canceled
}

// defers keeps the fate of a message whose operation is under way until the
// link has given back its memory, and tells whether it is.
func (q *socketOps) defers(f conn.Fate) bool {
	op := f.Op.Work.(*Operation)
	q.mu.Lock()
	defer q.mu.Unlock()
	if op.pending {
		op.late, op.canceled = f, true
	}
	return op.pending
}

// MemoryWait is how long Close and CancelSentTo wait for memory that a link has.
const MemoryWait = 5 * time.Second

// wait returns when the links have given back the memory of those operations
// under way that concerned tells, or with ErrBusy. They do so when the peer has
// answered or the connection is lost.
func (q *socketOps) wait(concerned func(*Operation) bool) error {
	if q.n.Load() == 0 {
		return nil
	}
	ops := slices.DeleteFunc(q.all(), func(op *Operation) bool { return !concerned(op) })
	ctx, cancel := context.WithTimeout(context.Background(), MemoryWait)
	defer cancel()
	for {
		w := q.ended.Add()
		var err error
		ended := q.gone(ops)
		if !ended {
			err = w.Wait(ctx)
		}
		q.ended.Done(w)
		switch {
		case ended:
			return nil
		case err != nil && !q.gone(ops):
			return datagram.ErrBusy
		}
	}
}

// all returns the operations under way.
func (q *socketOps) all() []*Operation {
	q.mu.Lock()
	defer q.mu.Unlock()
	var ops []*Operation
	for op := q.head; op != nil; op = op.next {
		ops = append(ops, op)
	}
	return ops
}

// gone tells whether none of ops is under way.
func (q *socketOps) gone(ops []*Operation) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, op := range ops {
		if op.pending {
			return false
		}
	}
	return true
}
