package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/rds-go/rds/transport/iwarp"
)

// worker posts operations one after the other. Its goroutine posts; those that
// poll tell it by ended and answered what has become of each request.
type worker struct {
	run    *chernobylRun
	index  int
	reqs   []iwarp.WorkRequest
	parts  int32         // events that make up an operation
	left   atomic.Int32  // events that the operation under way still lacks
	status atomic.Uint32 // status of the first request that failed
	refuse atomic.Int32  // requests that were refused for their key
	wake   chan struct{} // cap 1: has a token when left is 0
	hist   *hdrhistogram.Histogram
}

// ended is called for each request that has completed.
func (w *worker) ended(status iwarp.Status) {
	switch status {
	case iwarp.Success:
	case iwarp.RemoteAccess:
		w.refuse.Add(1)
		fallthrough
	default:
		w.status.CompareAndSwap(0, uint32(status))
	}
	w.done()
}

// done is called for each part of an operation that is over.
func (w *worker) done() {
	if w.left.Add(-1) == 0 {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// operate posts the requests and waits for their end.
func (w *worker) operate() error {
	w.left.Store(w.parts)
	if _, err := w.run.v.qp.PostSend(w.reqs...); err != nil {
		return err
	}
	select {
	case <-w.wake:
		return nil
	case <-w.run.v.qp.Done(): // a plain connection has ended: all is sent, and no answer comes
		w.status.CompareAndSwap(0, uint32(iwarp.Flushed))
		return nil
	case <-w.run.v.ctx.Done():
		return w.run.v.ctx.Err()
	}
}

// work writes and tells of it until the run stops. It ends too when an
// operation fails: without shared queues there is no connection any more.
func (w *worker) work() error {
	size := w.run.c.work.Size
	mem := w.run.v.mem
	at, note := w.run.source(w.index), w.run.note(w.index)
	base := w.run.entries[w.index].addr
	for n := uint64(0); !w.run.stop.Load(); n++ {
		fillPlace(mem[at:at+size], w.index, n)
		putMessage(mem[note:note+messageSize], w.index, n)
		w.reqs[0].RemoteAddr = base + n%places*uint64(size)
		begun := time.Now()
		if err := w.operate(); err != nil {
			return err
		}
		if w.status.Load() != 0 {
			w.run.errors.Add(1)
			return nil
		}
		if w.run.measure.Load() {
			w.hist.RecordValue(min(int64(time.Since(begun)), maxLatency))
		}
		w.run.done.Add(1)
	}
	return nil
}

// newWorker makes one whose operation is a Write and a message that builds on
// it.
func (r *chernobylRun) newWorker(i int) *worker {
	w := &worker{run: r, index: i, parts: 2, wake: make(chan struct{}, 1), hist: newSmallHist()}
	e := r.entries[i]
	w.reqs = []iwarp.WorkRequest{
		{ID: uint64(i), Op: iwarp.OpWrite, Flags: iwarp.Signaled, SGE: []iwarp.SGE{r.v.region.SGE(r.source(i), r.c.work.Size)}, RemoteKey: e.key},
		{ID: uint64(i), Op: iwarp.OpSend, Flags: iwarp.Signaled, Inline: r.v.mem[r.note(i):][:messageSize]},
	}
	if r.plain {
		w.parts++ // the answer is a part
	} else {
		w.reqs[1].Queue, w.reqs[1].Writes = uint32(i+1), 1
	}
	return w
}

// newRogue makes the worker whose keys are bad: a stale key, the end of the
// region, a right that there is not, and a message that builds on a Write.
func (r *chernobylRun) newRogue() *worker {
	i := len(r.workers)
	e, size := r.entries[i], r.c.work.Size
	local := []iwarp.SGE{r.v.region.SGE(r.source(i), size)}
	w := &worker{run: r, index: i, wake: make(chan struct{}, 1), reqs: []iwarp.WorkRequest{
		{Op: iwarp.OpWrite, RemoteKey: e.key, RemoteAddr: e.addr + uint64(places*size) - uint64(size/2)},
		{Op: iwarp.OpWrite, RemoteKey: e.key + 1, RemoteAddr: e.addr},
		{Op: iwarp.OpRead, RemoteKey: e.key + 1, RemoteAddr: e.addr},
		{Op: iwarp.OpRead, RemoteKey: e.key, RemoteAddr: e.addr},
	}}
	for k := range w.reqs {
		w.reqs[k].SGE = local
	}
	if size == 1 { // half of one byte is none
		w.reqs[0].RemoteAddr += 2
	}
	if !r.plain {
		w.reqs = append(w.reqs, iwarp.WorkRequest{Op: iwarp.OpSend, Queue: uint32(i + 1), Writes: 1, Inline: r.v.mem[r.note(i):][:messageSize]})
		w.reqs[4], w.reqs[2] = w.reqs[2], w.reqs[4] // the message comes right after the Write
	}
	for k := range w.reqs {
		w.reqs[k].ID, w.reqs[k].Flags = uint64(i), iwarp.Signaled
	}
	w.parts = int32(len(w.reqs))
	return w
}

// provoke posts bad requests until end is closed, at least once. Each of them has to be
// refused; on a plain connection the first is the end for all workers.
func (w *worker) provoke(end <-chan struct{}) error {
	for {
		w.refuse.Store(0)
		if err := w.operate(); err != nil {
			return err
		}
		n := w.refuse.Load()
		w.run.refused.Add(uint64(n))
		switch {
		case w.run.plain: // the plain connection has ended
			w.run.until(w.run.over)
			return nil
		case n != w.parts:
			return fmt.Errorf("%d of %d requests with bad keys were refused, one ended with %v", n, w.parts, iwarp.Status(w.status.Load()))
		}
		select {
		case <-end:
			return nil
		default:
		}
	}
}

// complete tells the workers what has completed, until the run's end.
func (r *chernobylRun) complete() error {
	comps := make([]iwarp.Completion, 256)
	for {
		k := r.v.send.Poll(comps)
		for i := range comps[:k] {
			c := &comps[i]
			if c.ID == uint64(len(r.workers)) {
				r.rogue.ended(c.Status)
			} else {
				r.workers[c.ID].ended(c.Status)
			}
		}
		if k > 0 {
			continue
		}
		if err := r.v.send.Wait(r.v.ctx); err != nil {
			return err
		}
	}
}

// answers tells the workers what the server has answered on a plain
// connection, until that or the run ends.
func (r *chernobylRun) answers(in *receiver) error {
	comps := make([]iwarp.Completion, 64)
	for {
		k, err := r.v.take(r.v.recv, comps)
		if err != nil { // completions tell the workers of the error too
			return nil
		}
		for i := range comps[:k] {
			for b := in.memory(&comps[i]); len(b) >= answerSize; b = b[answerSize:] {
				i := binary.LittleEndian.Uint32(b)
				if i >= uint32(len(r.workers)) {
					return errors.New("an answer for nobody")
				}
				r.workers[i].done()
			}
		}
		if err := in.repost(k); err != nil {
			return nil
		}
	}
}
