package objects

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
