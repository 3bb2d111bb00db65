package objects

// ConnectRequest is what a peer's daemon asks on behalf of an initiator.
type ConnectRequest struct {
	From     Peer   // the initiator
	Service  uint64 // service id: names the domain, and queue, that the initiator wants
	MTU      int    // octets
	RdAtomic int    // reads and atomics it would like to have in flight
	// Join, if it is not zero, is a target that the initiator has already. It
	// wants one more service behind it.
	Join Ref
}

// ConnectReply is the answer: the target is in StateRTR, the queue exists.
type ConnectReply struct {
	Target      Ref
	Incarnation uint64
	MTU         int
	RdAtomic    int
	Answer      Answer // zero if the service has no queue
	// Reused: the target was there before.
	Reused bool
}

// connectRNRTimer is 0.32 ms. Code 0, which the Linux connection manager gives a
// target, makes an initiator that met one empty queue wait for 655 ms.
const connectRNRTimer = 10

// Connect finds or makes the target for a peer's initiator in the domain of a
// service, and registers the session that advertises it. A request that comes
// twice is answered twice in the same way; one for another domain has a target
// of its own. A generation of the initiator later than known ends the targets of
// the earlier one; StatusNotReady is the answer to an earlier one, and to an
// incarnation of the host that is not the one that is connected, which HostUp
// tells first.
func (d *Device) Connect(r ConnectRequest) (ConnectReply, Status) {
	d.mu.Lock()
	defer d.unlock()
	v, st := d.findLocked(r.Service, r.From.Host)
	if st != StatusFound {
		return ConnectReply{}, st
	}
	r.From.QP.Kind = KindInitiator
	r.MTU, r.RdAtomic = min(r.MTU, d.config.MTU), min(r.RdAtomic, d.config.RdAtomic)
	if KindOf(r.From.QP.Number) != KindInitiator || r.From.QP.Generation == 0 || r.MTU < 256 || r.RdAtomic < 0 || !r.From.Host.IsValid() {
		return ConnectReply{}, StatusRejected
	}
	if h := d.hosts[r.From.Host]; h != nil && h.incarnation != 0 && h.incarnation != r.From.Incarnation {
		return ConnectReply{}, StatusNotReady
	}
	t, st := d.existingLocked(v, &r)
	if st != StatusFound {
		return ConnectReply{}, st
	}
	reply := ConnectReply{Incarnation: d.incarnation, MTU: r.MTU, RdAtomic: r.RdAtomic, Reused: t != nil}
	if t != nil && (t.attr.PathMTU != r.MTU || t.attr.MaxDestRdAtomic != r.RdAtomic) {
		return ConnectReply{}, StatusRejected
	}
	if t, st = v.takeLocked(t, &r); st != StatusFound {
		return ConnectReply{}, st
	}
	reply.Target = t.ref
	if v.attr.SRQ != nil {
		reply.Answer, _ = v.answerLocked()
	}
	return reply, StatusFound
}

// existingLocked is the target that the initiator has in the service's domain,
// nil if there is none.
func (d *Device) existingLocked(v *Service, r *ConnectRequest) (*Target, Status) {
	var found *Target
	var outlived []*Target
	if h := d.hosts[r.From.Host]; h != nil {
		for _, t := range h.targets[r.From.QP.Number] {
			switch age := int32(r.From.QP.Generation - t.peer.QP.Generation); {
			case t.peer.Incarnation != r.From.Incarnation:
				outlived = append(outlived, t)
			case age < 0:
				return nil, StatusNotReady
			case age > 0:
				outlived = append(outlived, t)
			case t.xrcd == v.attr.Domain.xrcd:
				found = t
			}
		}
	}
	for _, t := range outlived {
		t.failLocked(EventQPFatal, ErrPeerGone)
	}
	if r.Join != (Ref{}) && (found == nil || found.ref != r.Join) {
		return nil, StatusNotReady
	}
	return found, StatusFound
}

// takeLocked registers the service's session with t, or with a new target.
func (v *Service) takeLocked(t *Target, r *ConnectRequest) (*Target, Status) {
	s := v.session
	if t != nil {
		if v.targets[t] == nil {
			if s.used.Registrations >= s.limits.Registrations {
				return nil, StatusBusy
			}
			v.holdLocked(s.holdLocked(v.attr.Domain, t))
		}
		return t, StatusFound
	}
	if !s.servesLocked(r.From.Host) {
		return nil, StatusBusy
	}
	t, h, err := s.newTargetLocked(v.attr.Domain, r.From.Host)
	if err != nil {
		return nil, StatusBusy
	}
	v.holdLocked(h)
	a := Attr{Access: v.attr.Access, Host: r.From.Host, PathMTU: r.MTU, DestQPN: r.From.QP.Number, MaxDestRdAtomic: r.RdAtomic, MinRNRTimer: connectRNRTimer}
	if _, err := t.connectLocked(s, &a); err != nil {
		h.abandonLocked()
		return nil, StatusRejected
	}
	t.meetLocked(r.From)
	known := s.dev.hostLocked(r.From.Host)
	known.targets[r.From.QP.Number] = append(known.targets[r.From.QP.Number], t)
	return t, StatusFound
}

func (v *Service) holdLocked(h *Handle) {
	h.service = v
	v.targets[h.target] = h
}
