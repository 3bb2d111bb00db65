package xrc

import (
	"errors"
	"math/bits"
	"slices"

	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp"
)

// operations are those under way on a link.
type operations struct {
	sges  []iwarp.SGE // scratch of operate, for its caller
	ended []*running  // scratch of completed, for who has link.taking

	mu      lockorder.Mutex[operations]
	running []*running // guarded by mu; a ring, by the ID of each work request; as they are posted so they complete
	next    uint64     // guarded by mu: the next ID
	posted  int        // guarded by mu: work requests that have not completed
	want    bool       // guarded by mu: somebody waits for room
	over    bool       // guarded by mu: the link has ended
	free    []*running // guarded by mu: to use again
}

// running is an operation that was begun.
type running struct {
	op     *transport.Operation
	status transport.OpStatus
	key    mr.Key // key of the local memory that the peer's answer names, 0: none
	found  []byte // takes the peer's answer instead of Local: the word of an atomic, or a read into several pieces
}

var errTooMuch = errors.New("xrc: operations of one message exceed the queue")

// take returns a running operation for each of n.
func (o *operations) take(runs []*running, n int) []*running {
	o.mu.Lock()
	defer o.mu.Unlock()
	for range n {
		if k := len(o.free); k > 0 {
			runs = append(runs, o.free[k-1])
			o.free = o.free[:k-1]
		} else {
			runs = append(runs, new(running))
		}
	}
	return runs
}

// putLocked takes them back.
func (o *operations) putLocked(runs []*running) {
	for _, r := range runs {
		*r = running{}
	}
	o.free = append(o.free, runs...)
}

// operate begins ops on memory of the program that has a port of the peer's, all or none; a
// message follows them or does not. An error is about the operations.
func (l *link) operate(ops []*transport.Operation, port uint16, message bool) (bool, error) {
	o := &l.ops
	reqs, runs := l.reqs[:0], o.take(l.runs[:0], len(ops))
	defer func() {
		clear(reqs)
		clear(runs)
		l.reqs, l.runs = reqs, runs
	}()
	fail := func(err error) (bool, error) {
		for _, r := range runs {
			l.unmap(r)
		}
		o.mu.Lock()
		o.putLocked(runs)
		o.mu.Unlock()
		return false, err
	}
	o.sges = o.sges[:0]
	for i, op := range ops {
		r := runs[i]
		r.op = op
		w, err := l.request(r, port)
		if err != nil {
			return fail(err)
		}
		reqs = append(reqs, w)
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
		o.running = make([]*running, 1<<bits.Len(uint(l.t.opts.Operations-1)))
	}
	first := o.next
	for i, r := range runs {
		reqs[i].ID = opsIndex<<32 | o.next&(1<<32-1)
		*o.at(o.next) = r
		o.next++
	}
	o.posted += len(reqs)
	o.mu.Unlock()
	// All are good, and a queue pair in error takes them too. There is room for all but behind
	// a long read of a channel, where messages of channels keep their places.
	post := l.qp.PostAll
	if message {
		post = l.qp.PostFirst
	}
	err := post(reqs...)
	if err == iwarp.ErrQueueFull {
		o.mu.Lock()
		o.want = true
		o.mu.Unlock()
		err = post(reqs...) // the read may have ended before somebody wanted to know
	}
	if err != nil && l.withdraw(first) {
		return fail(nil) // the link is draining, and its end follows, or its queue is full
	}
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
	for o.next != first {
		o.next--
		*o.at(o.next) = nil
		o.posted--
	}
	return true
}

// at is the place of a work request.
func (o *operations) at(id uint64) **running { return &o.running[id&uint64(len(o.running)-1)] }

