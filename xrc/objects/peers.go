package objects

import (
	"net/netip"
	"slices"
)

// host is a peer's daemon.
type host struct {
	incarnation uint64 // 0 before HostUp
	qps         map[*qp]struct{}
	targets     map[uint32][]*Target // targets made by Connect, by the number of their initiator
}

func (d *Device) hostLocked(a netip.Addr) *host {
	h := d.hosts[a]
	if h == nil {
		h = &host{qps: make(map[*qp]struct{}), targets: make(map[uint32][]*Target)}
		d.hosts[a] = h
	}
	return h
}

// meetLocked is called when the queue pair at the other end becomes known.
func (q *qp) meetLocked(p Peer) {
	q.partLocked()
	if p.QP.Kind = KindTarget; q.kind == TypeTarget {
		p.QP.Kind = KindInitiator
	}
	if p.Host.IsValid() {
		h := q.dev.hostLocked(p.Host)
		h.qps[q] = struct{}{}
		if p.Incarnation == 0 {
			p.Incarnation = h.incarnation
		}
	}
	q.peer = p
}

// partLocked takes the queue pair off its peer's lists; who the peer was remains
// to be queried.
func (q *qp) partLocked() {
	h := q.dev.hosts[q.peer.Host]
	if h == nil {
		return
	}
	delete(h.qps, q)
	if t, ok := q.owner.(*Target); ok {
		n := q.peer.QP.Number
		for i, x := range h.targets[n] {
			if x == t {
				h.targets[n] = append(h.targets[n][:i], h.targets[n][i+1:]...)
				break
			}
		}
		if len(h.targets[n]) == 0 {
			delete(h.targets, n)
		}
	}
	if len(h.qps) == 0 && h.incarnation == 0 {
		delete(q.dev.hosts, q.peer.Host)
	}
}

// HostUp tells which incarnation of a peer's daemon there is a connection with.
// If it is another than before, the queue pairs of the old one are dead, and
// ours that are connected to them go to StateError; it returns how many.
func (d *Device) HostUp(a netip.Addr, incarnation uint64) int {
	d.mu.Lock()
	defer d.unlock()
	h := d.hostLocked(a)
	h.incarnation = incarnation
	ended := 0
	for q := range h.qps {
		switch q.peer.Incarnation {
		case incarnation:
		case 0:
			q.peer.Incarnation = incarnation
		default:
			q.owner.failLocked(EventQPFatal, ErrIncarnation)
			ended++
		}
	}
	return ended
}

// HostDown takes the word of a host that its incarnation ends: queue pairs that are
// connected to it go to StateError, but for those that a connection carries and that each
// set-up of a connection names: they follow the connection.
func (d *Device) HostDown(a netip.Addr) {
	d.mu.Lock()
	defer d.unlock()
	h := d.hosts[a]
	if h == nil {
		return
	}
	for q := range h.qps {
		if !q.implied || q.conn == nil {
			q.owner.failLocked(EventQPFatal, ErrPeerGone)
		}
	}
	if len(h.qps) == 0 {
		delete(d.hosts, a)
	}
}

// Forget forgets the incarnation of a host that no queue pair is connected to. It calls
// nobody back.
func (d *Device) Forget(a netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.hosts[a]; h != nil && len(h.qps) == 0 {
		delete(d.hosts, a)
	}
}

// Pair is a connection of two queue pairs, seen from the host that has Ours.
type Pair struct{ Ours, Theirs Ref }

// Pairs lists the connections with a host, for one frame that asks it about all
// of them. Asking changes nothing.
func (d *Device) Pairs(a netip.Addr) []Pair {
	d.mu.Lock()
	defer d.unlock()
	h := d.hosts[a]
	if h == nil {
		return nil
	}
	list := make([]Pair, 0, len(h.qps))
	for q := range h.qps {
		if !q.implied {
			list = append(list, Pair{q.ref, q.peer.QP})
		}
	}
	return list
}

// Missing answers such a frame of host a: of the pairs, which are as that host
// has them, it returns what it calls Theirs and we do not have, or not connected
// so. Where that is a shared receive queue it is connected so if a target of the queue's domain
// is connected to Ours. Answering changes nothing.
func (d *Device) Missing(a netip.Addr, pairs []Pair) []Ref {
	d.mu.Lock()
	defer d.unlock()
	var gone []Ref
	for _, p := range pairs {
		if !d.pairedLocked(a, p) {
			gone = append(gone, p.Theirs)
		}
	}
	return gone
}

func (d *Device) pairedLocked(a netip.Addr, p Pair) bool {
	var q *qp
	switch p.Theirs.Kind {
	case KindTarget:
		if t := d.targets[p.Theirs.Number]; t != nil {
			q = &t.qp
		}
	case KindSRQ:
		x := d.srqs.find(p.Theirs.Number)
		return x != nil && d.reachesLocked(a, p.Ours, x.xrcd)
	case KindInitiator:
		if i := d.initiators[p.Theirs.Number]; i != nil {
			q = &i.qp
		}
	}
	if q == nil {
		return false
	}
	_, linked := d.hosts[q.peer.Host]
	return linked && q.current() != StateError && q.peer.Host == a &&
		sameQP(q.ref, p.Theirs) && sameQP(q.peer.QP, p.Ours)
}

// reachesLocked tells whether an initiator of a host has a target in a domain.
func (d *Device) reachesLocked(a netip.Addr, initiator Ref, x *xrcd) bool {
	h := d.hosts[a]
	return h != nil && slices.ContainsFunc(h.targets[initiator.Number], func(t *Target) bool {
		return t.xrcd == x && t.current() != StateError && sameQP(t.peer.QP, initiator)
	})
}

// sameQP compares names; a generation of 0 is one that was never told.
func sameQP(a, b Ref) bool {
	return a.Kind == b.Kind && a.Number == b.Number &&
		(a.Generation == b.Generation || a.Generation == 0 || b.Generation == 0)
}

// PeerGone takes the word of a host that queue pairs of its own are gone, by an
// announcement or in answer to Pairs. Ours that are connected to them go to
// StateError at once; it returns how many.
func (d *Device) PeerGone(a netip.Addr, gone ...Ref) int {
	d.mu.Lock()
	defer d.unlock()
	h := d.hosts[a]
	if h == nil || len(gone) == 0 {
		return 0
	}
	names := make(map[Ref]bool, len(gone))
	for _, r := range gone {
		names[r] = true
	}
	ended := 0
	for q := range h.qps {
		unborn := q.peer.QP
		unborn.Generation = 0
		if !q.implied && (names[q.peer.QP] || names[unborn]) { // set-ups tell of those that are implied
			q.owner.failLocked(EventQPFatal, ErrPeerGone)
			ended++
		}
	}
	return ended
}

// Rename takes the word of the transport which queue pair is at the other end: its generation
// and the incarnation of its daemon, which no attribute has, or another queue pair that the
// peer has made. Then the old one is gone with all that was under way, and ours, which has no
// connection now, is as if it had been set up with the new one.
func (q *qp) Rename(p Peer) error {
	q.dev.mu.Lock()
	defer q.dev.unlock()
	s := q.current()
	if q.dead || q.conn != nil || s < StateRTR || s > StateSQD {
		return ErrState
	}
	q.dev.forgetLocked(q)
	q.meetLocked(p)
	q.attr.DestQPN = p.QP.Number
	return nil
}
