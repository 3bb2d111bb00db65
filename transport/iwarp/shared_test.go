//go:build !live

package iwarp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rds-go/rds/mr"
)

func TestSharedQueuesAreNamedByNumber(t *testing.T) {
	t.Parallel()
	for name, m := range modes {
		inBubble(t, name, func(t *testing.T) {
			client, server, queues := sharedPair(t, m.cfg, m.cp, m.sp)
			src, dst := client.reg(1<<20, 0), server.reg(1<<20, mr.LocalWrite)
			fill(src.Bytes(), 9)
			a, b := queues.srq(server, 5, SRQConfig{}), queues.srq(server, 0xfffffe, SRQConfig{})
			for i, n := range []int{0, 1, 64, 5000, 70_000, 1 << 20} {
				to := a
				if i%2 == 1 {
					to = b
				}
				server.give(to, uint64(i), dst.SGE(0, n/2), dst.SGE(n/2, n-n/2))
				client.send(WorkRequest{ID: uint64(i), Flags: Signaled | Solicited, Queue: to.Num(), SGE: []SGE{src.SGE(0, n)}})
				c := server.want(uint64(i), Success, OpReceive)
				if int(c.Len) != n || c.Queue != to.Num() || !c.Solicited || !bytes.Equal(dst.Bytes()[:n], src.Bytes()[:n]) {
					t.Fatalf("%d bytes to queue %d: %d came to %d", n, to.Num(), c.Len, c.Queue)
				}
				if c := client.want(uint64(i), Success, OpSend); c.Queue != to.Num() {
					t.Fatalf("completed as of queue %d", c.Queue)
				}
			}
			server.give(a, 7, dst.SGE(0, 10))
			server.give(a, 8)
			server.post(9, dst.SGE(0, 10))
			client.send(WorkRequest{ID: 7, Flags: Signaled, Queue: 5, Inline: []byte("inline")},
				WorkRequest{ID: 8, Op: OpImmediate, Flags: Signaled, Queue: 5, Immediate: 4711},
				WorkRequest{ID: 9, Flags: Signaled, Inline: []byte("own queue")})
			got := map[uint64]Completion{}
			for range 3 {
				c := server.next()
				got[c.ID] = c
			}
			if got[7].Len != 6 || got[8].Immediate != 4711 || got[8].Op != OpImmediate || got[9].Len != 9 || got[9].Queue != 0 {
				t.Fatalf("%+v", got)
			}
			for range 3 {
				if c := client.next(); c.Status != Success {
					t.Fatalf("%+v", c)
				}
			}
			must(t, client.qp.Ping(within(t)))
			must(t, server.qp.Ping(within(t)))
		})
	}
}

func TestSharedQueueRetriesEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, server, queues := sharedPair(t, Config{}, ConnParams{Shared: &SharedParams{Send: true, Retries: 2}}, ConnParams{})
		queues.srq(server, 1, SRQConfig{})
		client.send(WorkRequest{ID: 1, Queue: 1, Inline: []byte("x")})
		client.want(1, ReceiverNotReady, OpSend)
		if client.qp.State() != StateRTS {
			t.Fatal(client.qp.Err())
		}
	})
}

// A message that is too long is refused, and the memory is the next one's.
func TestTooLongForSharedQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, server, queues := sharedPair(t, Config{MaxULPDU: 1000}, ConnParams{}, ConnParams{})
		src, dst := client.reg(8192, 0), server.reg(8192, mr.LocalWrite)
		a := queues.srq(server, 1, SRQConfig{})
		server.give(a, 1, dst.SGE(0, 3000))
		for _, n := range []int{3001, 8192} {
			client.send(WorkRequest{ID: 1, Queue: 1, SGE: []SGE{src.SGE(0, n)}})
			client.want(1, RemoteInvalid, OpSend)
		}
		client.send(WorkRequest{ID: 2, Queue: 1, Flags: Signaled, SGE: []SGE{src.SGE(0, 3000)}})
		server.want(1, Success, OpReceive)
		client.want(2, Success, OpSend)
	})
}

// A receive request whose memory is gone fails, and so does the message.
func TestBadMemoryInSharedQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, server, queues := sharedPair(t, Config{}, ConnParams{}, ConnParams{})
		src, dst, gone := client.reg(8192, 0), server.reg(8192, mr.LocalWrite), server.reg(8192, mr.LocalWrite)
		must(t, gone.Dereg(within(t)))
		a := queues.srq(server, 1, SRQConfig{})
		server.give(a, 1, gone.SGE(0, 8192))
		server.give(a, 2, dst.SGE(0, 8192))
		client.send(WorkRequest{ID: 1, Queue: 1, Flags: Signaled, SGE: []SGE{src.SGE(0, 8192)}},
			WorkRequest{ID: 2, Queue: 1, Flags: Signaled, SGE: []SGE{src.SGE(0, 8192)}})
		server.want(1, LocalProtection, OpReceive)
		server.want(2, Success, OpReceive)
		client.want(1, RemoteAccess, OpSend)
		client.want(2, Success, OpSend)
	})
}

