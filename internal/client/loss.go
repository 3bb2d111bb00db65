package client

import "github.com/rds-go/rds/rds/datagram"

// The loss of a daemon is told once for each socket: by the call that receives what the next
// daemon has brought, before it, or by one that sends or waits before that.

// lost is the end of the attachment.
func (s *Socket) lost(t *attachment) {
	t.sockMu.Lock() // a socket that has its half has what came before: the loss is told behind that
	h := s.half.Load()
	t.sockMu.Unlock()
	if h != nil {
		s.loseOperations(h) // before anybody hears of the loss instead of the fates of operations
		s.loseFates(h)
		// Before losses counts: who has heard of the loss must not find the half, and hear of the loss again.
		s.half.CompareAndSwap(h, nil) // rebind sees to one that it has put there meanwhile
	}
	n := s.losses.Add(1)
	if s.told.Load() == t {
		s.report(n)
	}
	s.Queue.CutOff(n)
	s.Readers.Wake(-1)
	s.writers.Wake(-1)
}

// lossOf is the error of a call that was under way on a half whose attachment has
// ended. The next call need not hear of it, but of losses since.
func (s *Socket) lossOf(h *half) error {
	err := h.att.lossError()
	s.told.Store(h.att) // before losses is read: lost counts and then reads told
	s.report(min(s.losses.Load(), h.before+1))
	return err
}

// report notes that the losses up to number n are reported, and tells whether all were before.
func (s *Socket) report(n uint64) (before bool) {
	for {
		was := s.reported.Load()
		if was >= n {
			return true
		}
		if s.reported.CompareAndSwap(was, n) {
			return false
		}
	}
}

// lossDue tells whether a daemon was lost and no call has reported it.
func (s *Socket) lossDue() bool { return s.reported.Load() < s.losses.Load() }

// Lost is for the inbox: what follows was brought by a later daemon than number n.
func (s *Socket) Lost(n uint64) error {
	if s.report(n) {
		return nil
	}
	return datagram.ErrDaemonLost
}

// Begun and Missed are for the inbox: every call that waits when the daemon goes fails, not only
// the first to notice.
func (s *Socket) Begun() uint64 { return s.losses.Load() }

func (s *Socket) Missed(since, seen uint64) error {
	if seen == since {
		return nil
	}
	s.report(seen)
	return datagram.ErrDaemonLost
}

// Trouble is the error of a socket whose daemon has gone. One that is lost after seen was read
// may have brought messages that the caller has not found.
func (s *Socket) Trouble(seen uint64) error {
	if s.losses.Load() != seen || s.half.Load() != nil && s.reported.Load() >= seen {
		return nil
	}
	if !s.c.config.Reconnect || !s.report(seen) {
		return datagram.ErrDaemonLost
	}
	if e := s.failed.Load(); e != nil { // a loss is reported before this error
		return *e
	}
	return nil
}
