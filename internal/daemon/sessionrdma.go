package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/transport"
)

// What an operation costs the daemon, in bytes of the session's budget, besides
// its message: opCost, and pieceCost for each of its pieces.
const (
	opCost    = 1 << 10
	pieceCost = 64
)

// sessionRegions is who all regions of a session belong to: a session may have as
// many as it leaves free, however many sockets it has, and its user has, and they end
// together.
type sessionRegions struct {
	sess *session

	mu    lockorder.Mutex[sessionRegions] // guards owner and over; locked before the locks of mr only
	owner *mr.Owner
	over  bool
}

// open returns the owner, nil if the session is over.
func (r *sessionRegions) open(d *mr.Device) *mr.Owner {
	user := r.sess.svc.regionsOf(r.sess.user, d)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owner == nil && !r.over {
		r.owner = d.NewOwner(mr.OwnerConfig{Name: fmt.Sprintf("session %d", r.sess.id), Within: user})
	}
	if r.over {
		return nil
	}
	return r.owner
}

// end ends all regions of the session. Each holds the session's memory until
// nothing touches it any more.
func (r *sessionRegions) end(log *zap.Logger) {
	r.mu.Lock()
	r.over = true
	owner := r.owner
	r.mu.Unlock()
	if owner == nil {
		return
	}
	if err := owner.Close(context.Background()); err != nil {
		log.Warn("memory of an application may be in use", zap.Error(err))
	}
}

// Bounds of calls that take their time.
const (
	maxBeside = 64                     // slow calls of a session at a time; further ones wait
	reachWait = 100 * time.Millisecond // wait for a connection; after it the application has to ask again
)

// beside makes a call that takes its time. Others that come meanwhile are
// answered, unless there are too many.
func (x *session) beside(call func()) {
	select {
	case x.aside <- struct{}{}:
		x.beginWork(func() {
			call()
			<-x.aside
		})
	default:
		call()
	}
}

// long does what a call asks for that takes its time, after all that was
// submitted before it.
func (x *session) long(q *ipc.Request) (*ipc.Reply, error) {
	x.mu.Lock()
	err := x.catchUp()
	a, ok := x.socket(q.Socket)
	if err == nil && (!ok || a == nil || a.closing) {
		err = net.ErrClosed
	}
	if err == nil && q.Op == ipc.CallCancel {
		err = x.cancel(a, q.Addr)
	}
	x.mu.Unlock()
	switch {
	case err != nil:
		return nil, err
	case q.Op == ipc.CallCancel:
		return new(ipc.Reply), a.s.AwaitMemory(q.Addr)
	case q.Op == ipc.CallConceal:
		return new(ipc.Reply), a.s.FreeMR(datagram.Cookie(q.Cookie), datagram.MRFlags(q.Flags))
	}
	p := x.node.PeerAt(q.Peer)
	if p == nil || p.Local != a.s.At {
		return nil, datagram.ErrInvalid
	}
	ctx, cancel := context.WithTimeout(context.Background(), reachWait)
	defer cancel()
	if err = a.s.AwaitOperators(ctx, p, q.Wait); errors.Is(err, context.DeadlineExceeded) {
		err = datagram.ErrWouldBlock
	}
	return new(ipc.Reply), err
}

// piece is n bytes at off of the session's memory, nil if they are not in it.
func (x *session) piece(off, n uint32) []byte {
	if uint64(off)+uint64(n) > uint64(len(x.memory)) {
		return nil
	}
	return x.memory[off : off+n : off+n]
}

