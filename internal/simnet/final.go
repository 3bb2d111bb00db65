package simnet

import (
	"slices"

	"github.com/rds-go/rds/conn"
)

// finish checks what must hold when nothing happens any more.
func (c *checker) finish() {
	for _, m := range c.messages {
		c.message(m)
	}
	for _, k := range c.socks {
		if k.h.socks[k.port] != k {
			continue
		}
		if k.pending != nil {
			c.failf("%v still cannot send %v", k, k.pending)
		}
		if k.acct.Bytes() != 0 || k.acct.Messages() != 0 {
			c.failf("%v: %d bytes, %d messages left in the account", k, k.acct.Bytes(), k.acct.Messages())
		}
	}
	for _, h := range c.s.hosts {
		for _, p := range h.peers {
			if p != nil {
				c.peer(p)
			}
		}
	}
}

// message is invariant 1.
func (c *checker) message(m *message) {
	if m.body != nil && len(m.got) >= 0 && m.toInc > 0 && m.from.alive && !m.body.Sole() {
		c.failf("%v: its buffer was not given back", m)
	}
	if sc := &c.s.cfg.Scenario; sc.Calm && sc.Stops {
		c.once(m)
	}
	if m.toInc == 0 || !m.from.alive {
		return
	}
	if m.notify && !m.fated {
		c.failf("%v: its sender was never told", m)
	}
	k := m.target
	switch {
	case k == nil || !k.alive || m.cancels || c.excused(m) || c.usurped[[2]*host{m.from.h, m.route.to}]:
	case m.fated && (m.fate == conn.Dropped || m.fate == conn.Expired || m.fate == conn.TooLong):
	case m.cut > 0, !m.notify && m.size > slices.Min(m.route.to.longests): // see lengthFate
	case m.limit > 0 && !m.notify:
	case m.op != nil && (m.op.Silent || !m.fated || m.fate != conn.Success):
	case !m.notify && m.route.to.incarnation > 1:
	case len(m.got) == 0:
		c.failf("%v was never delivered (told %v %d)", m, m.fated, m.fate)
	}
}

// peer is invariants 4 and 5, and that nothing leaks.
func (c *checker) peer(p *peer) {
	if q := p.Core.Queued(); q != 0 {
		c.failf("%v->%v: %d bytes still queued", p.h, p.remote, q)
	}
	for i := range conn.MaxPaths {
		if p.Core.Unsent(i) != 0 || p.Core.HeldBytes(i) != 0 {
			c.failf("%v->%v: %d bytes unsent on path %d, %d held back", p.h, p.remote, p.Core.Unsent(i), i, p.Core.HeldBytes(i))
		}
	}
	if p.Linked() > conn.MaxPaths {
		c.failf("%v->%v: %d links", p.h, p.remote, p.Linked())
	}
	q := p.remote.peers[p.h.index]
	if p.remote.bad || p.h.bad {
		return
	}
	for i := range conn.MaxPaths {
		e := p.end(i)
		if e == nil {
			if st := p.Core.State(i); st == conn.Up {
				c.failf("%v->%v: path %d is %v without a link", p.h, p.remote, i, st)
			}
			continue
		}
		if e.t.ends[0].host.addr.Compare(e.t.ends[1].host.addr) > 0 {
			c.failf("%v->%v: path %d uses tcp%d, from the larger address", p.h, p.remote, i, e.t.id)
		}
		if q == nil || e.other.p != q || q.end(e.other.path) != e.other {
			c.failf("%v->%v: path %d uses tcp%d, and the other side does not", p.h, p.remote, i, e.t.id)
		} else if e.other.path != i && !p.h.linux && !p.remote.linux {
			c.failf("%v->%v: path %d is the other side's path %d", p.h, p.remote, i, e.other.path)
		}
	}
	if p.Core.State(0) == conn.Up {
		if got, want := p.Core.Longest().Octets(), p.h.knowsOf(p.remote); got != want {
			c.failf("%v->%v: believed to take %d bytes, not %d", p.h, p.remote, got, want)
		}
		for _, k := range p.remote.sockets() {
			if got, want := p.Core.Congested(k.port), p.remote.cmap.Congested(k.port); got != want {
				c.failf("%v believes congested=%v of %v", p.h, got, k)
			}
		}
	}
}
