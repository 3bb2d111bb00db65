package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/rds-go/rds/mr"
)

// The operations of a Regions work.
const (
	OpCheck      Op = "check"      // enter a section, check a key, leave
	OpMapFree    Op = "map-free"   // map 8 KiB and free it lazily
	OpInvalidate Op = "invalidate" // end 1,000 regions with one barrier, beside two that copy
	OpBarrier    Op = "barrier"    // end one region while Workers copy in sections
	OpTraffic    Op = "traffic"    // OpBarrier while Workers connections write and read
)

const (
	invalidated = 1000     // regions of OpInvalidate
	copied      = 16 << 10 // bytes that a copier of OpInvalidate takes in one section
	checkBurst  = 4096     // checks between two looks at the clock
)

func (w *Work) regionsTitle() string {
	many := func(one, more string) string {
		if w.Workers > 1 {
			return fmt.Sprintf(more, w.Workers)
		}
		return one
	}
	switch w.Op {
	case OpCheck:
		return "key check" + many("", ", %d goroutines")
	case OpMapFree:
		return "map and lazily free 8 KiB" + many("", ", %d goroutines")
	case OpInvalidate:
		return fmt.Sprintf("invalidate %d regions", invalidated)
	case OpTraffic:
		return fmt.Sprintf("barrier beside %d connections of %s", w.Workers, FormatSize(w.Size))
	}
	return fmt.Sprintf("barrier beside %d goroutines copying %s", w.Workers, FormatSize(w.Size))
}

// regionsWorks is what rdsbench mr does.
func (o *Options) regionsWorks() []Work {
	procs := runtime.GOMAXPROCS(0)
	works := []Work{
		{Op: OpCheck, Workers: 1}, {Op: OpCheck, Workers: procs},
		{Op: OpMapFree, Workers: 1}, {Op: OpMapFree, Workers: procs},
		{Op: OpInvalidate},
		{Op: OpBarrier, Workers: 64, Size: 8 << 10}, {Op: OpBarrier, Workers: 64, Size: 64 << 10},
		{Op: OpTraffic, Workers: 64, Size: 8 << 10},
	}
	for i := range works {
		works[i].Kind = Regions
	}
	return works
}

// regionsSentence says what the columns do not.
func (row *Row) regionsSentence() string {
	switch w := &row.Work; {
	case w.Op == OpCheck:
		return fmt.Sprintf("%s: %.1f ns each on each", row.Title, 1e9*float64(w.Workers)/row.RDS.Rate)
	case row.Singles != nil:
		return fmt.Sprintf("%s with one barrier: %.0f times as fast as with a barrier each", row.Title, row.OfSingles)
	case w.Op == OpTraffic:
		return fmt.Sprintf("%s: they moved %.0f MB/s meanwhile", row.Title, row.RDS.Flood)
	}
	return ""
}

// regionsRun is one run of a Regions work, for which there is no server.
type regionsRun struct {
	w      *Work
	opts   *Options
	soft   context.Context
	single bool // OpInvalidate: a barrier for each region

	dev    *mr.Device
	domain *mr.Domain
	owner  *mr.Owner

	stop atomic.Bool // ends the workers
	wg   sync.WaitGroup

	mu  sync.Mutex
	err error // guarded by mu: the first of any goroutine
}

func (b *regionsRun) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil && err != nil {
		b.err = err
	}
}

func (b *regionsRun) failed() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

func (b *regionsRun) run() (res Result, err error) {
	if b.dev, err = mr.New(mr.Config{}); err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, b.dev.Close()) }()
	b.domain, b.owner = b.dev.NewDomain(), b.dev.NewOwner(mr.OwnerConfig{})
	switch b.w.Op {
	case OpCheck:
		res, err = b.parallel(b.checks)
	case OpMapFree:
		res, err = b.parallel(b.maps)
	case OpInvalidate:
		res, err = b.invalidate()
	case OpTraffic:
		res, err = b.traffic()
	default:
		res, err = b.barriers(b.copiers(b.w.Workers, b.w.Size))
	}
	return res, errors.Join(err, b.failed())
}

// over tells whether a phase that began at start has taken d.
func (b *regionsRun) over(start time.Time, d time.Duration) bool {
	return time.Since(start) >= d || b.soft.Err() != nil || b.failed() != nil
}

// parallel has Workers goroutines do each for the duration, which returns how
// often it did it.
func (b *regionsRun) parallel(each func(d time.Duration) uint64) (Result, error) {
	each(b.opts.Warmup)
	var n atomic.Uint64
	m := meter{start: time.Now(), cpu: cpuTime()}
	var wg sync.WaitGroup
	for range b.w.Workers {
		wg.Go(func() { n.Add(each(b.opts.Duration)) })
	}
	wg.Wait()
	return m.result(time.Since(m.start), cpuTime()-m.cpu, snapshot{}, n.Load(), b.w.Size), b.failed()
}

