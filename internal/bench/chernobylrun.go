package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// sampleEvery is the width of a Sample, if the run has twelve of them.
const sampleEvery = 100 * time.Millisecond

// readEvery: of so many operations of a socket one is a read of what was written
// last. The others are writes with a message behind them.
const readEvery = 4

// chernobylRun is the client's side of a run, over verbs or with sockets.
type chernobylRun struct {
	c       *cell
	ctx     context.Context // context of all waiting
	workers []*placeWorker
	stop    atomic.Bool   // the workers end
	measure atomic.Bool   // latencies count
	done    atomic.Uint64 // operations of the workers
	errors  atomic.Uint64 // operations of the workers that failed
	refused atomic.Uint64 // requests of the rogue
}

// level is what differs between verbs and sockets.
type level interface {
	ports() []placePort // of the workers
	rounds() int        // times with the rogue
	// provoke makes bad requests, each of which has to be refused, and tells how many were.
	provoke() (refused uint64, err error)
	// confirm completes the result of workers that have written this often, and ended.
	confirm(res *Result, writes uint64) error
}

// placePort is what a worker has to reach memory of its own on the server. Operation n is
// in place n modulo places.
type placePort interface {
	write(n uint64) error // writes the place, and sends a message that builds on it
	read(n uint64) error  // reads what was written last
	reads() bool          // whether it can
}

// errFailed is what the end of a plain connection is for its workers.
var errFailed = errors.New("the operation has failed")

// placeWorker is one goroutine.
type placeWorker struct {
	run    *chernobylRun
	port   placePort
	hist   *hdrhistogram.Histogram
	writes uint64
}

// chernobyl has workers write and send over one connection, and at times one more whose
// keys are bad.
func (c *cell) chernobyl() (res Result, err error) {
	ctx, cancel := context.WithCancel(c.hard)
	defer cancel()
	r := &chernobylRun{c: c, ctx: ctx}
	open := r.openSockets
	if c.work.Verbs {
		open = r.openVerbs
	}
	l, end, err := open()
	if err != nil {
		return res, err
	}
	defer end()
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	for i, p := range l.ports() {
		w := &placeWorker{run: r, port: p, hist: newSmallHist()}
		r.workers = append(r.workers, w)
		workers.Go(func() {
			if err := w.work(); err != nil && ctx.Err() == nil {
				c.lose(fmt.Errorf("worker %d: %w", i, err))
			}
		})
	}
	c.sleep(c.opts.Warmup)
	res, err = r.measured(l)
	r.stop.Store(true)
	if err != nil {
		return res, err
	}
	workers.Wait()
	res.hist = newHist()
	writes := uint64(0)
	for _, w := range r.workers {
		res.hist.Merge(w.hist)
		writes += w.writes
	}
	res.Latency = latencyOf(res.hist)
	res.Thirds.Errors = r.errors.Load()
	return res, l.confirm(&res, writes)
}

// work writes, tells of it and reads until the run stops, or an operation fails.
func (w *placeWorker) work() error {
	for n := 1; !w.run.stop.Load(); n++ {
		begun := time.Now()
		var err error
		if w.port.reads() && n%readEvery == 0 {
			err = w.port.read(w.writes - 1)
		} else {
			err = w.port.write(w.writes)
			w.writes++
		}
		if errors.Is(err, errFailed) {
			w.run.errors.Add(1)
			return nil
		}
		if err != nil {
			return err
		}
		if w.run.measure.Load() {
			w.hist.RecordValue(min(int64(time.Since(begun)), maxLatency))
		}
		w.run.done.Add(1)
	}
	return nil
}

// measured is rounds of a time without the rogue and one with it, and a last time without
// it: three thirds, if there is one round. Each time goes on until something is done in it:
// rates of nothing say nothing of the others.
func (r *chernobylRun) measured(l level) (Result, error) {
	c := r.c
	m, err := c.begin()
	if err != nil {
		return Result{}, err
	}
	times := 2*l.rounds() + 1
	rates := make([]float64, times)
	r.measure.Store(true)
	series := r.sample(m.start)
	first := r.done.Load()
	for i := range times {
		end := func() error { return nil }
		if i%2 == 1 {
			end = r.rogue(l)
		}
		from, before := time.Now(), r.done.Load()
		c.sleep(c.opts.Duration / time.Duration(times))
		r.until(func() bool { return r.done.Load() > before || r.over() })
		rates[i] = float64(r.done.Load()-before) / time.Since(from).Seconds()
		if err := end(); err != nil {
			series()
			return Result{}, err
		}
	}
	t := newThirds(rates)
	t.Series = series()
	r.measure.Store(false)
	res, err := c.end(m, r.done.Load()-first, c.work.Size)
	t.Refused = r.refused.Load()
	res.Thirds = t
	return res, err
}

// over tells whether all workers have ended, as those of a plain connection do.
func (r *chernobylRun) over() bool { return r.errors.Load() == uint64(r.c.work.Workers) }

// until looks again and again, unless the run is lost.
func (r *chernobylRun) until(ok func() bool) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() && r.c.hard.Err() == nil {
		<-tick.C
	}
}

// rogue starts the rogue, which makes bad requests at least once, and as long as there is
// anybody to notice. The function returned ends it and waits for it.
func (r *chernobylRun) rogue(l level) func() error {
	end, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			n, err := l.provoke()
			if r.refused.Add(n); err != nil || r.over() {
				ended <- err
				return
			}
			select {
			case <-end:
				ended <- nil
				return
			default:
			}
		}
	}()
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
