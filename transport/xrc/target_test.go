//go:build !live

package xrc

import (
	"testing"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

// A receive completes with the target that its message came by, whichever kind of message it is and
// however many segments it has: two channels of one host send to one queue.
func TestAReceiveTellsItsTarget(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const long = 100000 // of several segments
		_, a, b := twoHosts(t, hostOptions{})
		server := b.app("")
		srq, _ := server.serve(7, 16, long)
		memory := server.region(64, everyRight)
		client := a.app("")
		local := client.region(long, mr.LocalWrite)
		channels := []*Channel{client.connect(2, 7), client.connect(2, 7)}
		for _, w := range []iwarp.WorkRequest{
			{Op: iwarp.OpSend},
			{Op: iwarp.OpSend, Inline: []byte("short")},
			{Op: iwarp.OpSend, SGE: []iwarp.SGE{local.SGE(0, long)}},
			{Op: iwarp.OpImmediate, Immediate: 1},
			{Op: iwarp.OpSendInvalidate},
			{Op: iwarp.OpSendInvalidate, Inline: []byte("short")},
			{Op: iwarp.OpSendInvalidate, SGE: []iwarp.SGE{local.SGE(0, long)}},
		} {
			for i, ch := range channels {
				var region *iwarp.MR
				w.ID, w.Flags, w.Queue = uint64(i), iwarp.Signaled, srq.Num()
				if w.Op == iwarp.OpSendInvalidate {
					region = server.region(64, everyRight)
					w.Invalidate = region.Key()
					client.send(ch, tagged(iwarp.OpRead, srq.Num(), region, local)) // who has used a key may end it
					client.want(uint64(srq.Num()), iwarp.Success, iwarp.OpRead)
				}
				client.send(ch, w)
				client.want(uint64(i), iwarp.Success, w.Op)
				c := server.next()
				length := uint32(len(w.Inline))
				for _, g := range w.SGE {
					length = g.Len
				}
				if w.Op == iwarp.OpImmediate {
					length = 8
				}
				if c.Status != iwarp.Success || c.Target != ch.Target().Number || c.Queue != srq.Num() || c.Len != length || c.Invalidated != w.Invalidate {
					t.Errorf("%v of %d bytes by %v: %+v", w.Op, length, ch.Target(), c)
				}
				if region != nil { // the key is of no use any more
					client.send(ch, tagged(iwarp.OpRead, srq.Num(), region, local))
					client.want(uint64(srq.Num()), iwarp.RemoteAccess, iwarp.OpRead)
				}
				post(t, srq, 9, memory.SGE(0, 64))
			}
		}
		for _, ch := range channels {
			buildOnWrites(t, client, server, ch, tagged(iwarp.OpWrite, srq.Num(), memory, local))
		}
	})
}

// buildOnWrites sends messages that build on Writes, of which one fails.
func buildOnWrites(t *testing.T, client, server *app, ch *Channel, write iwarp.WorkRequest) {
	t.Helper()
	bad := write
	bad.RemoteAddr = 64
	message := iwarp.WorkRequest{ID: 5, Op: iwarp.OpSend, Flags: iwarp.Signaled, Queue: write.Queue, Writes: 2}
	client.send(ch, write, write, message)
	client.want(write.ID, iwarp.Success, iwarp.OpWrite)
	client.want(write.ID, iwarp.Success, iwarp.OpWrite)
	client.want(5, iwarp.Success, iwarp.OpSend)
	if c := server.next(); c.Status != iwarp.Success || c.Target != ch.Target().Number {
		t.Errorf("%+v", c)
	}
	client.send(ch, bad, write, message, aMessage(ch, 6))
	for range 4 {
		c := client.next()
		want := iwarp.Success
		if c.ID == 5 || c.Status == iwarp.RemoteAccess && c.ID == bad.ID {
			want = iwarp.RemoteAccess
		}
		if c.Status != want {
			t.Errorf("%+v", c)
		}
	}
	if c := server.next(); c.Status != iwarp.Success || c.Len != 5 || c.Target != ch.Target().Number {
		t.Errorf("%+v", c)
	}
}

// A message that names another host's target, or none, finds no queue.
func TestMessagesNameTheirOwnTargets(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNet(t, hostOptions{})
		a, b, other := n.host(1), n.host(2), n.host(3)
		server := b.app("")
		srq, _ := server.serve(7, 16, 64)
		client, foreign := a.app(""), other.app("")
		ch, theirs := client.connect(2, 7), foreign.connect(2, 7)
		mine := ch.Target()
		name := func(number uint32) {
			ch.mu.Lock()
			defer ch.mu.Unlock()
			ch.target.Number = number
		}
		for _, number := range []uint32{theirs.Target().Number, 0, 0xFFFFFF} {
			name(number)
			client.send(ch, aMessage(ch, 1))
			client.want(1, iwarp.RemoteInvalidRD, iwarp.OpSend)
		}
		name(mine.Number)
		client.says(ch, 2)
		if srq.Query().Posted != 15 {
			t.Errorf("%+v", srq.Query())
		}
	})
}

// The first message by a target in StateRTR is an event of every session that is registered, once for
// each life of the target. One that is in StateRTS by then raises none.
func TestCommunicationIsEstablishedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, a, b := twoHosts(t, hostOptions{})
		server, other, stranger := b.app("established"), b.app("established"), b.app("established")
		server.serve(7, 16, 64)
		client := a.app("")
		established := func(x *app, ch *Channel) {
			t.Helper()
			e, err := x.Session.NextEvent(within(t))
			if err != nil || e.Kind != objects.EventCommEstablished || e.Object != ch.Target() {
				t.Fatalf("%+v, %v", e, err)
			}
			_ = x.Ack(e)
		}
		quiet := func(list ...*app) {
			t.Helper()
			for _, x := range list {
				if e, ok := x.Session.PollEvent(); ok {
					t.Errorf("%+v", e)
				}
			}
		}
		send := func(ch *Channel) {
			t.Helper()
			client.says(ch, 1)
			server.next()
		}
		ch := client.connect(2, 7)
		other.register(ch)
		quiet(server, other)
		send(ch)
		established(server, ch)
		established(other, ch)
		send(ch)
		a.cut()
		n.until("resumed", func() bool { return a.ChannelStats().Resumed == 1 })
		send(ch)
		started := client.connect(2, 7)
		must(t, server.ModifyTarget(server.dom, started.Target().Number, objects.Attr{State: objects.StateRTS}, objects.MaskState|objects.MaskTimeout))
		send(started)
		// Its event, of the same queue of work, would have come before that of one more target.
		last := client.connect(2, 7)
		send(last)
		established(server, last)
		quiet(server, other, stranger)
	})
}
