package objects

import "context"

// Initiator is a queue pair that sends requests. It belongs to one session and
// completes in its completion queue.
type Initiator struct {
	qp
	session *Session
	pd      *PD
	cq      *CQ
	maxSend int

	// Under Device.mu.
	ended    func() // see OnEnd
	restarts int    // restarts since the last connection
}

// InitiatorAttr describes an initiator to be made.
type InitiatorAttr struct {
	PD      *PD // required
	SendCQ  *CQ // required
	MaxSend int // requests that may be outstanding; required
	// Implied: the set-up of each connection tells the peer which queue pairs go on, so that
	// Pairs does not ask for this one.
	Implied bool
}

// CreateInitiator makes an initiator in StateReset.
func (s *Session) CreateInitiator(a InitiatorAttr) (*Initiator, error) {
	d := s.dev
	d.mu.Lock()
	defer d.unlock()
	switch err := s.liveLocked(); {
	case err != nil:
		return nil, err
	case a.PD == nil, a.SendCQ == nil, a.MaxSend < 1:
		return nil, ErrAttribute
	case !a.PD.usableLocked(s), !a.SendCQ.usableLocked(s):
		return nil, ErrForeign
	case s.used.Initiators >= s.limits.Initiators:
		return nil, ErrLimit
	}
	ref, err := d.numberLocked(KindInitiator)
	if err != nil {
		return nil, err
	}
	i := &Initiator{qp: qp{dev: d, kind: TypeInitiator, ref: ref, attr: new(Attr), implied: a.Implied}, session: s, pd: a.PD, cq: a.SendCQ, maxSend: a.MaxSend}
	i.owner = i
	d.initiators[ref.Number] = i
	i.pd.refs++
	i.cq.useLocked(i)
	s.used.Initiators++
	s.addLocked(i)
	return i, nil
}

// Ref names the initiator. A reset changes its generation.
func (i *Initiator) Ref() Ref {
	i.dev.mu.Lock()
	defer i.dev.unlock()
	return i.ref
}

// State returns the state, without a lock.
func (i *Initiator) State() State { return i.current() }

// Query tells everything about the initiator.
func (i *Initiator) Query() (Info, error) {
	i.dev.mu.Lock()
	defer i.dev.unlock()
	if i.dead {
		return Info{}, ErrForeign
	}
	info := i.infoLocked()
	info.MaxSend = i.maxSend
	return info, nil
}

// Modify is ibv_modify_qp: either everything that m names is changed, or
// nothing. With requests in flight, which the transport reports by Draining, a move
// to StateSQD takes until Drained.
func (i *Initiator) Modify(a Attr, m Mask) error {
	i.dev.mu.Lock()
	defer i.dev.unlock()
	_, err := i.modifyLocked(&a, m)
	if err == nil && m&MaskState != 0 && a.State == StateError {
		i.failLocked(EventLastWQE, ErrModified)
	}
	return err
}

// Connect brings the initiator up to StateRTS, with the attributes a, and the queue pair p at
// the other end.
func (i *Initiator) Connect(p Peer, a Attr) error {
	i.dev.mu.Lock()
	defer i.dev.unlock()
	a.Host, a.DestQPN = p.Host, p.QP.Number
	for _, step := range [...]struct {
		to State
		m  Mask
	}{{StateInit, initMask}, {StateRTR, rtrMask}, {StateRTS, rtsMask | initiating}} {
		a.State = step.to
		if _, err := i.modifyLocked(&a, MaskState|step.m); err != nil {
			return err
		}
	}
	i.meetLocked(p)
	return nil
}

// Draining is how the transport reports that requests started before StateSQD
// are still in flight.
func (i *Initiator) Draining() {
	i.dev.mu.Lock()
	defer i.dev.unlock()
	i.draining = i.current() == StateSQD
}

// Drained reports that none is; the session hears EventSQDrained if it asked to.
func (i *Initiator) Drained() {
	i.dev.mu.Lock()
	defer i.dev.unlock()
	if i.current() != StateSQD {
		return
	}
	i.draining = false
	if i.attr.SQDNotify {
		i.attr.SQDNotify = false
		i.session.events.push(Event{Kind: EventSQDrained, Object: i.ref})
	}
}

// CheckPost tells whether requests may be posted: from StateRTS on. In
// StateError they are accepted, to be flushed.
func (i *Initiator) CheckPost() error {
	switch i.current() {
	case StateRTS, StateSQD, StateError:
		return nil
	}
	return ErrState
}

// Attach makes c carry the initiator, in StateRTR or beyond. The initiator
// closes it when it ends, is reset or fails.
func (i *Initiator) Attach(c Connection) error {
	i.dev.mu.Lock()
	defer i.dev.unlock()
	err := i.attachLocked(c)
	if err == nil {
		i.restarts = 0
	}
	return err
}

// Fail is how the transport moves the initiator to StateError. There is no event
// for what a completion reports; k is EventQPFatal if none does, else
// EventLastWQE, which initiators do not raise.
func (i *Initiator) Fail(k EventKind, cause error) {
	i.dev.mu.Lock()
	defer i.dev.unlock()
	i.failLocked(k, cause)
}

func (i *Initiator) failLocked(k EventKind, cause error) {
	if !i.errorLocked(cause) {
		return
	}
	if _, fatal := k.affiliated(); fatal {
		i.session.events.push(Event{Kind: k, Object: i.ref})
	}
}

func (i *Initiator) overrunLocked() { i.failLocked(EventLastWQE, ErrOverrun) }

// OnEnd has f called, with no lock held, when the initiator is destroyed, before its completions
// are removed. It is false if that has happened.
func (i *Initiator) OnEnd(f func()) bool {
	i.dev.mu.Lock()
	defer i.dev.unlock()
	i.ended = f
	return i.pd != nil
}

// Destroy ends the initiator. What was posted vanishes, and completions that were
// not polled are gone. It waits for the session's events of it to be
// acknowledged. ErrForeign the second time.
func (i *Initiator) Destroy(ctx context.Context) error { return i.end(ctx) }

func (i *Initiator) end(ctx context.Context) error {
	return i.session.destroy(ctx, func() (Ref, error) {
		if i.pd == nil {
			return Ref{}, ErrForeign
		}
		return i.ref, nil
	}, i.abandonLocked)
}

func (i *Initiator) abandonLocked() {
	i.destroyLocked(ErrDestroyed)
	s, cq, ended, number := i.session, i.cq, i.ended, i.ref.Number
	i.pd.refs--
	cq.unuseLocked(i)
	i.pd, i.cq = nil, nil
	s.used.Initiators--
	delete(s.objects, i)
	i.dev.later(func() {
		if ended != nil {
			ended()
		}
		cq.PurgeInitiator(number)
	})
}

// destroyLocked ends the queue pair; Device.Close leaves the object to its owner.
func (i *Initiator) destroyLocked(cause error) {
	if i.dead {
		return
	}
	i.goneLocked(cause)
	delete(i.dev.initiators, i.ref.Number)
}

func (i *Initiator) String() string { return i.ref.String() }
