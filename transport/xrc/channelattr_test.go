//go:build !live

package xrc

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

// hold has another goroutine hold a lock.
func hold(lock sync.Locker) (release func()) {
	held, done := make(chan struct{}), make(chan struct{})
	go func() {
		lock.Lock()
		defer lock.Unlock()
		close(held)
		<-done
	}()
	<-held
	return func() { close(done) }
}

// A request that the target's access flags do not allow ends both queue pairs, as its rights
// to the region do not: the sender's completion says so, and every session that is registered
// hears it. The other flags let theirs pass.
func TestAccessFlagsOfATargetBindItsInitiator(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, a, b := twoHosts(t, hostOptions{})
		server, other := b.app("access"), b.app("access")
		srq, _ := server.serve(7, 16, 100)
		memory := server.region(64, mr.RemoteRead|mr.RemoteWrite|mr.RemoteAtomic|mr.LocalWrite)
		client := a.app("")
		local := client.region(64, mr.LocalWrite)
		requests := map[mr.Rights]iwarp.WorkRequest{
			mr.RemoteWrite:  {Op: iwarp.OpWrite, Inline: []byte("x")},
			mr.RemoteRead:   {Op: iwarp.OpRead, SGE: []iwarp.SGE{local.SGE(0, 8)}},
			mr.RemoteAtomic: {Op: iwarp.OpFetchAdd, SGE: []iwarp.SGE{local.SGE(0, 8)}},
		}
		const all = mr.RemoteRead | mr.RemoteWrite | mr.RemoteAtomic
		service := uint64(100)
		for missing := range requests {
			service++
			must(t, errOf(server.Advertise(objects.ServiceAttr{ID: service, Domain: server.dom, SRQ: srq, Access: all &^ missing})))
			ch := client.connectAs(2, ChannelAttr{Service: service, Reads: 4})
			other.register(ch)
			for right, w := range requests {
				if right != missing {
					w.ID, w.Flags, w.Queue, w.RemoteKey = 1, iwarp.Signaled, srq.Num(), memory.Key()
					client.send(ch, w)
					client.want(1, iwarp.Success, w.Op)
				}
			}
			w := requests[missing]
			w.ID, w.Queue, w.RemoteKey = 3, srq.Num(), memory.Key()
			client.send(ch, aMessage(ch, 2), w, aMessage(ch, 4))
			client.want(2, iwarp.Success, iwarp.OpSend)
			client.want(3, iwarp.RemoteInvalid, w.Op)
			client.want(4, iwarp.Flushed, iwarp.OpSend)
			server.ends(ch, objects.EventQPRequest)
			other.ends(ch, objects.EventQPRequest)
			endedBy(t, ch, objects.ErrForbidden)
			client.quiet()
		}
	})
}

// Flags that a session changes later bind at once.
func TestAccessFlagsOfATargetAreChanged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, a, b := twoHosts(t, hostOptions{})
		server := b.app("")
		server.serve(7, 16, 100)
		memory := server.region(64, mr.RemoteWrite|mr.LocalWrite)
		client, ch := a.client(2, 7)
		write := iwarp.WorkRequest{ID: 1, Op: iwarp.OpWrite, Flags: iwarp.Signaled, Inline: []byte("x"), Queue: ch.Queue().SRQN, RemoteKey: memory.Key()}
		client.send(ch, write)
		client.want(1, iwarp.Success, iwarp.OpWrite)
		rts := objects.Attr{State: objects.StateRTS, Access: mr.RemoteRead}
		must(t, server.ModifyTarget(server.dom, ch.Target().Number, rts, objects.MaskState|objects.MaskTimeout|objects.MaskAccess))
		n.until("the initiator hears", when(&ch.mu, func() bool { return ch.limits.access == mr.RemoteRead }))
		client.send(ch, write)
		client.want(1, iwarp.RemoteInvalid, iwarp.OpWrite)
		server.ends(ch, objects.EventQPRequest)
	})
}

