package mr

import "net/netip"

// Kept is what a region is besides its memory: enough for another process that has the
// same memory to give it the same key.
type Kept struct {
	Key    Key
	Rights Rights
	Base   uint64
	Peer   netip.Addr // the only peer that may use the key; not valid: all may
	Once   bool
	Known  []Peer // peers that have the key
}

// Secret is what the device's keys, and its numbers for peers, are made with: the
// Config.Seed of another device that is to Restore its regions.
func (d *Device) Secret() uint64 { return d.secret }

// Keep describes a live region of the owner and returns its memory. ErrKey if the key is
// not that of one. A region that changes later is not what Keep has described.
func (o *Owner) Keep(k Key) (Kept, []byte, error) {
	at := o.dev.table.known(k)
	if at == nil {
		return Kept{}, nil, ErrKey
	}
	p := o.dev.pools[at.class()]
	p.mu.Lock()
	defer p.mu.Unlock()
	m := o.ownLocked(at, k)
	if m == nil {
		return Kept{}, nil, ErrKey
	}
	kept := Kept{Key: k, Rights: m.rights, Base: m.base, Once: m.once}
	if m.bound {
		kept.Peer = m.peer
	}
	if p := m.known.first.Load(); p != 0 {
		kept.Known = append(kept.Known, Peer(p))
	}
	if t := m.known.more.Load(); t != nil {
		for i := range t.slots {
			if p := t.slots[i].Load(); p != 0 {
				kept.Known = append(kept.Known, Peer(p))
			}
		}
	}
	return kept, m.mem, nil
}

// Restore is Map with a key that Keep has described of a device with the same secret.
// Domain and Released are those of opt. It is for a device that has given no keys yet:
// ErrKey if the base of the key is in use.
func (o *Owner) Restore(mem []byte, kept Kept, opt Options) error {
	opt.Rights, opt.Base, opt.Peer, opt.Once = kept.Rights, kept.Base, kept.Peer, kept.Once
	c := small
	switch {
	case len(mem) > LargeSize:
		return ErrTooLong
	case len(mem) > SmallSize:
		c = large
	}
	if err := o.dev.validate(mem, &opt); err != nil {
		return err
	}
	s := &o.shares[c]
	return s.pool.restore(s, mem, &kept, &opt)
}

// restore is add with a key that is given.
func (p *pool) restore(s *share, mem []byte, kept *Kept, opt *Options) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.owner.closed.Load() {
		return ErrClosed
	}
	if err := p.admitLocked(s, int64(len(mem))); err != nil {
		return err
	}
	if !opt.Domain.hold() {
		return ErrDomain
	}
	index, at := p.table.claim(kept.Key, p.class)
	if at == nil {
		opt.Domain.drop()
		return ErrKey
	}
	p.bases++
	p.publishLocked(s, index, at, mem, opt)
	for _, peer := range kept.Known {
		at.live.Load().acquaintLocked(s.owner.dev, peer)
	}
	return nil
}

// claim adds the base of a key, whose version comes next; nil if it is in use.
func (t *table) claim(k Key, c class) (uint32, *slot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	index, version := t.cipher.base(k)
	if k == 0 || index == 0 || t.bases == t.limit {
		return 0, nil
	}
	s := t.place(index)
	if s.note.Load()&noteKnown != 0 {
		return 0, nil
	}
	t.bases++
	s.note.Store(makeNote(version-1, 0, c))
	return index, s
}