// special gives a message what its submission says besides the payload. The caller
// holds mu.
func (x *session) special(e *ipc.Entry, a *appSocket, p *node.Peer, m *conn.Message) error {
	q := &x.about
	if !q.Load(x.data, e.Block()) {
		return errViolation
	}
	has := func(flag uint32) bool { return q.Flags&flag != 0 }
	o := datagram.Outgoing{Data: m.Payload, HasDest: has(ipc.AboutDest), Dest: datagram.Cookie(q.Dest)}
	if m.Body != nil {
		o.Data = m.Body.B
	}
	x.local = x.local[:0]
	for _, k := range q.Pieces {
		mem := x.piece(k.Offset, k.Length)
		if mem == nil || !has(ipc.AboutRDMA) {
			return errViolation
		}
		x.local = append(x.local, mem)
	}
	if has(ipc.AboutRDMA) {
		o.RDMA = &datagram.RDMA{
			Cookie: datagram.Cookie(q.Cookie), Offset: q.Offset, Local: x.local,
			Write: has(ipc.AboutWrite), Fence: has(ipc.AboutFence), Silent: has(ipc.AboutSilent),
		}
	}
	if has(ipc.AboutAtomic) {
		if q.Kind > uint32(datagram.MaskedCompareSwap) {
			return errViolation
		}
		o.Atomic = &datagram.Atomic{
			Cookie: datagram.Cookie(q.AtomicCookie), Offset: q.AtomicOffset, Kind: datagram.AtomicKind(q.Kind), Add: q.Add, AddMask: q.AddMask,
			Compare: q.Compare, CompareMask: q.CompareMask, Swap: q.Swap, SwapMask: q.SwapMask, Silent: has(ipc.AboutAtomicSilent),
		}
	}
	if socket.CheckSpecial(&o) != nil {
		return errViolation
	}
	if has(ipc.AboutExpires) {
		m.Deadline = ipc.HearLimit(q.Expires)
	}
	var op *node.Operation
	if o.RDMA != nil || o.Atomic != nil {
		both := new(struct {
			op   node.Operation
			lent lentOperation
		})
		both.lent = lentOperation{sess: x, id: q.ID, notify: m.Notify, failure: m.Failure, cost: int64(opCost + pieceCost*len(q.Pieces))}
		op = &both.op
		op.Init(a.s, p, &o, m.Dport)
		op.Lent = &both.lent
		m.Notify = true // the end of the operation has to be known
		x.queued.Add(both.lent.cost)
		x.operations.Add(1)
		x.seg.hold()
	}
	a.s.Extend(m, p, op, wire.Memory{HasDest: o.HasDest, Dest: uint64(o.Dest)})
	return nil
}

// lentOperation is what an operation of an attached application has besides one
// of this process.
type lentOperation struct {
	sess    *session
	id      uint64 // the operation's id, given by the application
	notify  bool   // the application wants to be told of the operation's end
	failure bool   // the application wants to be told of the operation's end unless that is success
	cost    int64
}

// lentOf is what an application's operation has besides.
func lentOf(op *conn.Operation) *lentOperation {
	return op.Work.(*node.Operation).Lent.(*lentOperation)
}

// completion is the entry that tells the end of an application's operation.
func completion(op *node.Operation, socket uint32, status datagram.Status) ipc.Entry {
	l := op.Lent.(*lentOperation)
	flags := uint8(0)
	if l.notify || l.failure && status != datagram.StatusSuccess {
		flags = ipc.FlagTold
	}
	return ipc.MakeEntry(ipc.OpDone, flags, 0, socket, 0, uint32(status), uint32(op.Found), uint32(op.Found>>32), l.id)
}

// hushed tells whether the application need not hear of the end at once: what it
// gets then is memory that it is free to write to.
func hushed(op *node.Operation) bool {
	l := op.Lent.(*lentOperation)
	return !l.notify && !l.failure && len(op.Core.List) == 1 && op.First.Kind == transport.OpWrite
}

// Ended is for node.Owner.
func (a *appSocket) Ended(f conn.Fate) {
	a.s.Fate(f)
	if f.Op != nil {
		a.sess.endOperation(lentOf(f.Op))
	}
}

// Regions is for node.Owner.
func (a *appSocket) Regions(d *mr.Device) *mr.Owner { return a.sess.regions.open(d) }

// CloseRegions is for node.Owner: the session's other sockets have the owner, too.
func (a *appSocket) CloseRegions(o *mr.Owner) error { return o.Barrier(context.Background()) }

// Lend is for node.Owner.
func (a *appSocket) Lend() (released func()) {
	a.sess.seg.hold()
	return a.sess.seg.drop
}

// Retired tells the application that a region for one use has ended.
func (a *appSocket) Retired(k mr.Key) {
	a.sess.out.report(ipc.MakeEntry(ipc.OpRetired, 0, 0, a.id, 0, 0, uint32(k), 0, 0))
}
