package objects

import (
	"iter"
	"net/netip"
	"slices"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/rds-go/rds/mr"
)

// Target is a queue pair that receives requests for all shared receive queues
// of its domain. It belongs to the device and the domain, never to the session
// that made it, and lives while a session is registered with it.
//
// The methods of a Target are for the transport that carries it; sessions name
// it by number, in calls of Session, or have a Handle.
type Target struct {
	qp
	xrcd    *xrcd         // constant
	unknown atomic.Uint64 // requests for a queue that the domain does not have

	// Under Device.mu.
	user        User       // user of the session that has made the target
	creator     *Session   // session whose limit the target counts against while it is counted
	madeFor     netip.Addr // host of the initiator that a service made it for
	counted     bool
	handles     []*Handle // registrations; those of a session are next to each other
	established bool      // EventCommEstablished was raised
}

// TargetAttr describes a target to be made, which has no protection domain, no completion
// queue and no queue of its own.
type TargetAttr struct {
	Domain  *Domain
	Implied bool // as InitiatorAttr.Implied
}

// CreateTarget makes a target in StateReset, with the session registered by
// number from the beginning, and returns its name.
func (s *Session) CreateTarget(a TargetAttr) (Ref, error) {
	d := s.dev
	d.mu.Lock()
	defer d.unlock()
	if _, err := s.domainLocked(a.Domain); err != nil {
		return Ref{}, err
	}
	t, h, err := s.newTargetLocked(a.Domain, netip.Addr{})
	if err != nil {
		return Ref{}, err
	}
	h.byNumber = true
	t.implied = a.Implied
	return t.ref, nil
}

// newTargetLocked makes a target with one handle, for an initiator of a host, or for nobody yet.
func (s *Session) newTargetLocked(dom *Domain, peer netip.Addr) (*Target, *Handle, error) {
	d, x := s.dev, dom.xrcd
	if err := s.mayLocked(s.share.targets, d.config.Shares.Targets); err != nil {
		return nil, nil, err
	}
	if s.used.Targets >= s.limits.Targets || s.used.Registrations >= s.limits.Registrations {
		return nil, nil, ErrLimit
	}
	ref, err := d.numberLocked(KindTarget)
	if err != nil {
		return nil, nil, err
	}
	t := &Target{qp: qp{dev: d, kind: TypeTarget, ref: ref, attr: new(Attr)}, xrcd: x, user: s.user, creator: s, madeFor: peer, counted: true}
	t.owner = t
	d.targets[ref.Number] = t
	x.refs++
	s.countLocked(1, peer)
	return t, s.holdLocked(dom, t), nil
}

// destroyLocked ends a target that nobody is registered with, or whose device
// ends. There is no event: its peer learns of it from its connection.
func (t *Target) destroyLocked(cause error) {
	if t.dead {
		return
	}
	t.goneLocked(cause)
	delete(t.dev.targets, t.ref.Number)
	t.uncountLocked()
	t.creator = nil
	t.xrcd.dropLocked()
}

// eventLocked tells every session registered, however it is, once.
func (t *Target) eventLocked(k EventKind) {
	for list := range t.sessionsLocked() {
		list[0].session.events.push(Event{Kind: k, Object: t.ref})
	}
}

// uncountLocked ends the count of the target against its creator's limit.
func (t *Target) uncountLocked() {
	if t.counted {
		t.counted = false
		t.creator.countLocked(-1, t.madeFor)
	}
}

// letGoLocked follows the end of a target that sessions are registered with. The registrations
// that services made by themselves end, for nobody asked for them: with the last of all the
// target goes. The others stay, so that who made them can look, and count no more.
func (t *Target) letGoLocked() {
	t.uncountLocked()
	for _, h := range slices.Clone(t.handles) {
		if h.service != nil {
			h.abandonLocked()
		} else {
			h.mournLocked()
		}
	}
}

// reviveLocked is the way back, by a reset.
func (t *Target) reviveLocked() {
	t.counted = true
	t.creator.countLocked(1, t.madeFor)
	for _, h := range t.handles {
		h.unmournLocked()
		h.session.used.Registrations++
	}
}

