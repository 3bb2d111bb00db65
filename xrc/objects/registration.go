package objects

import (
	"cmp"
	"context"
)

// Register registers the session with a target of the domain, by number, and
// returns what it is like, so that no session misses an error that was before.
// It is idempotent: there is one registration by number for each session.
// ErrNumber if the number names no live target of this domain.
func (s *Session) Register(dom *Domain, number uint32) (Info, error) {
	s.dev.mu.Lock()
	defer s.dev.unlock()
	t, err := s.liveTargetLocked(dom, number)
	if err != nil {
		return Info{}, err
	}
	if h := findHandle(t.handlesLocked(s), func(h *Handle) bool { return h.byNumber }); h != nil {
		return t.infoLocked(), nil
	}
	if s.used.Registrations >= s.limits.Registrations {
		return Info{}, ErrLimit
	}
	s.holdLocked(dom, t).byNumber = true
	return t.infoLocked(), nil
}

// liveTargetLocked is targetLocked without tombstones: nobody joins those.
func (s *Session) liveTargetLocked(dom *Domain, number uint32) (*Target, error) {
	t, err := s.targetLocked(dom, number)
	if err == nil && t.attr == nil {
		return nil, ErrNumber
	}
	return t, err
}

// Unregister drops the registration by number, or if there is none one that a
// peer had made by a service of the session; with the last of all sessions the
// target is destroyed before the call returns. ErrNotRegistered if the session
// has neither. It waits for the session's events of the target to be acknowledged,
// if nothing else of the session holds the target.
func (s *Session) Unregister(ctx context.Context, dom *Domain, number uint32) error {
	s.dev.mu.Lock()
	t, err := s.targetLocked(dom, number)
	var h *Handle
	if err == nil {
		list := t.handlesLocked(s)
		h = cmp.Or(findHandle(list, func(h *Handle) bool { return h.byNumber }), findHandle(list, func(h *Handle) bool { return h.service != nil }))
		if h == nil {
			err = ErrNotRegistered
		}
	}
	s.dev.unlock()
	if err != nil {
		return err
	}
	if err := h.end(ctx); err != ErrForeign {
		return err
	}
	// Somebody was quicker.
	s.dev.mu.Lock()
	defer s.dev.unlock()
	if s.ending {
		return ErrClosed
	}
	return ErrNotRegistered
}
