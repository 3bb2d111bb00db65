package objects

import (
	"context"

	"github.com/rds-go/rds/transport/iwarp"
)

// PD is a protection domain of a session: its channels and shared receive queues use regions
// of it and of no other. So does what a peer writes and reads: each Write, read and atomic
// names a shared receive queue, and reaches the regions of that queue's protection domain.
type PD struct {
	*iwarp.PD
	session *Session

	// Under Device.mu.
	refs   int // shared receive queues and initiators
	closed bool
}

// AllocPD makes a protection domain.
func (s *Session) AllocPD() (*PD, error) {
	d := s.dev
	d.mu.Lock()
	defer d.unlock()
	switch err := s.liveLocked(); {
	case err != nil:
		return nil, err
	case s.used.PDs >= s.limits.PDs:
		return nil, ErrLimit
	}
	shared, err := s.base.Share()
	if err != nil {
		return nil, err
	}
	p := &PD{PD: shared, session: s}
	s.used.PDs++
	s.addLocked(p)
	return p, nil
}

// Close frees the domain: EBUSY while queues, queue pairs or regions of it exist. The end of
// the session ends the regions, too.
func (p *PD) Close() error { return p.end(context.Background()) }

func (p *PD) end(ctx context.Context) error {
	d := p.session.dev
	d.mu.Lock()
	ending := p.session.ending
	switch {
	case p.closed:
		d.unlock()
		return ErrForeign
	case p.refs > 0:
		d.unlock()
		return ErrBusy
	}
	p.closed = true // before the lock is let go of, so that nothing is made with p
	d.unlock()
	free := p.PD.Close
	if ending {
		free = func() error { return p.PD.Free(ctx) }
	}
	err := free()
	d.mu.Lock()
	defer d.unlock()
	if err != nil {
		p.closed = false
		return err
	}
	p.abandonLocked()
	return nil
}

func (p *PD) abandonLocked() {
	p.closed = true
	p.session.used.PDs--
	delete(p.session.objects, p)
}

func (p *PD) String() string { return "protection domain" }

// usableLocked tells whether the session may make something with it.
func (p *PD) usableLocked(s *Session) bool { return p != nil && p.session == s && !p.closed }