// failLocked moves the target to StateError. Every session hears the reason, if
// it is one that events have, and then that no receive is taken any more.
func (t *Target) failLocked(k EventKind, cause error) {
	if !t.errorLocked(cause) {
		return
	}
	d := t.dev
	d.errored.add(&t.qp, d.config.Now(), d.config.Reap)
	if _, fatal := k.affiliated(); fatal {
		t.eventLocked(k)
	}
	t.eventLocked(EventLastWQE)
	t.letGoLocked()
	ref, host := t.ref, t.peer.Host
	d.later(func() {
		d.log.Info("target in error", zap.Stringer("target", ref), zap.Stringer("peer", host), zap.Error(cause))
	})
}

// sessionsLocked goes over the sessions that are registered, each with its handles, of which there is one at least.
func (t *Target) sessionsLocked() iter.Seq[[]*Handle] {
	return func(yield func([]*Handle) bool) {
		for rest, n := t.handles, 0; len(rest) > 0; rest = rest[n:] {
			for n = 1; n < len(rest) && rest[n].session == rest[0].session; n++ {
			}
			if !yield(rest[:n:n]) {
				return
			}
		}
	}
}

// handlesLocked are the session's handles; none if the session is not registered.
func (t *Target) handlesLocked(s *Session) []*Handle {
	for list := range t.sessionsLocked() {
		if list[0].session == s {
			return list
		}
	}
	return nil
}

// registeredLocked is how many sessions are registered.
func (t *Target) registeredLocked() (n int) {
	for range t.sessionsLocked() {
		n++
	}
	return n
}

// findHandle is the first handle that is so; nil if there is none.
func findHandle(list []*Handle, so func(*Handle) bool) *Handle {
	if i := slices.IndexFunc(list, so); i >= 0 {
		return list[i]
	}
	return nil
}

// targetLocked is the target that number names in the domain of a handle.
func (s *Session) targetLocked(dom *Domain, number uint32) (*Target, error) {
	x, err := s.domainLocked(dom)
	if err != nil {
		return nil, err
	}
	t := s.dev.targets[number]
	if t == nil || t.xrcd != x {
		return nil, ErrNumber
	}
	return t, nil
}

// memberLocked is targetLocked for sessions that are registered.
func (s *Session) memberLocked(dom *Domain, number uint32) (*Target, error) {
	t, err := s.targetLocked(dom, number)
	if err == nil && t.handlesLocked(s) == nil {
		return nil, ErrNotRegistered
	}
	return t, err
}

// QueryTarget tells everything about a target that the session is registered
// with, whoever made it.
func (s *Session) QueryTarget(dom *Domain, number uint32) (Info, error) {
	s.dev.mu.Lock()
	defer s.dev.unlock()
	t, err := s.memberLocked(dom, number)
	if err != nil {
		return Info{}, err
	}
	return t.infoLocked(), nil
}

func (t *Target) infoLocked() Info {
	i := t.qp.infoLocked()
	i.Registered = t.registeredLocked()
	i.UnknownSRQ = t.unknown.Load()
	return i
}

// ModifyTarget changes a target for all who are registered with it; each of
// them may who is of the user that made the target, by a handle of the domain whose descriptor is open
// for writing, too. ErrAccess otherwise. The log says who did.
func (s *Session) ModifyTarget(dom *Domain, number uint32, a Attr, m Mask) error {
	d := s.dev
	d.mu.Lock()
	defer d.unlock()
	t, err := s.memberLocked(dom, number)
	if err != nil {
		return err
	}
	return t.modifyThroughLocked(dom, &a, m)
}

// modifiableLocked tells whether the target may be modified through a handle of its domain.
func (t *Target) modifiableLocked(dom *Domain) error {
	if !dom.writes || dom.session.user != t.user {
		return ErrAccess
	}
	return nil
}

// modifyThroughLocked modifies the target through a handle of its domain.
func (t *Target) modifyThroughLocked(dom *Domain, a *Attr, m Mask) error {
	if err := t.modifiableLocked(dom); err != nil {
		return err
	}
	return t.modifyByLocked(dom.session, a, m)
}

