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
	what := map[Op]string{OpCheck: "key check", OpMapFree: "map and lazily free 8 KiB", OpInvalidate: "invalidate 1000 regions",
		OpTraffic: "barrier beside %d connections of %s", OpBarrier: "barrier beside %d goroutines copying %s"}[w.Op]
	if beside := w.Op == OpTraffic || w.Op == OpBarrier; beside {
		what = fmt.Sprintf(what, w.Workers, FormatSize(w.Size))
	} else if w.Workers > 1 {
		what += fmt.Sprintf(", %d goroutines", w.Workers)
	}
	return what
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
	mem    []byte // memory that is mapped

	ctx  context.Context // ends with soft, or with the first error of any goroutine
	fail context.CancelCauseFunc
	stop atomic.Bool // ends the workers
	wg   sync.WaitGroup
}

func (b *regionsRun) run() (res Result, err error) {
	if b.dev, err = mr.New(mr.Config{}); err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, b.dev.Close()) }()
	b.ctx, b.fail = context.WithCancelCause(b.soft)
	defer b.fail(nil)
	b.domain, b.owner, b.mem = b.dev.NewDomain(), b.dev.NewOwner(mr.OwnerConfig{}), make([]byte, mr.SmallSize)
	switch b.w.Op {
	case OpCheck:
		res = b.parallel(b.checks)
	case OpMapFree:
		res = b.parallel(b.maps)
	case OpInvalidate:
		res = b.invalidate()
	case OpTraffic:
		res, err = b.traffic()
	default:
		res = b.barriers(b.copiers(b.w.Workers, b.w.Size))
	}
	if b.soft.Err() == nil {
		err = errors.Join(err, context.Cause(b.ctx))
	}
	return res, err
}

// repeat does each for d, at least once, and tells how often. It looks at the clock every burst.
func (b *regionsRun) repeat(d time.Duration, burst uint64, each func(i uint64) error) (n uint64) {
	for start := time.Now(); n == 0 || time.Since(start) < d && b.ctx.Err() == nil; n += burst {
		for i := range burst {
			if err := each(n + i); err != nil {
				b.fail(err)
				return n
			}
		}
	}
	return n
}

// parallel has Workers goroutines do each for the duration, which returns how
// often it did it.
func (b *regionsRun) parallel(each func(d time.Duration) uint64) Result {
	each(b.opts.Warmup)
	var n atomic.Uint64
	m := meter{start: time.Now(), cpu: cpuTime()}
	var wg sync.WaitGroup
	for range b.w.Workers {
		wg.Go(func() { n.Add(each(b.opts.Duration)) })
	}
	wg.Wait()
	return m.result(time.Since(m.start), cpuTime()-m.cpu, snapshot{}, n.Load(), b.w.Size)
}

// mapped maps the memory.
func (b *regionsRun) mapped(rights mr.Rights) (mr.Key, error) {
	return b.owner.Map(b.mem, mr.Options{Domain: b.domain, Rights: rights})
}

// checks verifies keys of 64 regions in turn.
func (b *regionsRun) checks(d time.Duration) uint64 {
	var keys [64]mr.Key
	for i := range keys {
		var err error
		if keys[i], err = b.mapped(mr.RemoteRead); err != nil {
			b.fail(err)
		}
	}
	r := b.dev.NewReader("check", nil)
	defer r.Close()
	req := mr.Request{Domain: b.domain, Rights: mr.RemoteRead, Addr: 4096, Len: 1024}
	return b.repeat(d, checkBurst, func(i uint64) error {
		req.Key = keys[i%uint64(len(keys))]
		r.Enter()
		_, fault := r.Check(&req)
		r.Leave()
		if fault != mr.None {
			return fault
		}
		return nil
	})
}

// maps maps and frees.
func (b *regionsRun) maps(d time.Duration) uint64 {
	return b.repeat(d, 64, func(uint64) error {
		k, err := b.mapped(mr.LocalWrite | mr.RemoteWrite)
		if err == nil {
			err = b.owner.Free(k)
		}
		return err
	})
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
		r := b.dev.NewReader(fmt.Sprint("copier ", i), nil)
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
func (b *regionsRun) invalidate() Result {
	defer b.copiers(2, copied)()
	var keys [invalidated]mr.Key
	var took, cpu time.Duration
	rounds := b.repeat(b.opts.Duration, 1, func(uint64) (err error) {
		for i := range keys {
			if keys[i], err = b.mapped(mr.RemoteRead); err != nil {
				return err
			}
		}
		c, t := cpuTime(), time.Now()
		free := b.owner.Free
		if b.single {
			free = func(k mr.Key) error { return b.owner.FreeInvalidate(b.soft, k) }
		}
		for _, k := range keys {
			if err := free(k); err != nil {
				return err
			}
		}
		err = b.owner.Barrier(b.soft)
		took, cpu = took+time.Since(t), cpu+cpuTime()-c
		return err
	})
	return meter{}.result(took, cpu, snapshot{}, rounds*invalidated, 0)
}

// barriers takes the time of FreeInvalidate beside something that end ends.
func (b *regionsRun) barriers(end func()) Result {
	defer end()
	b.barrier(b.opts.Warmup, newHist())
	h := newHist()
	m := meter{start: time.Now(), cpu: cpuTime()}
	n := b.barrier(b.opts.Duration, h)
	res := m.result(time.Since(m.start), cpuTime()-m.cpu, snapshot{}, n, 0)
	res.hist, res.Latency = h, latencyOf(h)
	return res
}

func (b *regionsRun) barrier(d time.Duration, h *hdrhistogram.Histogram) uint64 {
	return b.repeat(d, 1, func(uint64) error {
		k, err := b.mapped(mr.RemoteRead)
		if err != nil {
			return err
		}
		t := time.Now()
		err = b.owner.FreeInvalidate(context.Background(), k)
		h.RecordValue(min(int64(time.Since(t)), maxLatency))
		runtime.Gosched() // yields to all runnable goroutines
		return err
	})
}
