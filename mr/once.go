package mr

// Spend tells that the operation claim, which a Check of a use-once region let
// pass, has succeeded: the key is dead at return. It reports whether this call
// retired it; it does not for a key that is dead already, is not use-once, or
// belongs to another operation. The memory is released with the next
// invalidation, as after a lazy Free.
//
// A section that began before Spend and uses the memory under the local key
// may go on; nobody else has access while the operation holds its claim.
func (d *Device) Spend(k Key, claim uint64) bool {
	s := d.table.known(k)
	if s == nil || claim == 0 {
		return false
	}
	p := d.pools[s.class()]
	p.mu.Lock()
	m := s.live.Load()
	ok := m != nil && m.key == k && m.once && m.claim.Load() == claim
	flush := ok && p.dropLocked(s, m)
	p.mu.Unlock()
	if ok {
		d.dropped(flush)
	}
	return ok
}

// Unclaim tells that the operation claim has failed: the region can be used by
// another one. It reports whether the operation had it.
func (d *Device) Unclaim(k Key, claim uint64) bool {
	s := d.table.known(k)
	if s == nil || claim == 0 {
		return false
	}
	p := d.pools[s.class()]
	p.mu.Lock()
	defer p.mu.Unlock()
	m := s.live.Load()
	return m != nil && m.key == k && m.once && m.claim.CompareAndSwap(claim, 0)
}

// taken lets the operation claim have a use-once region, unless another one
// has it. Inside a reader section.
func (m *mapping) taken(claim uint64) bool {
	return claim != 0 && (m.claim.CompareAndSwap(0, claim) || m.claim.Load() == claim)
}
