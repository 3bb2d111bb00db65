//go:build !live

package iwarp

import (
	"sync"
	"testing"

	"github.com/rds-go/rds/mr"
)

// Lists of messages to many shared queues in turn, only the last of each list
// signaled, arrive and complete without end.
func TestListsToManySharedQueues(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const queuesN, window, posted, rounds, size = 32, 16, 32, 20, 8 << 10
		queues := &queueMap{}
		client := newEnd(t, openDevice(t, Config{}), QPConfig{MaxSend: queuesN * window})
		server := newEnd(t, openDevice(t, Config{}), QPConfig{})
		connectEnds(t, client, server,
			ConnParams{NoCRC: true, Shared: &SharedParams{Send: true, Require: true}}, ConnParams{NoCRC: true, Shared: &SharedParams{Queues: queues}})
		src := client.reg(size, 0)
		var wg sync.WaitGroup
		come := make([]int, queuesN)
		for i := range queuesN {
			cq, err := server.dev.CreateCQ(posted)
			must(t, err)
			dst := server.reg(posted*size, mr.LocalWrite)
			s := queues.srq(server, uint32(i+1), SRQConfig{CQ: cq, MaxReceive: posted})
			for k := range posted {
				server.give(s, uint64(k), dst.SGE(k*size, size))
			}
			wg.Go(func() {
				var c [window]Completion
				for come[i] < rounds*window {
					n := cq.Poll(c[:])
					for k := range c[:n] {
						if _, err := s.PostReceive(ReceiveRequest{ID: c[k].ID, SGE: []SGE{dst.SGE(int(c[k].ID)*size, size)}}); err != nil {
							t.Error(err)
							return
						}
					}
					come[i] += n
					if n > 0 {
						continue
					}
					if err := cq.Wait(within(t)); err != nil {
						t.Errorf("queue %d: %d of %d messages: %v", i+1, come[i], rounds*window, err)
						return
					}
				}
			})
		}
		list := make([]WorkRequest, window)
		post := func(i int) {
			for k := range list {
				list[k] = WorkRequest{ID: uint64(i), Queue: uint32(i + 1), SGE: []SGE{src.SGE(0, size)}}
			}
			list[window-1].Flags = Signaled
			client.send(list...)
		}
		left := make([]int, queuesN)
		for i := range queuesN {
			left[i] = rounds - 1
			post(i)
		}
		for done := 0; done < queuesN*rounds; done++ {
			c := client.next()
			if c.Status != Success {
				t.Fatalf("%+v", c)
			}
			if left[c.ID] > 0 {
				left[c.ID]--
				post(int(c.ID))
			}
		}
		wg.Wait()
	})
}
