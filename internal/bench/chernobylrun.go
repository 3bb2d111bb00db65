package bench

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/rds-go/rds/transport/iwarp"
)

// chernobylRun is the client's side of a run. Its memory: the directory, what
// each worker writes, the note each has for its messages, room for answers.
type chernobylRun struct {
	thirdsRun
	plain   bool
	v       *verbs
	entries []remoteRegion
	workers []*worker
	rogue   *worker
}

func (r *chernobylRun) source(worker int) int {
	return (r.c.work.Workers+1)*directoryLen + worker*r.c.work.Size
}
func (r *chernobylRun) note(worker int) int {
	return r.source(r.c.work.Workers+1) + worker*messageSize
}
func (r *chernobylRun) room() int { return r.note(r.c.work.Workers + 1) }

// chernobyl has workers write and send over one connection, and in the second
// third of the time one more whose keys are bad.
func (c *cell) chernobyl() (Result, error) {
	if !c.work.Verbs {
		return c.chernobylSockets()
	}
	r := &chernobylRun{thirdsRun: thirdsRun{c: c}, plain: c.transport == Plain}
	answers := 0
	if r.plain {
		answers = c.work.Workers
	}
	var in *receiver
	v, end, err := c.dialVerbs(r.room()+answers*inlineMost, func(v *verbs) (err error) {
		if !r.plain {
			v.shared = sending()
			return nil
		}
		in, err = newReceiver(v, r.room(), inlineMost, answers)
		return err
	})
	if err != nil {
		return Result{}, err
	}
	r.v = v
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()
	if err := r.directory(); err != nil {
		return Result{}, err
	}
	for i := range c.work.Workers {
		r.workers = append(r.workers, r.newWorker(i))
	}
	r.rogue = r.newRogue()
	background := func(f func() error) {
		wg.Go(func() {
			if err := f(); err != nil && v.ctx.Err() == nil {
				c.lose(err)
			}
		})
	}
	background(r.complete)
	if r.plain {
		background(func() error { return r.answers(in) })
	}
	var workers sync.WaitGroup
	defer workers.Wait()
	defer end()
	for _, w := range r.workers {
		workers.Go(func() {
			if err := w.work(); err != nil {
				c.lose(fmt.Errorf("worker %d: %w", w.index, err))
			}
		})
	}
	c.sleep(c.opts.Warmup)
	res, err := r.measured(1, r.rogue.provoke)
	r.stop.Store(true)
	if err != nil {
		return res, err
	}
	res.TCPConns = int(v.dev.Stats().Connected)
	workers.Wait()
	return res, r.confirm(&res)
}

// directory reads where the workers' regions are.
func (r *chernobylRun) directory() error {
	n := r.c.work.Workers + 1
	_, err := r.v.qp.PostSend(iwarp.WorkRequest{
		Op: iwarp.OpRead, Flags: iwarp.Signaled, SGE: []iwarp.SGE{r.v.region.SGE(0, n*directoryLen)},
		RemoteKey: r.v.remote.key, RemoteAddr: r.v.remote.addr,
	})
	if err != nil {
		return err
	}
	var comps [1]iwarp.Completion
	if _, err := r.v.take(r.v.send, comps[:]); err != nil {
		return err
	}
	for i := range n {
		r.entries = append(r.entries, entry(r.v.mem, i))
	}
	return nil
}

// failures tells how the first workers have failed.
func (r *chernobylRun) failures() string {
	var list []string
	for _, w := range r.workers {
		if s := w.status.Load(); s != 0 && len(list) < 8 {
			list = append(list, fmt.Sprintf("worker %d: %v", w.index, iwarp.Status(s)))
		}
	}
	return strings.Join(list, ", ")
}

// confirm completes the result when the workers have ended. Without errors the
// server has as many messages as operations have ended well.
func (r *chernobylRun) confirm(res *Result) error {
	res.hist = newHist()
	for _, w := range r.workers {
		res.hist.Merge(w.hist)
	}
	res.Latency = latencyOf(res.hist)
	t, done := res.Thirds, r.done.Load()
	t.Errors = r.errors.Load()
	switch {
	case r.plain:
		snap, err := r.c.ask(request{Op: opSnap})
		t.Unanswered = max(snap.Count, done) - done
		return err
	case t.Errors > 0:
		return errors.Join(fmt.Errorf("%d operations with good keys failed: %s", t.Errors, r.failures()), r.v.qp.Err())
	}
	_, err := r.c.ask(request{Op: opConfirm, Count: done})
	return err
}
