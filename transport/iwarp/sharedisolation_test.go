//go:build !live

package iwarp

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/rds-go/rds/mr"
)

// One program of many on a connection uses bad keys and numbers all the time: not
// one request of the others fails, and each fault is counted.
func TestMRREQ26OneRogueOfManyOnASharedConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		queues := &queueMap{}
		client := newEnd(t, openDevice(t, Config{}), QPConfig{MaxSend: 1024})
		server := newEnd(t, openDevice(t, Config{}), QPConfig{})
		connectEnds(t, client, server, ConnParams{Shared: &SharedParams{Send: true, Require: true}},
			ConnParams{Shared: &SharedParams{Queues: queues, Errors: -1}})
		const others, each, rogue = 100, 30, ^uint64(0)
		local, remote := client.reg(4096, mr.LocalWrite), server.reg(4096, allRights)
		inbox := server.reg(64, mr.LocalWrite)
		cq, err := server.dev.CreateCQ(others * each)
		must(t, err)
		s := queues.srq(server, 1, SRQConfig{CQ: cq, MaxReceive: others * each})
		for range others * each {
			server.give(s, 0, inbox.SGE(0, 64))
		}
		good := func(id uint64, step int) WorkRequest {
			w := WorkRequest{ID: id, Flags: Signaled, SGE: []SGE{local.SGE(0, 64)}, RemoteKey: remote.Key(), RemoteAddr: remote.Base()}
			switch step % 3 {
			case 0:
				w.Op = OpWrite
			case 1:
				w.Op, w.SGE, w.RemoteAddr = OpRead, []SGE{local.SGE(1024, 64)}, remote.Base()+1024
			case 2:
				w.Queue = 1
			}
			return w
		}
		faults := 0
		bad := func() {
			w := good(rogue, faults)
			w.RemoteKey, w.Queue = remote.Key()+1, 2*w.Queue
			faults++
			client.send(w)
		}
		steps := make([]int, others)
		bad()
		for i := range uint64(others) {
			client.send(good(i, 0))
		}
		badKeys, refused := 0, 0
		for left := others * each; left > 0; {
			c := client.next()
			if c.ID == rogue {
				switch {
				case c.Status == RemoteAccess:
					badKeys++
				case c.Status == RemoteInvalidRD:
					refused++
				default:
					t.Fatalf("the rogue's request: %+v", c)
				}
				bad()
				continue
			}
			if c.Status != Success {
				t.Fatalf("another's request: %+v", c)
			}
			left--
			if steps[c.ID]++; steps[c.ID] < each {
				client.send(good(c.ID, steps[c.ID]))
			}
		}
		if badKeys == 0 || refused == 0 || server.dev.Stats().AccessErrors < uint64(badKeys) {
			t.Fatalf("%d bad keys, %d bad numbers, %d counted", badKeys, refused, server.dev.Stats().AccessErrors)
		}
	})
}

// A queue closed under load: what completes does so before Close returns, and
// nothing is written or completed afterwards.
func TestXRCREQ45CloseUnderLoad(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, x, _ := sharedPeer(t, true, SharedParams{Errors: -1})
		read := x.discard()
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		rnd := rand.New(rand.NewPCG(seed, 0))
		for range 100 {
			cq, err := e.dev.CreateCQ(64)
			must(t, err)
			mem := e.reg(4096, mr.LocalWrite)
			s := x.queues.srq(e, 1, SRQConfig{CQ: cq})
			for range 32 {
				e.give(s, 1, mem.SGE(0, 4096))
			}
			var wg sync.WaitGroup
			gone := make(chan struct{})
			wg.Go(func() {
				<-gone
				x.queues.remove(1)
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				for cq.Poll(make([]Completion, 64)) > 0 {
				}
				if err := cq.Close(); err != nil {
					t.Error(err)
				}
				clear(mem.Bytes()) // ours again
			})
			at := rnd.IntN(20)
			for i := range 24 {
				if i == at {
					close(gone)
				}
				n := rnd.IntN(2000)
				x.raw.send(x.message(1, 0, false, make([]byte, n)), x.message(1, uint32(n), true, make([]byte, 10)))
			}
			wg.Wait()
			x.raw.send(x.message(1, 0, true, nil)) // of a queue that is gone
			if cq.Poll(make([]Completion, 1)) != 0 {
				t.Fatal("completed after Close")
			}
			for _, b := range mem.Bytes() {
				if b != 0 {
					t.Fatal("written after Close")
				}
			}
		}
		_ = e.qp.Close()
		<-read
	})
}
