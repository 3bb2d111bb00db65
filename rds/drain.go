package rds

import (
	"sync"
	"time"
)

// Drain ends the node's part in RDS so that nothing is lost, at most for the node's
// linger time: it refuses new sessions and new sockets, marks all ports congested, waits
// until everything that applications have sent is acknowledged, ends all links, having
// read each to its end, and hands over what has come. Applications with
// ClientConfig.Reconnect keep what they submit meanwhile for the next daemon. What
// applications sent that have ended since counts, too.
//
// What is left is logged for each peer, and its senders hear that it was dropped; the
// error then holds a *DroppedError. Close ends a Drain, and is what remains to be done.
func (s *Service) Drain() error {
	s.draining.Store(true)
	until := time.Now().Add(max(0, s.node.cfg.Linger))
	s.node.beginLeaving()
	socks := make(map[*appSocket]struct{})
	for _, x := range s.all() {
		x.mu.Lock()
		x.leaveLocked()
		for _, a := range x.sockets {
			if a != nil {
				socks[a] = struct{}{}
			}
		}
		x.mu.Unlock()
	}
	s.mu.Lock()
	for a := range s.lingering {
		socks[a] = struct{}{}
	}
	s.mu.Unlock()
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		left DroppedError
	)
	for a := range socks {
		if a.s.account.Messages() == 0 {
			continue
		}
		wg.Go(func() {
			a.await(s.node.cfg.Linger * 3 / 4) // the last quarter is for the steps that follow
			messages, bytes := a.s.abandon()
			mu.Lock()
			left.Messages += messages
			left.Bytes += bytes
			mu.Unlock()
		})
	}
	wg.Wait()
	if s.node.cfg.Linger > 0 {
		s.node.leave(until, s.cut)
		s.handOver(until)
	}
	s.node.logUndelivered()
	if left.Messages > 0 {
		return &OpError{Op: "drain", Err: &left}
	}
	return nil
}

// handOver waits until what has come for applications is theirs.
func (s *Service) handOver(until time.Time) {
	late := time.NewTimer(time.Until(until))
	defer late.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for s.waiting() {
		select {
		case <-tick.C:
		case <-late.C:
			return
		case <-s.cut:
			return
		}
	}
}

// waiting tells whether something waits for room in an application's memory.
func (s *Service) waiting() bool {
	for _, x := range s.all() {
		x.out.mu.Lock()
		n := len(x.out.waiting)
		x.out.mu.Unlock()
		if n > 0 {
			return true
		}
	}
	return false
}
