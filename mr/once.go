package mr

import (
	"context"
	"net/netip"
)

// Use is an operation of a peer, as use-once regions see it. Check gives a use-once region
// to the first Use that passes all other checks, and refuses every other Use until
// Device.Finish. A Use stands for one operation at a time, and after Finish for the next
// one. Its operation uses one region, in one goroutine at a time. The zero Use is ready.
type Use struct {
	key  Key        // key of the use-once region that the Use has; 0: it has none
	from netip.Addr // peer whose operation it is; written before a mapping names the Use
}

// Holds tells whether the operation has a use-once region.
func (u *Use) Holds() bool { return u.key != 0 }

// taken gives a use-once region to the operation of a request, unless another one has it.
// Inside a reader section.
func (m *mapping) taken(req *Request) bool {
	u := req.Use
	switch {
	case u == nil:
		return false
	case u.key != 0:
		return m.use.Load() == u
	}
	u.key, u.from = m.key, req.From.Unmap()
	if m.use.CompareAndSwap(nil, u) {
		return true
	}
	u.key = 0
	return false
}

// Finish ends an operation, outside of a section and when it touches no memory any more. If
// it has a use-once region then after a success the key is dead, and the memory is
// released with the next invalidation, as after a lazy Free. After a failure the next
// operation may use the region.
func (d *Device) Finish(u *Use, success bool) {
	if u.key == 0 {
		return
	}
	k := u.key
	u.key = 0
	s := d.table.known(k)
	p := d.pools[s.class()]
	p.mu.Lock()
	m := s.live.Load()
	held := m != nil && m.key == k && m.use.Load() == u // false: the owner, or a peer, has ended the region meanwhile
	if held && !success {
		m.use.Store(nil)
	}
	flush := held && success && p.dropLocked(s, m)
	p.mu.Unlock()
	if held && success {
		d.dropped(flush)
	}
}

// Retire ends a use-once region while an operation of the peer uses it, and tells whether
// one did. The key is dead at return, and no section uses the memory any more unless its
// reader is stuck. The rest of the operation is refused. Retire waits as Revoke does, and is
// called outside of a section.
func (d *Device) Retire(k Key, peer netip.Addr) bool {
	s := d.table.known(k)
	if s == nil {
		return false
	}
	p := d.pools[s.class()]
	p.mu.Lock()
	m := s.live.Load()
	used := m != nil && m.key == k && m.usedBy(peer.Unmap())
	flush := used && p.dropLocked(s, m)
	p.mu.Unlock()
	if used {
		d.dropped(flush)
		_ = d.settle()
	}
	return used
}

// usedBy tells whether an operation of the peer uses the region. Under the lock of the
// pool, which Finish takes before a Use changes.
func (m *mapping) usedBy(peer netip.Addr) bool {
	u := m.use.Load()
	return u != nil && u.from == peer
}

// settle waits until no section uses what was dropped. It neither sleeps nor does the work
// of other invalidations unless a section takes much longer than it should.
func (d *Device) settle() error {
	if d.grace.quick(*d.readers.Load()) {
		return nil
	}
	return d.flush(context.Background(), d.config.Stuck)
}
