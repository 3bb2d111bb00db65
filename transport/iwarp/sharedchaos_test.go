//go:build !live

package iwarp

import (
	"sync"
	"testing"

	"github.com/rds-go/rds/mr"
)

// A connection with messages, Writes and reads in both directions is ended in
// every way and at any moment, while memory is posted from many goroutines and
// queues close: each request completes once, and queues remember nobody.
func TestSharedConnectionEndsAtAnyMoment(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(client, server *end, s *SRQ){
		"Close":        func(c, _ *end, _ *SRQ) { _ = c.qp.Close() },
		"Fail":         func(c, _ *end, _ *SRQ) { c.qp.Fail() },
		"Disconnect":   func(c, s *end, _ *SRQ) { _ = c.qp.Disconnect(); s.qp.Fail() },
		"device":       func(_, s *end, _ *SRQ) { _ = s.dev.Close() },
		"queue first":  func(c, _ *end, s *SRQ) { _ = s.Close(); c.qp.Fail() },
		"all together": func(c, s *end, q *SRQ) { go c.qp.Fail(); go s.qp.Fail(); _ = q.Close() },
	} {
		inBubble(t, name, func(t *testing.T) {
			for range 15 {
				client, server, queues := sharedPair(t, Config{EventLoops: 1}, ConnParams{}, ConnParams{})
				local, remote := client.reg(4096, mr.LocalWrite), server.reg(4096, allRights)
				inbox := server.reg(4096, mr.LocalWrite)
				s := queues.srq(server, 1, SRQConfig{MaxReceive: 16})
				queues.srq(server, 2, SRQConfig{}) // dry for ever
				var wg sync.WaitGroup
				for range 4 {
					wg.Go(func() {
						for server.qp.State() != StateError {
							if _, err := s.PostReceive(ReceiveRequest{ID: 1, SGE: []SGE{inbox.SGE(0, 4096)}}); err == ErrClosed {
								return
							}
							server.cq.Poll(make([]Completion, 8))
						}
					})
				}
				posted, done := 0, make(map[uint64]int)
				for posted < 100 {
					w := WorkRequest{ID: uint64(posted), Flags: Signaled, SGE: []SGE{local.SGE(0, 64)}, RemoteKey: remote.Key(), RemoteAddr: remote.Base()}
					switch posted % 4 {
					case 0, 1:
						w.Queue = uint32(1 + posted%4)
					case 2:
						w.Op = OpWrite
					case 3:
						w.Op, w.RemoteAddr, w.SGE[0] = OpRead, remote.Base()+1024, local.SGE(1024, 64)
					}
					if _, err := client.qp.PostSend(w); err != nil {
						break
					}
					posted++
				}
				end(client, server, s)
				<-client.qp.Done()
				<-server.qp.Done()
				wg.Wait()
				if name != "Close" { // which drops what was not polled
					for _, c := range client.rest() {
						done[c.ID]++
					}
					for id := range uint64(posted) {
						if done[id] != 1 {
							t.Fatalf("request %d of %d completed %d times", id, posted, done[id])
						}
					}
				}
				for n, q := range queues.m {
					if q.mu.Lock(); len(q.starved) > 0 || q.rq.lent != 0 {
						t.Errorf("queue %d: %d starved, %d lent", n, len(q.starved), q.rq.lent)
					}
					q.mu.Unlock()
				}
			}
		})
	}
}
