package xrc

import "context"

// Use counts a queue pair of another transport that receives from a basic queue;
// ErrAttribute of an XRC one, which only targets receive from.
func (q *SRQ) Use() error {
	q.session.dev.mu.Lock()
	defer q.session.dev.unlock()
	switch {
	case q.kind == SRQXRC:
		return ErrAttribute
	case q.closing:
		return ErrForeign
	}
	q.users++
	return nil
}

// Unuse takes back one Use.
func (q *SRQ) Unuse() {
	q.session.dev.mu.Lock()
	defer q.session.dev.unlock()
	q.users--
}

// Close destroys the queue. Targets that it is behind do not keep it. What is
// posted vanishes without completions, messages that come later find no queue of
// that number, and one that has taken a receive is waited for, so that nothing
// of the session's memory is touched after the return.
//
// ErrBusy while queue pairs use a basic queue. It waits for the session's events
// of the queue to be acknowledged first. If ctx ends while a message is waited
// for the error is ErrStuck; Close can then be called again.
func (q *SRQ) Close(ctx context.Context) error { return q.end(ctx) }

func (q *SRQ) end(ctx context.Context) error {
	d := q.session.dev
	stuck := false // the queue was closed before, and is not finished
	err := q.session.destroy(ctx, func() (Ref, error) {
		stuck = q.closing && !q.gone
		switch {
		case stuck:
			return Ref{}, nil
		case q.gone:
			return Ref{}, ErrForeign
		case q.users > 0:
			return Ref{}, ErrBusy
		}
		return q.ref, nil
	}, q.closeLocked)
	if err != nil {
		return err
	}
	for q.holds.Load() != closing {
		select {
		case <-q.idle:
		case <-ctx.Done():
			return &waitError{ErrStuck, ctx.Err()}
		}
	}
	q.wakeCloser() // another closer may wait as well
	d.mu.Lock()
	defer d.unlock()
	q.finishLocked()
	return nil
}

// closeLocked keeps further messages out.
func (q *SRQ) closeLocked() {
	if q.closing {
		return
	}
	q.closing = true
	if q.kind == SRQXRC {
		q.session.dev.srqs.set(q.ref.Number, nil)
	}
	q.holds.Add(closing)
}

// finishLocked gives everything back, when no message uses the queue.
func (q *SRQ) finishLocked() {
	if q.gone {
		return
	}
	q.gone = true
	s, d := q.session, q.session.dev
	s.used.SRQs--
	s.used.Receives -= q.maxWR
	delete(s.objects, q)
	s.events.forget(q.ref) // events that the last messages caused
	q.pd.refs--
	delete(d.queues, q)
	if q.kind == SRQXRC {
		if q.cq != nil {
			q.cq.unuseLocked(q)
		}
		q.domain.refs--
		q.xrcd.dropLocked()
	}
	d.freeLocked(q.ref)
	d.later(q.queue.Close)
}

// abandonLocked leaves the rest to the message that still uses the queue. Its
// number is not given out before.
func (q *SRQ) abandonLocked() {
	q.closeLocked()
	q.orphan.Store(true)
	if q.holds.Load() == closing {
		q.finishLocked()
	}
}

func (q *SRQ) String() string { return q.ref.String() }