// The target is destroyed: what is sent from then on ends with the retry count exceeded, and
// what is behind it is flushed, whichever comes first, the message or the word of its end.
func TestXRCREQ6ATargetThatIsGoneExceedsRetries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, a, b := twoHosts(t, hostOptions{})
		server := b.app("")
		server.serve(7, 16, 100)
		client := a.app("")
		for i := range 50 {
			ch := client.connect(2, 7)
			word := &b.allPeers()[0].talking().control.mu
			var release func()
			if i == 0 {
				client.says(ch, 0)   // the peer says that the channel reaches the queue
				release = hold(word) // the word of the end comes late
			}
			must(t, server.Unregister(within(t), server.dom, ch.Target().Number))
			client.send(ch, aMessage(ch, 1), aMessage(ch, 2), aMessage(ch, 3))
			if i == 0 {
				n.spin("the messages are refused", when(&ch.mu, func() bool { return ch.started == 0 && ch.asks }))
				release()
			}
			client.want(1, iwarp.RetryExceeded, iwarp.OpSend)
			client.want(2, iwarp.Flushed, iwarp.OpSend)
			client.want(3, iwarp.Flushed, iwarp.OpSend)
			<-ch.Done()
			endedBy(t, ch, objects.ErrPeerGone)
			client.hears(objects.EventQPFatal, ch.Ref())
		}
	})
}

// A peer that says nothing for (retry count + 1) time-outs has exceeded them, and not before;
// one that answers when it is asked has not, however long a queue of it stays dry.
func TestASilentPeerExceedsRetries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		clk := new(clock)
		n, a, b := twoHosts(t, hostOptions{xrc: objects.Config{Now: clk.now}})
		server := b.app("")
		server.serve(7, 0, 100)
		client := a.app("")
		server.serve(8, 4, 100)
		other := a.app("")
		wet := other.connectAs(2, ChannelAttr{Service: 8, Retry: &Retry{NotReady: forEver}}) // without a time-out
		other.send(wet, aMessage(wet, 0))                                                    // the peer says that its domain has the queue
		other.want(0, iwarp.Success, iwarp.OpSend)
		ch := client.connectAs(2, ChannelAttr{Service: 7, Retry: &Retry{Timeout: 14, Count: 2, NotReady: forEver}})
		const timeout = 4096 << 14
		client.send(ch, aMessage(ch, 1), aMessage(ch, 2))
		signs := func() uint64 {
			ch.mu.Lock()
			defer ch.mu.Unlock()
			return ch.signs
		}
		looked := func() bool {
			a.Transport.mu.Lock()
			defer a.Transport.mu.Unlock()
			return len(a.watches) == 1 && !a.watches[0].since.IsZero()
		}
		n.until("the request is watched", looked)
		for i := range 10 { // ten times as long as it would bear silence
			was := signs()
			clk.past.Add(timeout)
			a.wake()
			n.until("the peer answers", func() bool { return signs() > was })
			n.until("the answer is seen", when(&a.Transport.mu, func() bool { return len(a.watches) == 1 && a.watches[0].signs == signs() && !a.watches[0].asked }))
			if ch.Err() != nil {
				t.Fatal(i, ch.Err())
			}
		}
		defer b.mute()()
		other.send(wet, aMessage(wet, 1))
		clk.past.Add(3*timeout - 1)
		a.wake()
		n.until("the peer is asked", when(&a.Transport.mu, func() bool { return len(a.watches) == 1 && a.watches[0].asked }))
		if ch.Err() != nil {
			t.Fatal(ch.Err())
		}
		clk.past.Add(1)
		a.wake()
		client.want(1, iwarp.RetryExceeded, iwarp.OpSend)
		client.want(2, iwarp.Flushed, iwarp.OpSend)
		endedBy(t, ch, objects.ErrRetry)
	})
}

// A queue that stays dry ends the initiator when a message was offered again as often as its
// attribute says, with the target's timer in between; 7 is for ever. Others that wait for the
// queue go on.
func TestADryQueueExceedsRNRRetries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, a, b := twoHosts(t, hostOptions{})
		server := b.app("")
		srq, m := server.serve(7, 0, 100)
		patient, client := a.app(""), a.app("")
		first := patient.connect(2, 7)
		patient.send(first, aMessage(first, 1))
		for retries := range uint8(3) {
			ch := client.connectAs(2, ChannelAttr{Service: 7, Retry: &Retry{NotReady: retries}})
			if err := server.ModifyTarget(server.dom, ch.Target().Number, objects.Attr{State: objects.StateRTS, MinRNRTimer: 20},
				objects.MaskState|objects.MaskTimeout|objects.MaskMinRNRTimer); err != nil {
				t.Fatal(err)
			}
			const timer = 10240 * time.Microsecond
			n.until("the initiator hears", when(&ch.mu, func() bool { return ch.limits.wait() == timer }))
			start := time.Now()
			client.send(ch, aMessage(ch, 2), aMessage(ch, 3))
			client.want(2, iwarp.ReceiverNotReady, iwarp.OpSend)
			if d := time.Since(start); d < time.Duration(retries)*timer {
				t.Errorf("%d retries took %v", retries, d)
			}
			client.want(3, iwarp.Flushed, iwarp.OpSend)
			<-ch.Done()
			endedBy(t, ch, objects.ErrDry)
			server.ends(ch, objects.EventQPFatal) // its peer is gone
		}
		post(t, srq, 9, m.SGE(0, 1))
		patient.want(1, iwarp.RemoteInvalid, iwarp.OpSend) // too long, but it has waited
	})
}

