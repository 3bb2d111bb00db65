package mr

import (
	"context"
	"sync/atomic"
)

// OwnerConfig describes an owner. The zero value is usable.
type OwnerConfig struct {
	// Name is for logs.
	Name string
	// Pinned is how many bytes the owner may hold in all its regions, from the
	// mapping to the end of the grace period; 0: no limit but the device's.
	Pinned int64
	// Items is how many regions of one pool it may hold. 0 lets it hold as many
	// as it leaves free, so that no owner can exhaust a pool for the others.
	Items int
	// Within is an owner that this one is a part of, such as the user whose session it is:
	// what this one holds counts as held by that one, too, and both have to have room. nil:
	// none. That owner makes no regions of its own.
	Within *Owner
}

// Owner is who regions belong to: an application, a session, a socket. Its
// methods may be called concurrently.
type Owner struct {
	dev    *Device
	config OwnerConfig
	shares [classes]share
	pinned atomic.Int64

	acquaintances atomic.Int64 // slots of the tables of the owner's regions
	closed        atomic.Bool
}

// NewOwner makes an owner without regions.
func (d *Device) NewOwner(c OwnerConfig) *Owner {
	o := &Owner{dev: d, config: c}
	for i, p := range d.pools {
		o.shares[i].init(o, p)
		if c.Within != nil {
			o.shares[i].within = &c.Within.shares[i]
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		o.closed.Store(true)
	} else {
		d.owners[o] = struct{}{}
	}
	return o
}

// Close revokes all of the owner's regions and waits until no section uses
// their memory (the death of a process, MR-REQ-29). ErrStuck and ErrInterrupted
// are as for FreeInvalidate; the keys are dead in any case. Calls after Close
// return ErrClosed, but Close can be called again to wait once more.
func (o *Owner) Close(ctx context.Context) error {
	o.revokeAll()
	o.dev.mu.Lock()
	delete(o.dev.owners, o)
	o.dev.mu.Unlock()
	return o.dev.flush(ctx, o.dev.config.Stuck)
}

func (o *Owner) revokeAll() {
	o.closed.Store(true) // read under the lock of each pool
	for i := range o.shares {
		s := &o.shares[i]
		p := s.pool
		for more := true; more; {
			p.mu.Lock()
			for n := 0; more && n < stride; n++ {
				m := s.live.next
				if more = m != &s.live; more {
					p.dropLocked(p.table.slot(m.index), m)
				}
			}
			p.mu.Unlock()
		}
	}
}

// Map gives memory a key: up to SmallSize from the small pool, up to LargeSize
// from the large one, ErrTooLong beyond. It needs no peer and no connection. It
// does not wait, unless a limit is reached that an invalidation may lift
// (Config.MapWait, Options.NoWait); then ErrExhausted or ErrPinned.
//
// The memory belongs to peers as far as the rights go, and must stay where it
// is, until Options.Released is called or FreeInvalidate or Barrier returns.
func (o *Owner) Map(mem []byte, opt Options) (Key, error) {
	c := small
	switch {
	case len(mem) > LargeSize:
		return 0, ErrTooLong
	case len(mem) > SmallSize:
		c = large
	}
	return o.add(c, mem, &opt)
}

// Register gives memory of any size a key, as verbs' registration does: not
// from the pools, at their cost or for their limits. Where Map returns
// ErrExhausted or ErrPinned it returns ErrMemory.
func (o *Owner) Register(mem []byte, opt Options) (Key, error) {
	k, err := o.add(registered, mem, &opt)
	if err == ErrExhausted || err == ErrPinned {
		err = ErrMemory
	}
	return k, err
}

func (o *Owner) add(c class, mem []byte, opt *Options) (k Key, err error) {
	if err := o.dev.validate(mem, opt); err != nil {
		return 0, err
	}
	s := &o.shares[c]
	k, err = s.pool.add(s, mem, opt)
	if (err == ErrExhausted || err == ErrPinned) && o.dev.relieve(opt.NoWait) {
		k, err = s.pool.add(s, mem, opt)
	}
	return k, err
}

// relieve invalidates what is dropped, for a limit that was reached, and says
// whether to try again: part of a batch may be reclaimed before it is done.
func (d *Device) relieve(noWait bool) bool {
	if noWait || d.config.MapWait < 0 {
		d.background()
		return false
	}
	_ = d.flush(context.Background(), d.config.MapWait)
	return true
}

// validate checks what does not depend on the table's state.
func (d *Device) validate(mem []byte, opt *Options) error {
	n := uint64(len(mem))
	switch {
	case n == 0:
		return ErrEmpty
	case opt.Domain == nil || opt.Domain.dev != d:
		return ErrDomain
	case opt.Base+(n-1) < opt.Base,
		opt.Rights&RemoteAtomic != 0 && (opt.Base^address(mem))%8 != 0:
		return ErrBase
	}
	return opt.Rights.Validate()
}

// ownLocked is the live mapping that k names, if it is the owner's.
func (o *Owner) ownLocked(at *slot, k Key) *mapping {
	if m := at.live.Load(); m != nil && m.key == k && m.share.owner == o {
		return m
	}
	return nil
}

// Owns tells whether k is the key of a live region of this owner.
func (o *Owner) Owns(k Key) bool {
	at := o.dev.table.known(k)
	if at == nil {
		return false
	}
	p := o.dev.pools[at.class()]
	p.mu.Lock()
	defer p.mu.Unlock()
	return o.ownLocked(at, k) != nil
}

// Free ends a region lazily. The key is dead for sections that begin after the
// return; one that is open may use the memory until it ends, so the memory is
// the caller's when Options.Released is called, after any later barrier, a
// watermark or Config.Linger. ErrKey if the key is not that of a live region
// of this owner: freed, revoked by a peer, spent, somebody else's.
func (o *Owner) Free(k Key) error {
	at := o.dev.table.known(k)
	if at == nil {
		return ErrKey
	}
	p := o.dev.pools[at.class()]
	p.mu.Lock()
	m := o.ownLocked(at, k)
	if m == nil {
		p.mu.Unlock()
		return ErrKey
	}
	flush := p.dropLocked(at, m)
	p.mu.Unlock()
	o.dev.dropped(flush)
	return nil
}

// FreeInvalidate ends a region and returns when it and everything that anyone
// freed before on this device is invalid, out of use and released. ErrStuck
// means that a reader did not leave its section within Config.Stuck: the keys
// are dead but memory may still be in use. ErrInterrupted, with the context's
// error, means that the caller did not want to wait; the invalidation goes on,
// and Barrier waits for it.
func (o *Owner) FreeInvalidate(ctx context.Context, k Key) error {
	if err := o.Free(k); err != nil {
		return err
	}
	return o.dev.flush(ctx, o.dev.config.Stuck)
}

// Barrier is FreeInvalidate without a region: everything freed before, by
// anyone on the device, is invalid, out of use and released when it returns nil.
func (o *Owner) Barrier(ctx context.Context) error {
	return o.dev.flush(ctx, o.dev.config.Stuck)
}

// Pinned is how many bytes the owner's regions hold, freed ones included until
// their grace period is over.
func (o *Owner) Pinned() int64 { return o.pinned.Load() }
