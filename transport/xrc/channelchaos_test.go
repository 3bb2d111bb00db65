//go:build !live

package xrc

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

// Senders come, send and die, and connections are lost at any moment: when all are
// gone nothing is left on either side.
func TestXRCREQ34NothingPilesUpOnTheWire(t *testing.T) {
	bubbleOn(t, lan, func(t *testing.T) {
		const cycles = 300
		n := newNet(t, hostOptions{fabric: Options{Interval: 20 * time.Millisecond},
			xrc: objects.Config{Grace: 300 * time.Millisecond, Limits: objects.Limits{Targets: 32, Registrations: 32}}})
		a, b := n.host(1), n.host(2)
		server := b.app("")
		srq, m := server.serve(7, 64, 100)
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		rnd := rand.New(rand.NewPCG(seed, 1))
		ctx, cancel := context.WithCancel(t.Context()) // the cycles take as long as they take
		var wg sync.WaitGroup
		wg.Go(func() { // the server takes messages, and reads no events
			var list [16]iwarp.Completion
			for server.cq.Wait(ctx) == nil {
				for _, c := range list[:server.cq.Poll(list[:])] {
					if _, err := srq.PostReceive(iwarp.ReceiveRequest{ID: c.ID, SGE: []iwarp.SGE{m.SGE(int(c.ID)*100, 100)}}); err != nil {
						t.Error(err)
					}
				}
			}
		})
		for i := range cycles {
			client := a.app("")
			ch := client.connectAs(2, ChannelAttr{Service: 7})
			for range rnd.IntN(4) {
				client.send(ch, aMessage(ch, 1))
			}
			if i%10 == 0 {
				a.cut()
			}
			if rnd.IntN(2) == 0 {
				_ = client.cq.Poll(make([]iwarp.Completion, 4))
			}
			client.die()
		}
		a.cut()
		n.until("nothing is left", func() bool {
			x, y := a.objects.Stats(), b.objects.Stats()
			return x.Initiators+x.Hosts+y.TotalTargets()+y.Suspended+y.Hosts+a.connections()+b.connections()+a.ChannelStats().Peers+b.ChannelStats().Peers == 0
		})
		cancel()
		wg.Wait()
		if x, y := a.objects.Stats(), b.objects.Stats(); x.Leaks+y.Leaks != 0 || x.Sessions != 1 || y.Domains != 2 {
			t.Errorf("%+v, %+v", x, y)
		}
	})
}

// Several processes on each side send to several queues of the other, slow ones
// among them, while connections are lost: each queue gets the messages of each
// sender once and in order.
func TestManyChannelsAcrossLostConnections(t *testing.T) {
	bubbleOn(t, lan, func(t *testing.T) {
		const senders, queues, each = 3, 3, 120
		n := newNet(t, hostOptions{fabric: Options{MaxSend: 64}})
		hosts := [2]*host{n.host(1), n.host(2)}
		var wg sync.WaitGroup
		stop := make(chan struct{})
		for side, h := range hosts {
			var srqns [queues]uint32
			job := []string{"many-a", "many-b"}[side]
			for q := range queues {
				server := h.app(job)
				srq, m := server.serve(uint64(q+1), 4*(q+1), 8)
				srqns[q] = srq.Num()
				wg.Go(func() { server.expect(srq, m, senders, each) })
			}
			for s := range senders {
				client := hosts[1-side].app("")
				ch := client.connect(byte(side+1), 1)
				wg.Go(func() { client.scatter(ch, uint32(s), srqns[:], each) })
			}
		}
		var cutter sync.WaitGroup
		cutter.Go(func() {
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for i := range 80 {
				select {
				case <-tick.C:
					hosts[i%2].cut()
				case <-stop:
					return
				}
			}
		})
		wg.Wait()
		close(stop)
		cutter.Wait()
		if s := hosts[0].ChannelStats(); s.Resumed == 0 {
			t.Errorf("nothing was resumed: %+v", s)
		}
	})
}

// A message and the Writes it builds on are one: after a lost connection it is not
// there without them.
func TestMessagesWithWritesAreNotSentAgain(t *testing.T) {
	bubbleOn(t, lan, func(t *testing.T) {
		_, a, b := twoHosts(t, hostOptions{})
		server := b.app("")
		server.serve(7, 1000, 8)
		memory := server.region(8, everyRight)
		client := a.app("")
		local := client.region(8, mr.LocalWrite)
		ch := client.connect(2, 7)
		queue := ch.Queue().SRQN
		if _, err := ch.PostSend(iwarp.WorkRequest{Queue: queue, Writes: 1}); !errors.Is(err, ErrRequest) {
			t.Error("a message without its Write:", err)
		}
		delivered, lost := 0, 0
		for i := range uint64(300) {
			client.send(ch, iwarp.WorkRequest{ID: 1, Op: iwarp.OpWrite, Queue: queue, RemoteKey: memory.Key(), Inline: binary.BigEndian.AppendUint64(nil, i)},
				iwarp.WorkRequest{ID: 2, Flags: iwarp.Signaled, Queue: queue, Writes: 1})
			if i%30 == 5 {
				[]*host{a, b}[i/30%2].cut()
			}
			c := client.next()
			for c.ID != 2 {
				c = client.next()
			}
			if c.Status == iwarp.Flushed {
				lost++
				continue
			}
			delivered++
			client.send(ch, tagged(iwarp.OpRead, queue, memory, local))
			client.want(uint64(queue), iwarp.Success, iwarp.OpRead)
			if got := binary.BigEndian.Uint64(local.Bytes()); c.Status != iwarp.Success || got != i {
				t.Fatalf("%+v after Write %d, not %d", c, got, i)
			}
		}
		var list [16]iwarp.Completion
		came := 0
		for k := server.cq.Poll(list[:]); k > 0; k = server.cq.Poll(list[:]) {
			came += k
		}
		if came != delivered || lost == 0 {
			t.Errorf("%d came, %d completed so, and %d were lost", came, delivered, lost)
		}
	})
}