// checks verifies keys of 64 regions in turn.
func (b *regionsRun) checks(d time.Duration) (n uint64) {
	var keys [64]mr.Key
	for i := range keys {
		var err error
		if keys[i], err = b.owner.Map(make([]byte, mr.SmallSize), mr.Options{Domain: b.domain, Rights: mr.RemoteRead}); err != nil {
			b.fail(err)
			return 0
		}
	}
	r := b.dev.NewReader("check")
	defer r.Close()
	req := mr.Request{Domain: b.domain, Rights: mr.RemoteRead, Addr: 4096, Len: 1024}
	for start := time.Now(); !b.over(start, d); n += checkBurst {
		for i := range checkBurst {
			req.Key = keys[i%len(keys)]
			r.Enter()
			_, fault := r.Check(&req)
			r.Leave()
			if fault != mr.None {
				b.fail(fault)
				return n
			}
		}
	}
	return n
}

// maps maps and frees.
func (b *regionsRun) maps(d time.Duration) (n uint64) {
	mem := make([]byte, mr.SmallSize)
	opt := mr.Options{Domain: b.domain, Rights: mr.LocalWrite | mr.RemoteWrite}
	for start := time.Now(); !b.over(start, d); n += 64 {
		for range 64 {
			k, err := b.owner.Map(mem, opt)
			if err == nil {
				err = b.owner.Free(k)
			}
			if err != nil {
				b.fail(err)
				return n
			}
		}
	}
	return n
}

// copiers have n goroutines read and write a region each, size bytes in a
// section, half of them out of it and half into it. The function returned ends
// them.
func (b *regionsRun) copiers(n, size int) (end func()) {
	for i := range n {
		k, err := b.owner.Register(make([]byte, size), mr.Options{Domain: b.domain, Rights: mr.LocalWrite | mr.RemoteRead | mr.RemoteWrite})
		if err != nil {
			b.fail(err)
			break
		}
		r := b.dev.NewReader(fmt.Sprint("copier ", i))
		b.wg.Go(func() {
			defer r.Close()
			own := make([]byte, size)
			req := mr.Request{Key: k, Domain: b.domain, Rights: mr.RemoteRead, Len: uint64(size)}
			if i%2 == 1 {
				req.Rights = mr.RemoteWrite
			}
			for !b.stop.Load() {
				r.Enter()
				mem, fault := r.Check(&req)
				switch {
				case fault != mr.None:
					b.fail(fault)
				case i%2 == 0:
					copy(own, mem)
				default:
					copy(mem, own)
				}
				r.Leave()
				runtime.Gosched() // yields as a goroutine does that looks for more to do
			}
		})
	}
	return func() { b.stop.Store(true); b.wg.Wait() }
}

// invalidate ends 1,000 regions again and again; a message is one region.
func (b *regionsRun) invalidate() (Result, error) {
	defer b.copiers(2, copied)()
	mem := make([]byte, mr.SmallSize)
	var keys [invalidated]mr.Key
	var took, cpu time.Duration
	var n uint64
	for start := time.Now(); n == 0 || !b.over(start, b.opts.Duration); n += invalidated {
		for i := range keys {
			var err error
			if keys[i], err = b.owner.Map(mem, mr.Options{Domain: b.domain, Rights: mr.RemoteRead}); err != nil {
				return Result{}, err
			}
		}
		c, t := cpuTime(), time.Now()
		for _, k := range keys {
			var err error
			if b.single {
				err = b.owner.FreeInvalidate(b.soft, k)
			} else {
				err = b.owner.Free(k)
			}
			if err != nil {
				return Result{}, err
			}
		}
		if err := b.owner.Barrier(b.soft); err != nil {
			return Result{}, err
		}
		took, cpu = took+time.Since(t), cpu+cpuTime()-c
	}
	return meter{}.result(took, cpu, snapshot{}, n, 0), nil
}

// barriers takes the time of FreeInvalidate beside something that end ends.
func (b *regionsRun) barriers(end func()) (Result, error) {
	defer end()
	h := newHist()
	if _, err := b.barrier(b.opts.Warmup, newHist()); err != nil {
		return Result{}, err
	}
	m := meter{start: time.Now(), cpu: cpuTime()}
	n, err := b.barrier(b.opts.Duration, h)
	res := m.result(time.Since(m.start), cpuTime()-m.cpu, snapshot{}, n, 0)
	res.hist, res.Latency = h, latencyOf(h)
	return res, err
}

func (b *regionsRun) barrier(d time.Duration, h *hdrhistogram.Histogram) (n uint64, err error) {
	mem := make([]byte, mr.SmallSize)
	for start := time.Now(); !b.over(start, d); n++ {
		k, err := b.owner.Map(mem, mr.Options{Domain: b.domain, Rights: mr.RemoteRead})
		if err != nil {
			return n, err
		}
		t := time.Now()
		if err := b.owner.FreeInvalidate(context.Background(), k); err != nil {
			return n, err
		}
		h.RecordValue(min(int64(time.Since(t)), maxLatency))
		runtime.Gosched() // yields to all runnable goroutines
	}
	return n, nil
}
