package rdma

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp"
)

// operations are those under way on a link.
type operations struct {
	mu      sync.Mutex
	running map[uint64]*running // guarded by mu; by the ID of their last work request
	next    uint64              // guarded by mu
	posted  int                 // guarded by mu: work requests that have not completed
	want    bool                // guarded by mu: somebody waits for room
	over    bool                // guarded by mu: the link has ended
	cancel  context.CancelFunc  // guarded by mu: ends who takes completions, nil if nobody does
	done    chan struct{}       // closed by it
}

// running is an operation that was begun.
type running struct {
	op     *transport.Operation
	status transport.OpStatus
	left   int // work requests that have not completed
	keys   []mr.Key
	bounce []byte // instead of Local, where that has many pieces
	word   []byte // what an atomic has found

	sge     [iwarp.MaxSGE]iwarp.SGE // of the first work request, while it is posted
	keyRoom [2]mr.Key               // of keys
}

// pieces is how many pieces of local memory an operation is done with; where there
// are more they are gathered, or scattered, by a copy.
const pieces = 16

var errTooMuch = errors.New("rdma: operations of one message exceed the queue")

// Operate begins ops, all or none.
func (l *link) Operate(ops []*transport.Operation) (bool, error) {
	o := &l.ops
	reqs, runs := l.reqs[:0], l.runs[:0]
	defer func() {
		clear(reqs)
		clear(runs)
		l.reqs, l.runs = reqs, runs
	}()
	fail := func(err error) (bool, error) {
		for _, r := range runs {
			l.unmap(r)
		}
		return false, err
	}
	writes := uint32(0)
	for _, op := range ops {
		r := &running{op: op}
		runs = append(runs, r)
		r.keys = r.keyRoom[:0]
		before := len(reqs)
		var err error
		if reqs, err = l.requests(r, reqs); err != nil {
			return fail(err)
		}
		if r.left = len(reqs) - before; op.Kind == transport.OpWrite {
			writes += uint32(r.left)
		}
	}
	if len(reqs) > l.t.opts.Operations {
		return fail(errTooMuch)
	}
	o.mu.Lock()
	if o.over || o.posted+len(reqs) > l.t.opts.Operations {
		o.want = true
		o.mu.Unlock()
		return fail(nil)
	}
	if o.running == nil {
		o.running = make(map[uint64]*running)
	}
	i, first := 0, o.next
	for _, r := range runs {
		for range r.left {
			reqs[i].ID = o.next
			o.running[o.next] = r
			o.next++
			i++
		}
	}
	o.posted += len(reqs)
	if o.cancel == nil {
		var ctx context.Context
		ctx, o.cancel = context.WithCancel(context.Background())
		o.done = make(chan struct{})
		go l.complete(ctx)
	}
	o.mu.Unlock()
	// There is room for all, and they are good. A queue pair in error takes them too.
	if n, _ := l.qp.PostSend(reqs...); n < len(reqs) && l.withdraw(first) {
		return fail(nil) // the link is draining, and its end follows
	}
	l.after, l.builds = true, writes
	return true, nil
}

// withdraw takes back the work requests from an ID on, none of which was posted. It
// is false if they were given up already, with the link.
func (l *link) withdraw(first uint64) bool {
	o := &l.ops
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		return false
	}
	for id := first; id != o.next; id++ {
		delete(o.running, id)
		o.posted--
	}
	return true
}