// What the channel does not take it says so, and takes later.
func TestChannelLimits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, a, b := twoHosts(t, hostOptions{})
		server := b.app("")
		srq, m := server.serve(7, 0, 8)
		client := a.app("")
		ch := client.connectAs(2, ChannelAttr{Service: 7, MaxSend: 8})
		for i := range 8 {
			client.send(ch, aMessage(ch, uint64(i)))
		}
		if _, err := ch.PostSend(aMessage(ch, 8)); !errors.Is(err, ErrFull) {
			t.Error(err)
		}
		foreign := server.region(8, 0)
		for name, w := range map[string]iwarp.WorkRequest{
			"no queue":       {Inline: []byte("x")},
			"control queue":  {Queue: controlQueue},
			"foreign memory": {Queue: 0x100, SGE: []iwarp.SGE{foreign.SGE(0, 8)}},
			"long inline":    {Queue: 0x100, Inline: make([]byte, 129)},
			"unknown":        {Op: iwarp.OpReceive},
			"no queue named": {Op: iwarp.OpWrite, Inline: []byte("x")},
			"far address":    {Op: iwarp.OpWrite, Queue: 0x100, Inline: []byte("xy"), RemoteAddr: iwarp.MaxNamed - 1},
		} {
			if _, err := ch.PostSend(w); err == nil || errors.Is(err, ErrFull) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for i := range 8 {
			post(t, srq, uint64(i), m.SGE(0, 1))
		}
		if _, err := srq.PostReceive(iwarp.ReceiveRequest{SGE: []iwarp.SGE{{Key: 0x4711, Len: 8}}}); !errors.Is(err, iwarp.ErrForeign) {
			t.Error(err)
		}
		for i := range 8 {
			client.want(uint64(i), iwarp.RemoteInvalid, iwarp.OpSend) // too long for it
			_ = i
		}
	})
}

// Queues that nobody gives memory to hold up neither messages to others on the same
// channel nor other channels.
func TestDryQueuesStopNobodyElse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, a, b := twoHosts(t, hostOptions{fabric: Options{MaxSend: 64}})
		server := b.app("")
		var dry []uint32
		for i := range 5 {
			srq, _ := server.serve(uint64(100+i), 0, 8)
			num := srq.Num()
			dry = append(dry, num)
		}
		_, _ = server.serve(7, 300, 8)
		first, second := a.app(""), a.app("")
		ch := first.connect(2, 7)
		for i := range 250 {
			first.send(ch, iwarp.WorkRequest{ID: 1, Queue: dry[i%len(dry)]})
		}
		other := second.connect(2, 7)
		for i := range 100 {
			first.send(ch, iwarp.WorkRequest{ID: 2, Flags: iwarp.Signaled, Queue: ch.Queue().SRQN})
			second.send(other, iwarp.WorkRequest{ID: 3, Flags: iwarp.Signaled, Queue: ch.Queue().SRQN})
			first.want(2, iwarp.Success, iwarp.OpSend)
			second.want(3, iwarp.Success, iwarp.OpSend)
			if i == 50 {
				a.cut()
			}
		}
	})
}

// A process that sends to queues there are not hurts nobody else.
func TestXRCREQ38WrongQueuesByTheThousandOnTheWire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, a, b := twoHosts(t, hostOptions{})
		server := b.app("")
		server.serve(7, 200, 64)
		rogue, good := a.app(""), a.app("")
		bad, ch := rogue.connect(2, 7), good.connect(2, 7)
		var wg sync.WaitGroup
		wg.Go(func() {
			open := 0
			for i := range 10_000 {
				for ; open == 400; open-- {
					rogue.want(1, iwarp.RemoteInvalidRD, iwarp.OpSend)
				}
				rogue.send(bad, iwarp.WorkRequest{ID: 1, Queue: 0x1000 + uint32(i)})
				open++
			}
			for ; open > 0; open-- {
				rogue.want(1, iwarp.RemoteInvalidRD, iwarp.OpSend)
			}
		})
		for range 200 {
			good.says(ch, 2)
		}
		wg.Wait()
		if a.dials.Load() != 1 {
			t.Error("the connection was lost")
		}
	})
}

// A fabric ends while everything is going on: nothing hangs, and whoever waits
// hears of it.
func TestCloseInTheMiddle(t *testing.T) {
	bubbleOn(t, lan, func(t *testing.T) {
		for range 5 {
			_, a, b := twoHosts(t, hostOptions{})
			server := b.app("")
			server.serve(7, 500, 64)
			var wg sync.WaitGroup
			var ready sync.WaitGroup
			for range 8 {
				client := a.app("")
				ready.Add(1)
				wg.Go(func() {
					var once sync.Once
					for {
						ch, err := a.Connect(within(t), client.Session, ChannelAttr{PD: client.pd, CQ: client.cq, Remote: b.addr, Service: 7})
						once.Do(ready.Done)
						if err != nil {
							return
						}
						for range 20 {
							if _, err := ch.PostSend(aMessage(ch, 1)); err != nil {
								return
							}
						}
						for range 20 {
							if client.next().Status != iwarp.Success {
								return
							}
						}
						if err := ch.Close(within(t)); err != nil {
							t.Error(err)
						}
					}
				})
			}
			ready.Wait()
			if err := a.Transport.Close(); err != nil {
				t.Error(err)
			}
			wg.Wait()
			if err := a.Transport.Close(); err != nil {
				t.Error(err)
			}
			a.dead = true
			_ = a.objects.Close()
			_ = a.dev.Close()
		}
	})
}
