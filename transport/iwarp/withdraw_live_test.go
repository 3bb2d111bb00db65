//go:build live

package iwarp

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/rds-go/rds/mr"
)

// Regions go at any moment while messages are sent from them by many, through a
// socket that is full most of the time: nobody loses more than a message.
func TestRegionsGoWhileMessagesAreSent(t *testing.T) {
	t.Parallel()
	client, server, queues := sharedPair(t, Config{SendBuffer: 32 << 10}, ConnParams{NoCRC: true}, ConnParams{NoCRC: true})
	const size, depth, span = 40_000, 8, 500 * time.Millisecond
	dst := server.reg(size, mr.LocalWrite)
	var wg sync.WaitGroup
	srq := queues.srq(server, 1, SRQConfig{})
	for i := range 2 * depth {
		server.give(srq, uint64(i), dst.SGE(0, size))
	}
	stop := make(chan struct{})
	wg.Go(func() { server.giveBack(srq, dst, stop) })
	var mu sync.Mutex
	regions := make([]*MR, depth)
	for i := range regions {
		regions[i] = client.reg(size, 0)
	}
	wg.Go(func() {
		rng := rand.New(rand.NewPCG(1, 2))
		for {
			select {
			case <-stop:
				return
			default:
			}
			i := rng.IntN(depth)
			fresh, err := client.pd.RegMR(make([]byte, size), 0, 0x10000)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			old := regions[i]
			regions[i] = fresh
			mu.Unlock()
			if err := old.Dereg(within(t)); err != nil {
				t.Error(err)
				return
			}
			clear(old.Bytes())
		}
	})
	post := func(i uint64) {
		mu.Lock()
		sge := regions[i].SGE(0, size)
		mu.Unlock()
		client.send(WorkRequest{ID: i, Flags: Signaled, Queue: 1, SGE: []SGE{sge}})
	}
	for i := range uint64(depth) {
		post(i)
	}
	count, ctx := map[Status]int{}, within(t)
	end := time.Now().Add(span)
	for left := depth; left > 0; {
		c := client.next()
		if count[c.Status]++; c.Status != Success && c.Status != LocalProtection {
			t.Errorf("%+v: %v", c, client.qp.Err())
			break
		}
		if time.Now().Before(end) || (count[LocalProtection] == 0 || count[Success] == 0) && ctx.Err() == nil {
			post(c.ID)
		} else {
			left--
		}
	}
	close(stop)
	wg.Wait()
	if count[Success] == 0 || count[LocalProtection] == 0 {
		t.Errorf("too little of something: %v", count)
	}
}

// giveBack posts every request of a queue again when it has completed, until stop is closed.
// Messages that come have the length of the region.
func (e *end) giveBack(s *SRQ, m *MR, stop <-chan struct{}) {
	size := len(m.Bytes())
	var c [16]Completion
	for {
		n := e.cq.Poll(c[:])
		for i := range c[:n] {
			if c[i].Status == Success && int(c[i].Len) != size {
				e.t.Errorf("%+v", c[i])
			}
			if _, err := s.PostReceive(ReceiveRequest{ID: c[i].ID, SGE: []SGE{m.SGE(0, size)}}); err != nil {
				e.t.Error(err)
			}
		}
		select {
		case <-stop:
			return
		default:
			runtime.Gosched()
		}
	}
}
