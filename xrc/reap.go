package xrc

// Reap makes a tombstone of a target in StateError before its time, if it is
// still the one that was meant: ErrStale if it was reset, or its number given to
// another, in the meantime.
func (d *Device) Reap(r Ref) error {
	d.mu.Lock()
	defer d.unlock()
	t := d.targets[r.Number]
	switch {
	case t == nil:
		return ErrNumber
	case t.ref != r:
		return ErrStale
	case t.current() != StateError:
		return ErrState
	}
	t.buryLocked()
	return nil
}

// buryLocked leaves nothing of the target but its number and who is registered,
// who still may, and should, unregister.
func (t *Target) buryLocked() {
	if t.attr == nil {
		return
	}
	since := t.since
	t.dev.forgetLocked(&t.qp)
	t.attr, t.since = nil, since
}
