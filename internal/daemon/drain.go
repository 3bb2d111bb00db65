package daemon

import (
	"sync"
	"time"

	"github.com/rds-go/rds/rds/datagram"
)

// Drain is Service.Drain of package rds.
func (s *Service) Drain() error {
	s.draining.Store(true)
	until := time.Now().Add(max(0, s.node.Config.Linger))
	s.node.BeginLeaving()
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
		left datagram.DroppedError
	)
	for a := range socks {
		if a.s.Account.Messages() == 0 {
			continue
		}
		wg.Go(func() {
			a.sess.working.Add(1) // as await has it
			defer a.sess.working.Add(-1)
			a.await(s.node.Config.Linger * 3 / 4) // the last quarter is for the steps that follow
			messages, bytes := a.s.Abandon()
			mu.Lock()
			left.Messages += messages
			left.Bytes += bytes
			mu.Unlock()
		})
	}
	wg.Wait()
	if s.node.Config.Linger > 0 {
		s.node.Leave(until, s.cut)
		s.handOver(until)
	}
	s.node.LogUndelivered()
	if left.Messages > 0 {
		return &datagram.OpError{Op: "drain", Err: &left}
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
