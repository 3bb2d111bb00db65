package mr

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/lockorder"
)

// flusher commits invalidations in groups. There is no worker between a caller
// and its barrier: the first caller leads, which means that it takes all that
// is dropped in every pool, waits for one grace period and reclaims. Those who
// come meanwhile share the next batch, and one of them leads it. A leader that
// gives up (its context ends, a reader is stuck) leaves the batch to a
// goroutine, the keeper; so does a watermark.
type flusher struct {
	mu      lockorder.Mutex[flusher]
	current *batch // the batch that has a leader; nil: nobody invalidates
	next    *batch // takes the place of current when that is done
	spare   *batch // done, and never had waiters
	closed  bool   // no keeper may start
	keepers sync.WaitGroup
	closing chan struct{} // closed when keepers must stop
}

// batch is one grace period and all it covers.
type batch struct {
	// Under flusher.mu. The channels exist from the first waiter on.
	waiters int
	done    chan struct{} // closed when all is invalid and released
	lead    chan struct{} // holds one: whoever takes it is the leader

	// Of the leader.
	lists [classes]list
	n     int
	began time.Time
	stuck bool // the leader has reported that a reader is stuck
}

func (f *flusher) newBatchLocked() *batch {
	b := f.spare
	if b == nil {
		return new(batch)
	}
	f.spare = nil
	return b
}

func (b *batch) joinLocked() {
	if b.waiters++; b.done == nil {
		b.done, b.lead = make(chan struct{}), make(chan struct{}, 1)
	}
}

// flush returns when everything dropped before the call is invalid, its grace
// period over and its memory released. It gives up with ErrStuck after limit
// and with ErrInterrupted when ctx ends; the invalidation then goes on.
func (d *Device) flush(ctx context.Context, limit time.Duration) error {
	f := &d.flusher
	f.mu.Lock()
	dirty := d.anyDirty()
	var b *batch
	switch {
	case !dirty && f.current == nil:
		f.mu.Unlock()
		return nil
	case f.current == nil:
		b = f.newBatchLocked()
		f.current = b
		f.mu.Unlock()
		return d.lead(ctx, b, limit)
	case !dirty: // all dirty mappings are in the current batch
		b = f.current
	default:
		if f.next == nil {
			f.next = f.newBatchLocked()
		}
		b = f.next
	}
	b.joinLocked()
	f.mu.Unlock()
	return d.await(ctx, b, limit)
}

// await waits for the batch, and leads it if nobody else does.
func (d *Device) await(ctx context.Context, b *batch, limit time.Duration) error {
	start := time.Now()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var err error
	select {
	case <-b.done:
		return nil
	case <-b.lead:
		return d.lead(ctx, b, limit-time.Since(start))
	case <-ctx.Done():
		err = interrupted(ctx)
	case <-timer.C:
		err = ErrStuck
	}
	f := &d.flusher
	f.mu.Lock()
	defer f.mu.Unlock()
	if b.waiters--; b.waiters == 0 {
		select {
		case <-b.lead:
			d.keepLocked(b)
		default:
		}
	}
	return err
}

func interrupted(ctx context.Context) error {
	return fmt.Errorf("%w: %w", ErrInterrupted, context.Cause(ctx))
}

// lead invalidates a batch.
func (d *Device) lead(ctx context.Context, b *batch, limit time.Duration) error {
	if !d.collect(b) {
		d.finish(b)
		return nil
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	over, late := d.grace.wait(ctx.Done(), timer.C)
	if over {
		d.finish(b)
		return nil
	}
	err := ErrStuck
	if late {
		d.stuck(b)
	} else {
		err = interrupted(ctx)
	}
	d.flusher.mu.Lock()
	d.keepLocked(b)
	d.flusher.mu.Unlock()
	return err
}

// collect takes all that is dropped and begins the grace period; false means
// that it is over already.
func (d *Device) collect(b *batch) bool {
	for c, p := range d.pools {
		p.mu.Lock()
		b.lists[c] = p.dirty.take()
		p.mu.Unlock()
		b.n += b.lists[c].n
	}
	b.began = time.Now()
	return d.grace.begin(*d.readers.Load())
}

// keepLocked leaves the batch to a goroutine, collected or not.
func (d *Device) keepLocked(b *batch) {
	if !d.flusher.closed {
		d.flusher.keepers.Go(func() { d.keep(b) })
	}
}

func (d *Device) keep(b *batch) {
	if b.began.IsZero() && !d.collect(b) {
		d.finish(b)
		return
	}
	timer := time.NewTimer(d.config.Stuck - time.Since(b.began))
	defer timer.Stop()
	for {
		over, late := d.grace.wait(d.flusher.closing, timer.C)
		switch {
		case over:
			d.finish(b)
			return
		case !late:
			return // closing: the batch is never done
		}
		d.stuck(b)
	}
}

// finish releases what the batch covers and hands over to the next one.
func (d *Device) finish(b *batch) {
	now := time.Now()
	d.counters.invalidated(b, now.Sub(b.began))
	for c, p := range d.pools {
		l := &b.lists[c]
		p.reclaim(l, now)
		for m := l.head; m != nil; m = m.next {
			released := m.released
			m.scribble()
			if released != nil {
				released()
			}
		}
		p.recycle(l, now)
	}
	f := &d.flusher
	f.mu.Lock()
	defer f.mu.Unlock()
	f.current, f.next = f.next, nil
	if b.stuck {
		d.counters.stale.Add(-int64(b.n))
	}
	if b.done == nil { // nobody else knows the batch
		*b = batch{}
		f.spare = b
	} else {
		close(b.done)
	}
	switch next := f.current; {
	case next == nil:
	case next.waiters > 0:
		next.lead <- struct{}{}
	default:
		d.keepLocked(next)
	}
}

// background starts an invalidation that nobody waits for.
func (d *Device) background() {
	f := &d.flusher
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
	case f.current == nil:
		f.current = f.newBatchLocked()
		d.keepLocked(f.current)
	case f.next == nil:
		f.next = f.newBatchLocked()
	}
}

// stuck tells of the readers that hold up a batch, once.
func (d *Device) stuck(b *batch) {
	if b.stuck || time.Since(b.began) < d.config.Stuck {
		return
	}
	b.stuck = true
	d.grace.waiting.Store(patient)
	d.counters.stale.Add(int64(b.n))
	d.counters.stuck.Add(1)
	for _, r := range d.grace.held() {
		d.config.Logger.Error("reader stuck, memory stays pinned",
			zap.String("reader", r.name), zap.Int("regions", b.n), zap.Duration("after", d.config.Stuck))
		if r.stuck != nil {
			go r.stuck()
		}
	}
}