// requests makes the work requests of an operation.
func (l *link) requests(r *running, list []iwarp.WorkRequest) ([]iwarp.WorkRequest, error) {
	op := r.op
	if err := op.Validate(); err != nil {
		return list, err
	}
	w := iwarp.WorkRequest{RemoteKey: mr.Key(op.Key), RemoteAddr: op.Addr}
	switch op.Kind {
	case transport.OpWrite:
		w.Op = iwarp.OpWrite
	case transport.OpRead:
		w.Op = iwarp.OpRead
	default:
		w.Op, w.Add, w.AddMask = iwarp.OpFetchAdd, op.Add, op.AddMask
		if op.Kind == transport.OpCompareSwap {
			w.Op, w.Compare, w.CompareMask, w.Swap, w.SwapMask = iwarp.OpCompareSwap, op.Compare, op.CompareMask, op.Swap, op.SwapMask
		}
		r.word = make([]byte, 8)
		sge, err := l.lend(r, r.word)
		r.sge[0] = sge
		w.SGE = r.sge[:1]
		return append(list, w), err
	}
	local, total := op.Local, 0
	for _, p := range local {
		total += len(p)
	}
	if len(local) > pieces {
		r.bounce = make([]byte, 0, total)
		if op.Kind == transport.OpWrite {
			for _, p := range local {
				r.bounce = append(r.bounce, p...)
			}
		}
		r.bounce = r.bounce[:total]
		local = [][]byte{r.bounce}
	}
	per := iwarp.MaxSGE
	if op.Kind == transport.OpRead {
		per = 1
	}
	begun := len(list)
	for len(local) > 0 || len(list) == begun {
		w.SGE = nil
		if len(list) == begun {
			w.SGE = r.sge[:0]
		}
		n := uint64(0)
		for len(local) > 0 && len(w.SGE) < per {
			if p := local[0]; len(p) > 0 {
				sge, err := l.lend(r, p)
				if err != nil {
					return list, err
				}
				w.SGE = append(w.SGE, sge)
				n += uint64(len(p))
			}
			local = local[1:]
		}
		list = append(list, w)
		w.RemoteAddr += n
	}
	return list, nil
}

// lend gives local memory a key for the time of an operation.
func (l *link) lend(r *running, p []byte) (iwarp.SGE, error) {
	key, err := l.t.owner.Register(p, mr.Options{Domain: l.t.domain, Rights: mr.LocalWrite})
	if err != nil {
		return iwarp.SGE{}, err
	}
	r.keys = append(r.keys, key)
	return iwarp.SGE{Key: key, Len: uint32(len(p))}, nil
}

func (l *link) unmap(r *running) {
	for _, k := range r.keys {
		_ = l.t.owner.Free(k)
	}
	r.keys = nil
}

// complete takes completions until ctx ends, and then what is there.
func (l *link) complete(ctx context.Context) {
	defer close(l.ops.done)
	var list [32]iwarp.Completion
	for ended := false; ; {
		n := l.cq.Poll(list[:])
		for _, c := range list[:n] {
			l.completed(c)
		}
		switch {
		case n > 0:
		case ended:
			return
		default:
			ended = l.cq.Wait(ctx) != nil // and something may have come with that
		}
	}
}

// outstanding is the number of work requests that have not completed.
func (o *operations) outstanding() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.posted
}

// endOperations follows the end of the queue pair: all that was posted has
// completed. What is being posted at this moment is given up.
func (l *link) endOperations() {
	o := &l.ops
	o.mu.Lock()
	o.over = true
	cancel := o.cancel
	o.mu.Unlock()
	if cancel == nil {
		return
	}
	cancel()
	<-o.done
	o.mu.Lock()
	left := o.running
	o.running = nil
	o.mu.Unlock()
	for _, r := range left {
		if r.left--; r.left == 0 {
			l.unmap(r)
			r.op.Done(r.op, transport.OpLost)
		}
	}
}

// completed takes the end of one work request.
func (l *link) completed(c iwarp.Completion) {
	o := &l.ops
	o.mu.Lock()
	r := o.running[c.ID]
	delete(o.running, c.ID)
	o.posted--
	wake := o.want
	if wake {
		o.want = false
	}
	done := false
	if r != nil {
		if s := opStatus(c.Status); s != transport.OpSuccess && (r.status == transport.OpSuccess || s == transport.OpRefused) {
			r.status = s
		}
		r.left--
		done = r.left == 0
	}
	o.mu.Unlock()
	if done {
		l.unmap(r)
		r.deliver()
		r.op.Done(r.op, r.status)
	}
	if wake {
		l.writable()
	}
}

// deliver puts what was read where it belongs.
func (r *running) deliver() {
	if r.status != transport.OpSuccess {
		return
	}
	switch {
	case r.word != nil:
		binary.NativeEndian.PutUint64(r.op.Local[0], binary.NativeEndian.Uint64(r.word))
	case r.bounce != nil && r.op.Kind == transport.OpRead:
		b := r.bounce
		for _, p := range r.op.Local {
			b = b[copy(p, b):]
		}
	}
}

func opStatus(s iwarp.Status) transport.OpStatus {
	switch s {
	case iwarp.Success:
		return transport.OpSuccess
	case iwarp.RemoteAccess, iwarp.RemoteInvalid, iwarp.RemoteOperation, iwarp.BadResponse:
		return transport.OpRefused
	case iwarp.Flushed:
		return transport.OpLost
	}
	return transport.OpFailed
}