// Towards a plain peer nothing of it is there.
func TestPlainPeerHasNoSharedQueues(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, _ := pair(t, Config{}, ConnParams{Shared: &SharedParams{Send: true}, Private: []byte("hello")}, ConnParams{Private: []byte("hi")})
		if client.est.Shared || string(client.est.Private) != "hi" {
			t.Fatalf("%+v", client.est)
		}
		if _, err := client.qp.PostSend(WorkRequest{Queue: 1, Inline: []byte("x")}); err == nil {
			t.Fatal("posted")
		}
		if client.qp.Ping(within(t)) == nil {
			t.Fatal("pinged")
		}
		c2 := newEnd(t, client.dev, QPConfig{})
		s2 := newEnd(t, openDevice(t, Config{}), QPConfig{})
		to, _ := accepting(t, s2, ConnParams{})
		if _, err := c2.dev.Connect(within(t), c2.qp, to, ConnParams{Shared: &SharedParams{Send: true, Require: true}}); !errors.Is(err, ErrNotShared) {
			t.Fatalf("%v", err)
		}
	})
}

// Disconnect has messages to shared queues delivered first, also those that wait
// for memory.
func TestDisconnectDeliversSharedMessages(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, server, queues := sharedPair(t, Config{}, ConnParams{}, ConnParams{})
		src, dst := client.reg(5000, 0), server.reg(5000, mr.LocalWrite)
		s := queues.srq(server, 1, SRQConfig{})
		for i := range 30 {
			client.send(WorkRequest{ID: uint64(i), Flags: Signaled, Queue: 1, SGE: []SGE{src.SGE(0, 5000)}})
		}
		must(t, client.qp.Disconnect())
		for i := range 30 {
			server.give(s, uint64(i), dst.SGE(0, 5000))
			server.want(uint64(i), Success, OpReceive)
		}
		for i := range 30 {
			client.want(uint64(i), Success, OpSend)
		}
		<-client.qp.Done()
		<-server.qp.Done()
	})
}

// Many queues on one connection, with sizes, starvation and ends at random: what
// completes as delivered has come, once and in order within its queue.
func TestManySharedQueues(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{"small": {MaxULPDU: 1442}, "large": {}} {
		inBubble(t, name, func(t *testing.T) {
			const queuesN, each, most = 16, 60, 20_000
			client, server, queues := sharedPair(t, cfg, ConnParams{NoCRC: name == "large"}, ConnParams{NoCRC: name == "large"})
			src := client.reg(most, 0)
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rnd := rand.New(rand.NewPCG(seed, 1))
			var wg sync.WaitGroup
			for n := range uint32(queuesN) {
				cq, err := server.dev.CreateCQ(256)
				must(t, err)
				dst := server.reg(most, mr.LocalWrite)
				s := queues.srq(server, n+1, SRQConfig{CQ: cq})
				slow := n%4 == 3
				wg.Go(func() {
					for want := uint32(0); want < each; want++ {
						server.give(s, 0, dst.SGE(0, most))
						if slow {
							tick := time.NewTimer(time.Duration(want%5) * time.Millisecond)
							<-tick.C
						}
						var c [1]Completion
						for cq.Poll(c[:]) == 0 {
							if err := cq.Wait(within(t)); err != nil {
								t.Errorf("queue %d, message %d: %v", n+1, want, err)
								return
							}
						}
						if c[0].Status != Success || c[0].Immediate != 0 {
							t.Errorf("%+v", c[0])
							return
						}
						if got := c[0].Len; got != length(n, want) {
							t.Errorf("queue %d, message %d: %d bytes, want %d", n+1, want, got, length(n, want))
							return
						}
					}
				})
			}
			next := make([]uint32, queuesN)
			outstanding := 0
			for posted := 0; posted < queuesN*each; {
				n := rnd.Uint32N(queuesN)
				if next[n] == each {
					continue
				}
				if outstanding == 100 {
					if c := client.next(); c.Status != Success {
						t.Fatalf("%+v", c)
					}
					outstanding--
				}
				client.send(WorkRequest{Flags: Signaled, Queue: n + 1, SGE: []SGE{src.SGE(0, int(length(n, next[n])))}})
				next[n]++
				posted++
				outstanding++
			}
			for ; outstanding > 0; outstanding-- {
				if c := client.next(); c.Status != Success {
					t.Fatalf("%+v", c)
				}
			}
			wg.Wait()
		})
	}
}

// length is that of message i to queue n: different from its neighbours.
func length(n, i uint32) uint32 {
	var b [8]byte
	binary.LittleEndian.PutUint32(b[:], n)
	binary.LittleEndian.PutUint32(b[4:], i)
	h := uint32(2166136261)
	for _, c := range b {
		h = (h ^ uint32(c)) * 16777619
	}
	return h % 20_000
}

func TestSharedQueueLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, server, queues := sharedPair(t, Config{}, ConnParams{}, ConnParams{})
		reached := make(chan struct{}, 10)
		dst := server.reg(64, mr.LocalWrite)
		s := queues.srq(server, 1, SRQConfig{Limit: 3, OnLimit: func(*SRQ) { reached <- struct{}{} }})
		for i := range 5 {
			server.give(s, uint64(i), dst.SGE(0, 64))
		}
		for i := range 5 {
			client.send(WorkRequest{Queue: 1, Inline: []byte("x")})
			server.want(uint64(i), Success, OpReceive)
			if want := i >= 2; want != (len(reached) > 0) || len(reached) > 1 {
				t.Fatalf("after %d messages: %d events", i+1, len(reached))
			}
		}
	})
}
