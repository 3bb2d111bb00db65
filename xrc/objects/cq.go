package objects

import (
	"context"

	"github.com/rds-go/rds/transport/iwarp"
)

// CQ is a completion queue of a session: requests of its initiators, and messages to its shared
// receive queues, complete there.
type CQ struct {
	*iwarp.CQ
	session *Session
	ref     Ref

	// Under Device.mu.
	users   map[completer]int // how often each user completes here
	overrun bool
	closed  bool
}

// completer is what a completion queue takes with it when it is overrun.
type completer interface{ overrunLocked() }

// CreateCQ makes a completion queue of n entries. Size it for all that can complete at once: a
// completion that finds it full ends it.
func (s *Session) CreateCQ(n int) (*CQ, error) {
	d := s.dev
	d.mu.Lock()
	defer d.unlock()
	switch err := s.liveLocked(); {
	case err != nil:
		return nil, err
	case s.used.CQs >= s.limits.CQs:
		return nil, ErrLimit
	}
	queue, err := d.config.Base.Device().CreateCQ(n)
	if err != nil {
		return nil, err
	}
	ref, err := d.numberLocked(KindCQ)
	if err != nil {
		return nil, err
	}
	c := &CQ{CQ: queue, session: s, ref: ref, users: make(map[completer]int)}
	queue.OnOverrun(c.overran)
	s.used.CQs++
	s.addLocked(c)
	return c, nil
}

// Ref names the queue in events.
func (c *CQ) Ref() Ref { return c.ref }

// overran follows a completion that found the queue full. The session hears EventCQError;
// initiators that complete here fail, shared receive queues take no more messages. Targets are
// nobody's to stop: others have queues behind them.
func (c *CQ) overran() {
	d := c.session.dev
	d.mu.Lock()
	defer d.unlock()
	if c.closed || c.overrun {
		return
	}
	c.overrun = true
	c.session.events.push(Event{Kind: EventCQError, Object: c.ref})
	for u := range c.users {
		u.overrunLocked()
	}
}

// Close destroys the queue: ErrBusy while something completes there. It waits
// for the session's events of it to be acknowledged.
func (c *CQ) Close(ctx context.Context) error { return c.end(ctx) }

func (c *CQ) end(ctx context.Context) error {
	return c.session.destroy(ctx, func() (Ref, error) {
		switch {
		case c.closed:
			return Ref{}, ErrForeign
		case len(c.users) > 0:
			return Ref{}, ErrBusy
		}
		return c.ref, nil
	}, c.abandonLocked)
}

func (c *CQ) abandonLocked() {
	d := c.session.dev
	c.closed = true
	c.session.used.CQs--
	delete(c.session.objects, c)
	d.freeLocked(c.ref)
	d.later(c.CQ.Free)
}

func (c *CQ) String() string { return c.ref.String() }

// useLocked counts one more role in which u completes here.
func (c *CQ) useLocked(u completer) { c.users[u]++ }

func (c *CQ) unuseLocked(u completer) {
	if c.users[u]--; c.users[u] == 0 {
		delete(c.users, u)
	}
}

func (c *CQ) usableLocked(s *Session) bool {
	return c != nil && c.session == s && !c.closed && !c.overrun
}
