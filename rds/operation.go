package rds

import (
	"context"
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
	path  int // that it was begun on, guarded by peer.mu
	bytes int // of local memory

	each  [2]transport.Operation
	list  []*transport.Operation // each, as many as there are
	left  atomic.Int32           // of list not done
	worst atomic.Uint32          // transport.OpStatus of those done
	local [1][]byte              // of the atomic one
	late  *conn.Fate             // of its message, canceled meanwhile; guarded by socketOps.mu
	lent  *lentOperation         // of an attached application; nil: this process's
}

// newOperation makes the operation of a checked message, nil if it has none.
func newOperation(s *nodeSocket, p *peer, o *Outgoing, dport uint16) *operation {
	if o.RDMA == nil && o.Atomic == nil {
		return nil
	}
	op := &operation{s: s, peer: p, dport: dport}
	op.core = conn.Operation{Work: op, Silent: o.size() == 0}
	op.list = make([]*transport.Operation, 0, len(op.each))
	if r := o.RDMA; r != nil {
		t := op.add()
		t.Kind = transport.OpRead
		if r.Write {
			t.Kind = transport.OpWrite
		}
		t.Local = append([][]byte(nil), r.Local...) // the caller's slice of slices is not kept
		t.Key, t.Addr = r.Cookie.Key(), uint64(r.Cookie.Offset())+r.Offset
		for _, b := range r.Local {
			op.bytes += len(b)
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
			result = new(uint64)
		}
		op.local[0] = unsafe.Slice((*byte)(unsafe.Pointer(result)), 8)
		t.Local = op.local[:]
		op.bytes += 8
		op.core.Silent = op.core.Silent && a.Silent
	}
	op.left.Store(int32(len(op.list)))
	return op
}

func (op *operation) add() *transport.Operation {
	t := &op.each[len(op.list)]
	t.Done = op.done
	op.list = append(op.list, t)
	return t
}

// used is the key that the message behind the operation names to its receiver.
func (op *operation) used() mr.Key { return mr.Key(op.each[0].Key) }

// done is transport.Operation.Done.
func (op *operation) done(_ *transport.Operation, status transport.OpStatus) {
	for {
		old := op.worst.Load()
		if uint32(status) <= old || op.worst.CompareAndSwap(old, uint32(status)) {
			break
		}
	}
	if op.left.Add(-1) > 0 {
		return
	}
	late := op.s.ops.remove(op)
	op.peer.operated(op)
	if late != nil {
		op.s.ended(*late)
		if op.s.app != nil {
			op.s.app.deliver()
		}
	}
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
	n       atomic.Int64
	ended   waitQueue
	mu      sync.Mutex
	pending map[*operation]struct{}
}

func (q *socketOps) add(op *operation) {
	q.mu.Lock()
	if q.pending == nil {
		q.pending = make(map[*operation]struct{})
	}
	q.pending[op] = struct{}{}
	q.n.Store(int64(len(q.pending)))
	q.mu.Unlock()
}

// remove forgets an operation and returns the fate that has waited for it.
func (q *socketOps) remove(op *operation) *conn.Fate {
	q.mu.Lock()
	delete(q.pending, op)
	q.n.Store(int64(len(q.pending)))
	late := op.late
	op.late = nil
	q.mu.Unlock()
	q.ended.wake(-1)
	return late
}

// defers keeps the fate of a message whose operation is under way until the
// link has given back its memory, and tells whether it is.
func (q *socketOps) defers(f conn.Fate) bool {
	op := f.Op.Work.(*operation)
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.pending[op]; !ok {
		return false
	}
	op.late = &f
	return true
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
	var ops []*operation
	q.mu.Lock()
	for op := range q.pending {
		if concerned(op) {
			ops = append(ops, op)
		}
	}
	q.mu.Unlock()
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

// gone tells whether none of ops is under way.
func (q *socketOps) gone(ops []*operation) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, op := range ops {
		if _, ok := q.pending[op]; ok {
			return false
		}
	}
	return true
}