// In StateSQD nothing is started; what was started ends, and then the session hears it, if it
// asked to. What was posted meanwhile starts in StateRTS.
func TestASendQueueIsDrained(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, a, b := twoHosts(t, hostOptions{})
		server := b.app("")
		srq, m := server.serve(7, 0, 100)
		client, ch := a.client(2, 7)
		client.send(ch, aMessage(ch, 1))
		n.until("it is started", when(&ch.mu, func() bool { return ch.started == 1 }))
		must(t, ch.Initiator().Modify(objects.Attr{State: objects.StateSQD, SQDNotify: true}, objects.MaskState|objects.MaskSQDNotify))
		client.send(ch, aMessage(ch, 2))
		back := func() error { return ch.Initiator().Modify(objects.Attr{State: objects.StateRTS}, objects.MaskState) }
		if err := back(); !errors.Is(err, objects.ErrState) {
			t.Error("while it drains:", err)
		}
		give := func(id uint64) {
			post(t, srq, id, m.SGE(0, 0))
		}
		give(1)
		client.want(1, iwarp.RemoteInvalid, iwarp.OpSend)
		client.hears(objects.EventSQDrained, ch.Ref())
		a.cut() // the state outlives connections
		n.until("resumed", func() bool { return a.ChannelStats().Resumed == 1 })
		var c [1]iwarp.Completion
		if client.cq.Poll(c[:]) != 0 {
			t.Errorf("%+v", c)
		}
		must(t, back())
		client.want(2, iwarp.RemoteInvalid, iwarp.OpSend)
	})
}

// A session may drain its initiator by moving it to the error state: the completion of what it
// posts then comes behind all others.
func TestAMarkerComesBehindAllOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, a, b := twoHosts(t, hostOptions{})
		server := b.app("")
		server.serve(7, 2, 100)
		client, ch := a.client(2, 7)
		for i := range 100 { // two are taken, some are with the connection, the rest waits
			client.send(ch, aMessage(ch, uint64(i)))
		}
		must(t, ch.Initiator().Modify(objects.Attr{State: objects.StateError}, objects.MaskState))
		client.send(ch, aMessage(ch, 100))
		for i := range uint64(101) {
			if c := client.next(); c.ID != i || c.Status != iwarp.Flushed && (c.Status != iwarp.Success || i > 1) {
				t.Fatalf("%+v, want %d", c, i)
			}
		}
		// A reset discards what is posted, and takes no more.
		ch = client.connect(2, 7)
		client.send(ch, aMessage(ch, 1))
		must(t, ch.Initiator().Modify(objects.Attr{State: objects.StateReset}, objects.MaskState))
		if _, err := ch.PostSend(aMessage(ch, 2)); !errors.Is(err, objects.ErrState) {
			t.Error(err)
		}
		<-ch.Done()
		var c [1]iwarp.Completion
		if client.cq.Poll(c[:]) != 0 {
			t.Errorf("%+v", c)
		}
	})
}

// The path MTU that both sides have agreed on bounds the segments of what the initiator sends.
func TestThePathMTUBindsSegments(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, a, b := twoHosts(t, hostOptions{})
		server := b.app("")
		server.serve(7, 2, 100)
		client := a.app("")
		for want, mtu := range map[uint32]int{1024: 1024, 65535: 0} {
			ch := client.connectAs(2, ChannelAttr{Service: 7, MTU: mtu})
			client.says(ch, 1)
			ch.mu.Lock()
			if got := ch.batch[:1][0].Segment; got != want || ch.attrs.PathMTU != int(want) {
				t.Errorf("segments of up to %d, MTU %d, want %d", got, ch.attrs.PathMTU, want)
			}
			ch.mu.Unlock()
			if info, err := server.QueryTarget(server.dom, ch.Target().Number); err != nil || info.Attr.PathMTU != int(want) {
				t.Errorf("%+v, %v", info.Attr, err)
			}
		}
	})
}