// request makes the work request of an operation on memory of the program that has a port. It is
// one, because each is a use of a use-once region: local memory that one cannot name is gathered or scattered by a copy.
func (l *link) request(r *running, port uint16) (iwarp.WorkRequest, error) {
	op := r.op
	w := iwarp.WorkRequest{Op: iwarp.OpWrite, RemoteKey: mr.Key(op.Key)}
	if err := op.Validate(); err != nil {
		return w, err
	}
	reaches(&w, port, op.Addr)
	total := op.Size()
	switch op.Kind {
	case transport.OpWrite:
		if w.Local = op.Local; len(w.Local) > iwarp.MaxSGE {
			w.Local = [][]byte{slices.Concat(op.Local...)}
		}
		return w, nil
	case transport.OpRead:
		w.Op = iwarp.OpRead
		switch {
		case total == 0:
			return w, nil
		case len(op.Local) == 1:
			return w, l.lend(r, op.Local[0], &w)
		}
	case transport.OpFetchAdd:
		w.Op, w.Add, w.AddMask = iwarp.OpFetchAdd, op.Add, op.AddMask
	default:
		w.Op, w.Compare, w.CompareMask, w.Swap, w.SwapMask = iwarp.OpCompareSwap, op.Compare, op.CompareMask, op.Swap, op.SwapMask
	}
	r.found = make([]byte, total)
	return w, l.lend(r, r.found, &w)
}

// lend gives local memory, which the peer's answer names, a key for the time of an
// operation.
func (l *link) lend(r *running, p []byte, w *iwarp.WorkRequest) error {
	key, err := l.t.owner.Register(p, mr.Options{Domain: l.t.domain, Rights: mr.LocalWrite})
	if err != nil {
		return err
	}
	r.key = key
	o := &l.ops
	o.sges = append(o.sges, iwarp.SGE{Key: key, Len: uint32(len(p))})
	w.SGE = o.sges[len(o.sges)-1:]
	return nil
}

func (l *link) unmap(r *running) {
	if r.key != 0 {
		_ = l.t.owner.Free(r.key)
		r.key = 0
	}
}

// outstanding is the number of work requests that have not completed.
func (o *operations) outstanding() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.posted
}

// endOperations follows the end of the queue pair: all that was posted has completed, and
// was taken. What is being posted at this moment is given up.
func (l *link) endOperations() {
	o := &l.ops
	o.mu.Lock()
	o.over = true
	left := o.running
	o.running = nil
	o.mu.Unlock()
	for _, r := range left {
		if r == nil {
			continue
		}
		l.unmap(r)
		r.op.Done(r.op, transport.OpLost)
	}
}

// completed takes the ends of work requests.
func (l *link) completed(list []iwarp.Completion) {
	o := &l.ops
	ended := o.ended[:0]
	o.mu.Lock()
	for i := range list {
		c := &list[i]
		at := o.at(c.ID)
		r := *at
		if *at = nil; r == nil {
			continue
		}
		r.status = opStatus(c.Status)
		ended = append(ended, r)
	}
	o.posted -= len(list)
	o.mu.Unlock()
	for _, r := range ended {
		l.unmap(r)
		r.deliver()
		r.op.Done(r.op, r.status)
	}
	o.mu.Lock()
	o.putLocked(ended)
	o.mu.Unlock()
	clear(ended)
	o.ended = ended
}

// roomForOperations tells who waits for room that work requests have completed.
func (l *link) roomForOperations() {
	o := &l.ops
	o.mu.Lock()
	wake := o.want
	o.want = false
	o.mu.Unlock()
	if wake {
		l.writable()
	}
}

// deliver puts what was read where it belongs.
func (r *running) deliver() {
	if r.status != transport.OpSuccess {
		return
	}
	b := r.found
	for _, p := range r.op.Local {
		b = b[copy(p, b):]
	}
}

// opStatus translates the end of a work request. Only a refused access has not happened
// for certain: the others of the peer's and of its responses end the connection, and it
// may have been done before.
func opStatus(s iwarp.Status) transport.OpStatus {
	switch s {
	case iwarp.Success:
		return transport.OpSuccess
	case iwarp.RemoteAccess:
		return transport.OpRefused
	case iwarp.Flushed, iwarp.RemoteInvalid, iwarp.RemoteOperation, iwarp.BadResponse:
		return transport.OpLost
	}
	return transport.OpFailed
}
