package mr

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/internal/invariants"
	"github.com/rds-go/rds/internal/lockorder"
)

// Device is the table of one host device: a key is good on every connection of
// the host and outlives them all. Its methods may be called concurrently.
type Device struct {
	config    Config
	table     table
	pools     [classes]*pool
	grace     grace
	flusher   flusher
	readers   atomic.Pointer[[]*Reader] // copied under mu when it changes
	offenders offenders
	counters  counters
	linger    linger
	guard     guard
	secret    uint64 // what keys and peers are enciphered with

	acquaintances acquaintanceBudget

	mu lockorder.Mutex[Device]
	// Under mu.
	owners map[*Owner]struct{}
	gone   [faults]uint64 // refusals counted by closed readers
	closed bool
}

// New makes a device without regions.
func New(c Config) (*Device, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	d := &Device{config: c, owners: make(map[*Owner]struct{})}
	d.readers.Store(new([]*Reader))
	d.grace.bell = make(chan struct{}, 1)
	d.grace.alone = runtime.GOMAXPROCS(0) == 1
	d.flusher.closing = make(chan struct{})
	seed := c.Seed
	if seed == 0 {
		var b [8]byte
		crand.Read(b[:]) // never fails
		seed = binary.NativeEndian.Uint64(b[:])
	}
	d.secret = seed
	d.table.init(c.Bases, seed)
	d.guard.init(&d.config)
	d.acquaintances.limit = int64(c.Acquaintances)
	d.offenders.init(&d.config)
	for i, pc := range [classes]PoolConfig{c.Small, c.Large, c.Registered} {
		p := &pool{class: class(i), config: pc, rest: c.Quarantine, table: &d.table}
		p.size = [classes]int{SmallSize, LargeSize, 0}[i]
		d.pools[i] = p
	}
	return d, nil
}

// Close closes all owners, as Owner.Close does, and ends what the device runs
// in the background. It returns ErrStuck if a reader did not leave its section;
// what it holds is then never released. Calls after Close return ErrClosed.
func (d *Device) Close() error {
	d.mu.Lock()
	d.closed = true
	for o := range d.owners {
		o.revokeAll()
	}
	clear(d.owners)
	d.mu.Unlock()
	d.linger.stop()
	err := d.flush(context.Background(), d.config.Stuck)
	f := &d.flusher
	f.mu.Lock()
	first := !f.closed
	f.closed = true
	f.mu.Unlock()
	if first {
		close(f.closing)
	}
	f.keepers.Wait()
	d.offenders.stop()
	return err
}

// NewReader makes a reader of sections; name tells which one is stuck when one is: stuck is called then, by a
// goroutine of its own, once for each invalidation that a section holds up longer than Config.Stuck. It ends what the
// section is part of. nil: nobody is told.
func (d *Device) NewReader(name string, stuck func()) *Reader {
	r := &Reader{table: &d.table, grace: &d.grace, dev: d, name: name, stuck: stuck, guarded: !d.guard.off()}
	d.mu.Lock()
	defer d.mu.Unlock()
	all := append(slices.Clone(*d.readers.Load()), r)
	d.readers.Store(&all)
	return r
}

// Close ends the reader, which must be outside of a section and not be used
// again. One that is inside stays and is stuck: that is safe, and gets noticed.
func (r *Reader) Close() {
	d := r.dev
	if r.seq.Load()&1 != 0 {
		if invariants.Enabled {
			panic("mr: Close inside a reader section")
		}
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	all := slices.Clone(*d.readers.Load())
	if i := slices.Index(all, r); i >= 0 {
		all = slices.Delete(all, i, i+1)
		d.readers.Store(&all)
		for f := range r.counts {
			d.gone[f] += r.counts[f].Load()
		}
	}
}

func (d *Device) anyDirty() bool {
	for _, p := range d.pools {
		p.mu.Lock()
		dirty := p.dirty.n > 0
		p.mu.Unlock()
		if dirty {
			return true
		}
	}
	return false
}

// dropped is called after a region was dropped.
func (d *Device) dropped(watermark bool) {
	if watermark {
		d.background()
	}
	if d.config.Linger > 0 {
		d.linger.arm(d)
	}
}

// linger bounds how long a dropped region waits when nothing else starts an
// invalidation. Its timer runs only while there are such regions.
type linger struct {
	armed atomic.Bool

	mu lockorder.Mutex[linger]
	// Under mu.
	timer   *time.Timer
	stopped bool
}

func (l *linger) arm(d *Device) {
	if l.armed.Load() || l.armed.Swap(true) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.stopped:
	case l.timer == nil:
		l.timer = time.AfterFunc(d.config.Linger, func() { l.fire(d) })
	default:
		l.timer.Reset(d.config.Linger)
	}
}

func (l *linger) fire(d *Device) {
	l.armed.Store(false) // first, so that a region dropped from here on arms again
	if d.anyDirty() {
		d.background()
	}
}

func (l *linger) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	if l.timer != nil {
		l.timer.Stop()
	}
}