func (t *Target) modifyByLocked(s *Session, a *Attr, m Mask) error {
	if c := t.creator; m&MaskState != 0 && a.State == StateReset && !t.counted && t.attr != nil {
		if c.used.Targets >= c.limits.Targets {
			return ErrLimit
		}
		if err := c.mayLocked(c.share.targets, t.dev.config.Shares.Targets); err != nil {
			return err
		}
	}
	from, err := t.modifyLocked(a, m)
	if err != nil || m&MaskState == 0 {
		return err
	}
	switch a.State {
	case StateError:
		t.failLocked(EventLastWQE, ErrModified)
	case StateReset:
		t.established = false
		if from == StateError {
			t.reviveLocked()
		}
	}
	ref, to := t.ref, a.State
	t.dev.later(func() {
		t.dev.log.Info("target modified", zap.String("session", s.name), zap.Stringer("target", ref),
			zap.Stringer("from", from), zap.Stringer("to", to))
	})
	return nil
}

// EnsureConnected brings a target up to StateRTR with the attributes of that
// and of StateInit, so that of several sessions that want the same one does it,
// for which done is true, and the others find it done. ErrAttribute if it is up
// with others, ErrState if it is in StateError.
func (s *Session) EnsureConnected(dom *Domain, number uint32, a Attr) (done bool, err error) {
	s.dev.mu.Lock()
	defer s.dev.unlock()
	t, err := s.memberLocked(dom, number)
	if err != nil {
		return false, err
	}
	if now := t.current(); now == StateReset || now == StateInit {
		if err := t.modifiableLocked(dom); err != nil {
			return false, err
		}
	}
	return t.connectLocked(s, &a)
}

func (t *Target) connectLocked(s *Session, a *Attr) (bool, error) {
	if t.attr == nil {
		return false, ErrNumber
	}
	const up = rtrMask | responding
	switch t.current() {
	case StateReset, StateInit:
	case StateError:
		return false, ErrState
	default:
		want := *t.attr
		want.set(initMask|up, a)
		if want != *t.attr {
			return false, ErrAttribute
		}
		return false, nil
	}
	// The values of both steps first, so that one does not fail after the other.
	if err := a.check(initMask|up, &t.dev.config); err != nil {
		return false, err
	}
	for _, step := range [...]struct {
		to State
		m  Mask
	}{{StateInit, initMask}, {StateRTR, up}} {
		next := *a
		next.State = step.to
		if err := t.modifyByLocked(s, &next, MaskState|step.m); err != nil {
			return false, err
		}
	}
	return true, nil
}

// Target finds a target for the transport that carries it.
func (d *Device) Target(r Ref) (*Target, error) {
	d.mu.Lock()
	defer d.unlock()
	t := d.targets[r.Number]
	switch {
	case t == nil:
		return nil, ErrNumber
	case t.ref != r:
		return nil, ErrStale
	}
	return t, nil
}

// Accepts are the rights that requests of the peer may use, without a lock: access flags of the
// target, those of reads and atomics only with a depth.
func (t *Target) Accepts() mr.Rights { return mr.Rights(t.accepts.Load()) }

// DomainTag is Domain.Tag of the target's domain.
func (t *Target) DomainTag() uint64 { return t.xrcd.tag }

// State returns the state, without a lock.
func (t *Target) State() State { return t.current() }

// Info is QueryTarget for the transport.
func (t *Target) Info() Info {
	t.dev.mu.Lock()
	defer t.dev.unlock()
	return t.infoLocked()
}

// Attach makes c carry the target, in StateRTR or beyond. The target closes it
// when it ends, is reset or fails.
func (t *Target) Attach(c Connection) error {
	t.dev.mu.Lock()
	defer t.dev.unlock()
	return t.attachLocked(c)
}

// Raise is how the transport reports an event of the target. One that is the
// end of it moves it to StateError, with cause.
func (t *Target) Raise(k EventKind, cause error) error {
	t.dev.mu.Lock()
	defer t.dev.unlock()
	ok, fatal := k.affiliated()
	switch {
	case !ok:
		return ErrAttribute
	case t.dead:
		return ErrNumber
	case fatal:
		t.failLocked(k, cause)
	case k == EventCommEstablished && (t.established || t.current() != StateRTR):
	default:
		t.established = t.established || k == EventCommEstablished
		t.eventLocked(k)
	}
	return nil
}
