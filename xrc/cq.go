package xrc

import "context"

// Completions is a completion queue of the transport. Both methods are called
// without a lock.
type Completions interface {
	// Purge removes what a queue pair that is destroyed has left there.
	Purge(qp Ref)
	// Close is called when the queue is destroyed. Of a session whose process
	// died, a message may still complete there after that, for nobody.
	Close()
}

// CQ is a completion queue of a session: shared receive queues and initiators
// complete there.
type CQ struct {
	session *Session
	ref     Ref
	queue   Completions

	// Under Device.mu.
	users   map[completer]int // how often each user completes here
	overrun bool
	closed  bool
}

// completer is what a completion queue takes with it when it is overrun.
type completer interface{ overrunLocked() }

// CreateCQ makes a completion queue.
func (s *Session) CreateCQ(queue Completions) (*CQ, error) {
	d := s.dev
	d.mu.Lock()
	defer d.unlock()
	switch err := s.liveLocked(); {
	case err != nil:
		return nil, err
	case queue == nil:
		return nil, ErrAttribute
	case s.used.CQs >= s.limits.CQs:
		return nil, ErrLimit
	}
	ref, err := d.numberLocked(KindCQ)
	if err != nil {
		return nil, err
	}
	c := &CQ{session: s, ref: ref, queue: queue, users: make(map[completer]int)}
	s.used.CQs++
	s.addLocked(c)
	return c, nil
}

// Ref names the queue in events.
func (c *CQ) Ref() Ref { return c.ref }

// Overrun is how the transport reports that a completion found the queue full.
// The session hears EventCQError; initiators that complete here fail, shared
// receive queues give no more receives. Targets are nobody's to stop: others
// have queues behind them.
func (c *CQ) Overrun() {
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
	d.later(c.queue.Close)
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
