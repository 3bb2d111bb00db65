package daemon

import (
	"unsafe"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/transport"
)

// legacyOperation is an operation that waits with its message. Nothing of it has begun: the
// peer knows nothing of it.
type legacyOperation struct {
	ID              uint64 // given by the application
	Notify, Failure bool   // lentOperation has them
	Fence, Silent   bool
	Stale           bool // the peer has restarted since the operation was asked for
	Cost            int64
	Accesses        []legacyAccess
}

// legacyAccess is a transport.Operation.
type legacyAccess struct {
	Kind                 transport.OpKind
	Key                  uint32
	Addr                 uint64
	Add, AddMask         uint64
	Compare, CompareMask uint64
	Swap, SwapMask       uint64
	Local                []legacyPiece // none: an atomic, whose result is told with its end
}

// legacyPiece is a piece of the session's memory.
type legacyPiece struct{ Offset, Len uint32 }

// legacyOf describes an operation of an application, which has not begun. epoch is the
// connection's.
func legacyOf(core *conn.Operation, epoch uint32) *legacyOperation {
	op, l := core.Work.(*node.Operation), lentOf(core)
	out := &legacyOperation{
		ID: l.id, Notify: l.notify, Failure: l.failure, Fence: op.Core.Fence, Silent: op.Core.Silent, Stale: op.Core.Epoch != epoch, Cost: l.cost,
	}
	memory := uintptr(unsafe.Pointer(unsafe.SliceData(l.sess.memory)))
	for _, t := range op.Core.List {
		x := legacyAccess{
			Kind: t.Kind, Key: t.Key, Addr: t.Addr, Add: t.Add, AddMask: t.AddMask,
			Compare: t.Compare, CompareMask: t.CompareMask, Swap: t.Swap, SwapMask: t.SwapMask,
		}
		if t.Kind == transport.OpRead || t.Kind == transport.OpWrite {
			for _, b := range t.Local {
				x.Local = append(x.Local, legacyPiece{uint32(uintptr(unsafe.Pointer(unsafe.SliceData(b))) - memory), uint32(len(b))})
			}
		}
		out.Accesses = append(out.Accesses, x)
	}
	return out
}

// resumeOperation makes the operation of a message that the predecessor had queued.
func (x *session) resumeOperation(a *appSocket, p *node.Peer, q *legacyQueued) (*node.Operation, error) {
	in := q.Op
	op := &node.Operation{S: a.s, Peer: p, Dport: q.Dport}
	op.Lent = &lentOperation{sess: x, id: in.ID, notify: in.Notify, failure: in.Failure, cost: in.Cost}
	op.Core = conn.Operation{Work: op, List: op.Room[:0], Cost: node.OperationCost, Fence: in.Fence, Silent: in.Silent, Epoch: p.Epoch()}
	if in.Stale {
		op.Core.Epoch--
	}
	for i := range in.Accesses {
		y := &in.Accesses[i]
		if len(op.Core.List) == len(op.Room) {
			return nil, datagram.ErrInvalid
		}
		t := op.Add()
		t.Kind, t.Key, t.Addr, t.Add, t.AddMask = y.Kind, y.Key, y.Addr, y.Add, y.AddMask
		t.Compare, t.CompareMask, t.Swap, t.SwapMask = y.Compare, y.CompareMask, y.Swap, y.SwapMask
		for _, k := range y.Local {
			mem := x.piece(k.Offset, k.Len)
			if mem == nil {
				return nil, datagram.ErrInvalid
			}
			t.Local = append(t.Local, mem)
			op.Core.Cost += len(mem)
		}
		if t.Kind != transport.OpRead && t.Kind != transport.OpWrite {
			t.Local = op.Piece(unsafe.Slice((*byte)(unsafe.Pointer(&op.Found)), 8))
			op.Core.Cost += 8
		}
		if err := t.Validate(); err != nil {
			return nil, err
		}
	}
	op.Left.Store(int32(len(op.Core.List)))
	x.queued.Add(in.Cost)
	x.operations.Add(1)
	x.seg.hold()
	return op, nil
}
