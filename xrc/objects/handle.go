package objects

import (
	"container/list"
	"context"
	"slices"
)

// Handle is a session's hold of a target, as ibv_open_qp gives one. Each counts
// on its own.
type Handle struct {
	session *Session
	domain  *Domain
	target  *Target

	// Under Device.mu.
	service  *Service      // service whose request by a peer made the handle, if one did
	grave    *list.Element // place in Session.dead, while the target is in StateError
	byNumber bool          // the handle stands for registration by number
	closed   bool
}

// OpenTarget opens one more handle of the target that number names in a domain, as
// ibv_open_qp does.
func (s *Session) OpenTarget(dom *Domain, number uint32) (*Handle, error) {
	s.dev.mu.Lock()
	defer s.dev.unlock()
	t, err := s.liveTargetLocked(dom, number)
	if err != nil {
		return nil, err
	}
	if s.used.Registrations >= s.limits.Registrations {
		return nil, ErrLimit
	}
	return s.holdLocked(dom, t), nil
}

// Number is the target's number.
func (h *Handle) Number() uint32 { return h.target.ref.Number }

// Query is Session.QueryTarget of the target.
func (h *Handle) Query() (Info, error) {
	h.session.dev.mu.Lock()
	defer h.session.dev.unlock()
	if h.closed {
		return Info{}, ErrForeign
	}
	return h.target.infoLocked(), nil
}

// Modify is Session.ModifyTarget of the target.
func (h *Handle) Modify(a Attr, m Mask) error {
	h.session.dev.mu.Lock()
	defer h.session.dev.unlock()
	if h.closed {
		return ErrForeign
	}
	return h.target.modifyThroughLocked(h.domain, &a, m)
}

// Destroy gives the handle up; the target goes with the last one of all, be it
// a handle or a registration by number. ErrForeign the second time.
func (h *Handle) Destroy(ctx context.Context) error { return h.end(ctx) }

// holdLocked makes a handle. The caller has looked at the limit.
func (s *Session) holdLocked(dom *Domain, t *Target) *Handle {
	h := &Handle{session: s, domain: dom, target: t}
	dom.refs++
	s.used.Registrations++
	s.addLocked(h)
	at := len(t.handles)
	if i := slices.IndexFunc(t.handles, func(x *Handle) bool { return x.session == s }); i >= 0 {
		at = i + len(t.handlesLocked(s))
	}
	t.handles = slices.Insert(t.handles, at, h)
	if t.current() == StateError {
		h.mournLocked()
	}
	return h
}

// mournLocked is for a registration with a target in StateError, which does not count. Of these
// a session has as many as its limit is; the oldest goes for one more.
func (h *Handle) mournLocked() {
	s := h.session
	s.used.Registrations--
	h.grave = s.dead.PushBack(h)
	if s.dead.Len() > s.limits.Registrations {
		s.dead.Front().Value.(*Handle).abandonLocked()
	}
}

func (h *Handle) unmournLocked() {
	h.session.dead.Remove(h.grave)
	h.grave = nil
}

func (h *Handle) String() string { return "registration with " + h.target.ref.String() }

// abandonLocked drops the hold; the target goes with the last one of all.
func (h *Handle) abandonLocked() {
	s, t := h.session, h.target
	h.closed = true
	h.domain.refs--
	if h.grave != nil {
		h.unmournLocked()
	} else {
		s.used.Registrations--
	}
	delete(s.objects, h)
	if h.service != nil {
		delete(h.service.targets, t)
	}
	if t.handles = slices.DeleteFunc(t.handles, func(x *Handle) bool { return x == h }); len(t.handles) == 0 {
		t.destroyLocked(ErrDestroyed)
	}
}

// end drops the hold once no event is waiting to be acknowledged, if it is the
// session's last of this target.
func (h *Handle) end(ctx context.Context) error {
	return h.session.destroy(ctx, func() (Ref, error) {
		if h.closed {
			return Ref{}, ErrForeign
		}
		if len(h.target.handlesLocked(h.session)) > 1 {
			return Ref{}, nil
		}
		return h.target.ref, nil
	}, h.abandonLocked)
}
