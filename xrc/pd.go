package xrc

import (
	"context"

	"github.com/rds-go/rds/mr"
)

// PD is a protection domain of a session. Keys in requests to a shared receive
// queue are checked against the queue's: through one target, the memory of a
// session is reached only by requests that name one of its queues.
type PD struct {
	session *Session
	memory  *mr.Domain

	// Under Device.mu.
	refs   int // shared receive queues and initiators
	closed bool
}

// AllocPD makes a protection domain of memory, which is the PD's to close from
// then on.
func (s *Session) AllocPD(memory *mr.Domain) (*PD, error) {
	s.dev.mu.Lock()
	defer s.dev.unlock()
	switch err := s.liveLocked(); {
	case err != nil:
		return nil, err
	case memory == nil:
		return nil, ErrAttribute
	case s.used.PDs >= s.limits.PDs:
		return nil, ErrLimit
	}
	p := &PD{session: s, memory: memory}
	s.used.PDs++
	s.addLocked(p)
	return p, nil
}

// Memory is what the table of regions knows the domain by.
func (p *PD) Memory() *mr.Domain { return p.memory }

// Close frees the domain: ErrBusy, or mr.ErrBusy, while queues, queue pairs or
// regions of it exist.
func (p *PD) Close() error { return p.end(context.Background()) }

func (p *PD) end(context.Context) error {
	p.session.dev.mu.Lock()
	defer p.session.dev.unlock()
	switch {
	case p.closed:
		return ErrForeign
	case p.refs > 0:
		return ErrBusy
	}
	if err := p.memory.Close(); err != nil {
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
