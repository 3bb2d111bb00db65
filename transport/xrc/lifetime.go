package xrc

import "slices"

// lifetime is an incarnation of a remote host that has links in use here. All its queue pairs
// go by these links, so that a link of another incarnation has none while one of them lives:
// it is an impostor's, or the host's next life, and which of the two RDS finds out by asking the
// old links. RDS ends the links of the side that has lost, and then the lifetime ends, or the
// wait. What this side has dialed is the host, as in RDS.
type lifetime struct {
	incarnation uint64
	links       int // guarded by Transport.mu; links that carry queue pairs
}

// lives begins with a link that is put to use. It is false if the link has to wait: carry is
// called again.
func (l *link) lives() bool {
	t, remote := l.t, l.p.remote
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.lifetimes[remote]
	switch {
	case now == nil, now.incarnation != l.incarnation && l.dialed:
		now = &lifetime{incarnation: l.incarnation}
		t.lifetimes[remote] = now
	case now.incarnation != l.incarnation:
		t.waiting[remote] = append(t.waiting[remote], l)
		return false
	}
	now.links++
	l.lifetime = now
	return true
}

// dies follows the end of a link, which may be what others wait for.
func (l *link) dies() {
	t, remote := l.t, l.p.remote
	var waited []*link
	t.mu.Lock()
	if now := l.lifetime; now != nil {
		if now.links--; now.links == 0 && t.lifetimes[remote] == now {
			delete(t.lifetimes, remote)
			waited = t.waiting[remote]
			delete(t.waiting, remote)
		}
	} else if i := slices.Index(t.waiting[remote], l); i >= 0 {
		if t.waiting[remote] = slices.Delete(t.waiting[remote], i, i+1); len(t.waiting[remote]) == 0 {
			delete(t.waiting, remote)
		}
	}
	t.mu.Unlock()
	for _, x := range waited {
		x.mu.Lock()
		ends := x.over || x.closing
		if !ends {
			x.hears++
		}
		x.mu.Unlock()
		if !ends {
			x.carry()
			x.heard()
		}
	}
}
