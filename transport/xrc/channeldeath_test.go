//go:build !live

package xrc

import (
	"context"
	"testing"
	"time"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

// A message to a queue of a dead process fails at once, one that waits for memory
// there as well, and the sender hears that the queue is gone. Only the peer's answer
// gives a message this status: one that nobody answers stays.
func TestXRCREQ32QueuesOfTheDeadAnswerAtOnceOnTheWire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, a, b := twoHosts(t, hostOptions{})
		server, other := b.app("job32"), b.app("job32")
		server.serve(7, 0, 100)
		client := a.app("")
		gone := make(chan uint32, 4)
		ch := client.connectAs(2, ChannelAttr{Service: 7, OnQueueGone: func(n uint32) { gone <- n }})
		other.register(ch)
		client.send(ch, aMessage(ch, 1)) // there is no memory for it
		n.until("the message waits", when(&ch.mu, func() bool { return ch.started == 1 }))
		server.die()
		client.want(1, iwarp.RemoteInvalidRD, iwarp.OpSend)
		client.send(ch, aMessage(ch, 2))
		client.want(2, iwarp.RemoteInvalidRD, iwarp.OpSend)
		if got := <-gone; got != ch.Queue().SRQN {
			t.Errorf("queue %#x is gone, not %#x", got, ch.Queue().SRQN)
		}
		endedBy(t, ch, nil)
	})
}

// The end of an initiator is announced, whether its process ends it or dies, and
// the end of a target likewise. Each session registered hears it once.
func TestXRCREQ33TheEndIsAnnouncedOnTheWire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, a, b := twoHosts(t, hostOptions{})
		server, other := b.app("job33"), b.app("job33")
		server.serve(7, 4, 100)
		for name, end := range map[string]func(*app, *Channel) error{
			"close": func(_ *app, ch *Channel) error { return ch.Close(within(t)) },
			"death": func(c *app, _ *Channel) error { return c.Session.Close(context.Background()) },
		} {
			client, ch := a.client(2, 7)
			other.register(ch)
			must(t, end(client, ch))
			for _, s := range []*app{server, other} {
				s.ends(ch, objects.EventQPFatal)
				s.quiet()
			}
			if err := other.Unregister(within(t), other.dom, ch.Target().Number); err != nil { // what the service held has gone by itself
				t.Error(err)
			}
			if n := b.allTargets(); n != 0 {
				t.Errorf("%s: %d targets", name, n)
			}
		}

		client, ch := a.client(2, 7)
		server.die() // the last one registered
		client.hears(objects.EventQPFatal, ch.Ref())
		<-ch.Done()
		endedBy(t, ch, objects.ErrPeerGone)
		client.send(ch, aMessage(ch, 9), aMessage(ch, 10))
		client.want(9, iwarp.RetryExceeded, iwarp.OpSend)
		client.want(10, iwarp.Flushed, iwarp.OpSend)
	})
}

// The host of the initiators dies: without a word its queue pairs end when the
// grace is over, and not before.
func TestXRCREQ33DeathOfTheInitiatorsHostOnTheWire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, a, b := twoHosts(t, hostOptions{xrc: objects.Config{Grace: 200 * time.Millisecond}})
		server := b.app("")
		server.serve(7, 4, 100)
		ch := a.app("").connect(2, 7)
		start := time.Now()
		a.kill()
		server.hears(objects.EventQPFatal, ch.Target())
		if d := time.Since(start); d < 200*time.Millisecond {
			t.Errorf("it ended after %v", d)
		}
		n.until("the targets of RDS and of the channel are gone", func() bool { return b.objects.Stats().TotalTargets() == 0 })
	})
}

// A daemon that is restarted is another incarnation: the queue pairs of the old one
// end when it is heard of, and new ones work.
func TestXRCREQ48AnotherIncarnationOnTheWire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, a, b := twoHosts(t, hostOptions{})
		b.app("").serve(7, 4, 100)
		local := a.app("")
		local.serve(8, 4, 100)
		client, remote := a.app(""), b.app("")
		ch := client.connect(2, 7)
		back := remote.connect(1, 8)
		b.kill()
		client.send(ch, aMessage(ch, 1)) // under way, or waiting for the connection
		b2 := n.host(2)
		server := b2.app("")
		server.serve(7, 4, 100)
		if c := client.next(); c.ID != 1 || c.Status == iwarp.Success {
			t.Errorf("%+v", c)
		}
		client.hears(objects.EventQPFatal, ch.Ref())
		endedBy(t, ch, objects.ErrIncarnation)
		local.hears(objects.EventQPFatal, back.Target())
		again := client.connect(2, 7)
		client.says(again, 2)
		server.want(0, iwarp.Success, iwarp.OpReceive)
	})
}

