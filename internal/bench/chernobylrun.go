package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/transport/iwarp"
)

// sampleEvery is the width of a Sample, if the run has twelve of them.
const sampleEvery = 100 * time.Millisecond

// chernobylRun is the client's side of a run. Its memory: the directory, what
// each worker writes, the note each has for its messages, room for answers.
type chernobylRun struct {
	c       *cell
	plain   bool
	v       *verbs
	entries []remoteRegion
	workers []*worker
	rogue   *worker

	stop    atomic.Bool   // the workers end
	measure atomic.Bool   // latencies count
	done    atomic.Uint64 // operations of the workers
	errors  atomic.Uint64 // those that failed
	refused atomic.Uint64 // requests of the rogue
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
	r := &chernobylRun{c: c, plain: c.transport == Plain}
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
	res, err := r.measured()
	r.stop.Store(true)
	if err != nil {
		return res, err
	}
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

// measured is the three thirds.
func (r *chernobylRun) measured() (Result, error) {
	c := r.c
	m, err := c.begin()
	if err != nil {
		return Result{}, err
	}
	t := &Thirds{}
	r.measure.Store(true)
	series := r.sample(m.start)
	first := r.done.Load()
	for third := range thirds {
		var rogue func() error
		if third == 1 {
			rogue = r.provoke()
		}
		from, before := time.Now(), r.done.Load()
		c.sleep(c.opts.Duration / thirds)
		t.Rates[third] = float64(r.done.Load()-before) / time.Since(from).Seconds()
		if rogue != nil {
			if err := rogue(); err != nil {
				series()
				return Result{}, err
			}
		}
	}
	t.Series = series()
	r.measure.Store(false)
	res, err := c.end(m, r.done.Load()-first, c.work.Size)
	t.Refused = r.refused.Load()
	res.Thirds, res.TCPConns = t, int(r.v.dev.Stats().Connected)
	return res, err
}

// provoke starts the rogue. The function returned ends it and waits for it.
func (r *chernobylRun) provoke() func() error {
	end, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- r.rogue.provoke(end) }()
	return func() error {
		close(end)
		return <-ended
	}
}

// sample looks at the counters again and again. The function returned ends
// that, and returns what was seen.
func (r *chernobylRun) sample(start time.Time) func() []Sample {
	var series []Sample
	ctx, cancel := context.WithCancel(r.c.hard)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(max(time.Millisecond, min(sampleEvery, r.c.opts.Duration/12)))
		defer tick.Stop()
		at, done, refused := time.Now(), r.done.Load(), r.refused.Load()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			now, d, f := time.Now(), r.done.Load(), r.refused.Load()
			s := now.Sub(at).Seconds()
			series = append(series, Sample{now.Sub(start).Seconds(), float64(d-done) / s, float64(f-refused) / s})
			at, done, refused = now, d, f
		}
	})
	return func() []Sample {
		cancel()
		wg.Wait()
		return series
	}
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
