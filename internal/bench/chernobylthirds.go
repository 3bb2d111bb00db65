package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// sampleEvery is the width of a Sample, if the run has twelve of them.
const sampleEvery = 100 * time.Millisecond

// thirdsRun is what runs over verbs and over sockets have in common.
type thirdsRun struct {
	c       *cell
	stop    atomic.Bool   // the workers end
	measure atomic.Bool   // latencies count
	done    atomic.Uint64 // operations of the workers
	errors  atomic.Uint64 // operations of the workers that failed
	refused atomic.Uint64 // requests of the rogue
}

// measured is rounds of a time without the rogue and one with it, and a last time without
// it: three thirds, if there is one round. Each time goes on until something is done in it:
// rates of nothing say nothing of the others.
func (r *thirdsRun) measured(rounds int, rogue func(end <-chan struct{}) error) (Result, error) {
	c := r.c
	m, err := c.begin()
	if err != nil {
		return Result{}, err
	}
	times := 2*rounds + 1
	rates := make([]float64, times)
	r.measure.Store(true)
	series := r.sample(m.start)
	first := r.done.Load()
	for i := range times {
		var stop func() error
		if i%2 == 1 {
			stop = provoke(rogue)
		}
		from, before := time.Now(), r.done.Load()
		c.sleep(c.opts.Duration / time.Duration(times))
		r.until(func() bool { return r.done.Load() > before || r.over() })
		rates[i] = float64(r.done.Load()-before) / time.Since(from).Seconds()
		if stop != nil {
			if err := stop(); err != nil {
				series()
				return Result{}, err
			}
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
func (r *thirdsRun) over() bool { return r.errors.Load() == uint64(r.c.work.Workers) }

// until looks again and again, unless the run is lost.
func (r *thirdsRun) until(ok func() bool) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() && r.c.hard.Err() == nil {
		<-tick.C
	}
}

// provoke starts the rogue. The function returned ends it and waits for it.
func provoke(rogue func(end <-chan struct{}) error) func() error {
	end, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- rogue(end) }()
	return func() error {
		close(end)
		return <-ended
	}
}

// sample looks at the counters again and again. The function returned ends
// that, and returns what was seen.
func (r *thirdsRun) sample(start time.Time) func() []Sample {
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