// One that ends in order says so: nobody waits for the end of the grace.
func TestXRCREQ48ATransportThatClosesSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, a, b := twoHosts(t, hostOptions{})
		server := b.app("")
		server.serve(7, 4, 100)
		client, ch := a.client(2, 7)
		b.close()
		client.hears(objects.EventQPFatal, ch.Ref())
		endedBy(t, ch, objects.ErrPeerGone)
		n.until("the session hears", func() bool { e, ok := server.PollEvent(); return ok && e.Kind == objects.EventDeviceFatal })
	})
}

// A queue is closed under load: what was delivered before is all that is written,
// and after the return nothing is, says the race detector too.
func TestXRCREQ45CloseUnderLoadOnTheWire(t *testing.T) {
	bubbleOn(t, lan, func(t *testing.T) {
		_, a, b := twoHosts(t, hostOptions{fabric: Options{Config: iwarp.Config{MaxULPDU: 1442}}})
		server, other := b.app("job45"), b.app("job45")
		srq, m := server.serve(7, 8, 200_000)
		client, ch := a.client(2, 7)
		other.register(ch)
		src := client.region(200_000, 0)
		for i := range 8 {
			client.send(ch, iwarp.WorkRequest{ID: uint64(i), Flags: iwarp.Signaled, Queue: ch.Queue().SRQN, SGE: []iwarp.SGE{src.SGE(0, 200_000)}})
		}
		server.next()
		must(t, srq.Close(within(t)))
		clear(m.Bytes())
		delivered := 1
		var list [16]iwarp.Completion
		delivered += server.cq.Poll(list[:])
		ok := 0
		for range 8 {
			switch c := client.next(); c.Status {
			case iwarp.Success:
				ok++
			case iwarp.RemoteInvalidRD:
			default:
				t.Fatalf("%+v", c)
			}
		}
		if ok != delivered {
			t.Errorf("%d were delivered, %d completed so", delivered, ok)
		}
		if server.cq.Poll(list[:]) != 0 {
			t.Error("a message came after the end")
		}
		client.send(ch, aMessage(ch, 99))
		client.want(99, iwarp.RemoteInvalidRD, iwarp.OpSend)
	})
}

// A key, a queue or a length that is wrong costs its own request.
func TestXRCREQ38FaultsCostTheirRequestOnTheWire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, a, b := twoHosts(t, hostOptions{})
		server := b.app("")
		server.serve(7, 300, 64)
		client, ch := a.client(2, 7)
		src := client.region(4096, mr.LocalWrite)
		for range 100 {
			long := iwarp.WorkRequest{ID: 1, Flags: iwarp.Signaled, Queue: ch.Queue().SRQN, SGE: []iwarp.SGE{src.SGE(0, 65)}}
			stray := aMessage(ch, 2)
			stray.Queue += 1000
			key := iwarp.WorkRequest{ID: 3, Op: iwarp.OpWrite, Flags: iwarp.Signaled, Queue: ch.Queue().SRQN, RemoteKey: 0x4711, Inline: []byte("x")}
			read := iwarp.WorkRequest{ID: 4, Op: iwarp.OpRead, Flags: iwarp.Signaled, Queue: ch.Queue().SRQN, RemoteKey: 0x4711, SGE: []iwarp.SGE{src.SGE(0, 8)}}
			client.send(ch, long, stray, key, read, aMessage(ch, 5))
			got := map[uint64]iwarp.Status{}
			for range 5 {
				c := client.next()
				got[c.ID] = c.Status
			}
			if got[1] != iwarp.RemoteInvalid || got[2] != iwarp.RemoteInvalidRD || got[3] != iwarp.RemoteAccess || got[4] != iwarp.RemoteAccess || got[5] != iwarp.Success {
				t.Fatalf("%v", got)
			}
		}
		if a.dials.Load() != 1 || ch.Err() != nil || b.channelTargets() != 1 {
			t.Errorf("%+v, %v", a.ChannelStats(), ch.Err())
		}
	})
}

// Those who give up connecting, at whatever moment, leave nothing behind.
func TestConnectsThatGiveUpLeaveNothing(t *testing.T) {
	bubbleOn(t, lan, func(t *testing.T) {
		n, a, b := twoHosts(t, hostOptions{})
		server := b.app("")
		server.serve(7, 1, 64)
		client, keep := a.client(2, 7)
		gaveUp := 0
		for i := range 100 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*2*time.Microsecond)
			ch, err := a.Connect(ctx, client.Session, ChannelAttr{PD: client.pd, CQ: client.cq, Remote: b.addr, Service: 7})
			cancel()
			if err != nil {
				gaveUp++
				continue
			}
			must(t, ch.Close(within(t)))
		}
		if gaveUp == 0 || gaveUp == 100 {
			t.Errorf("%d gave up", gaveUp)
		}
		n.until("nothing is left", func() bool {
			return b.allTargets() == 1 && a.channelInitiators() == 1 && a.ChannelStats().Channels == 1
		})
		endedBy(t, keep, nil)
	})
}
