//go:build !live

package iwarp

import (
	"slices"
	"testing"

	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// messagesTo makes messages of size bytes, one for each queue of list.
func messagesTo(size int, list ...uint32) (frames []transport.Frame) {
	for _, q := range list {
		frames = append(frames, messageTo(q, make([]byte, size)))
	}
	return frames
}

// Messages to several queues leave by one call, each queue with numbers of its own, and
// count as acknowledged in the order in which they were sent.
func TestSinkQueuesAreAcknowledgedInOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, x, d := openSink(t, Config{}, true, false)
		x.raw.send(x.tell(credit(0, 100)))
		x.sync()
		e.quiet()
		to := []uint32{9, 10, 12, 10, 9, 10}
		if n, err := e.frames(messagesTo(10, to...)); n != 60 || err != nil {
			t.Fatal(n, err)
		}
		next := map[uint32]uint32{}
		for i, q := range to {
			next[q]++
			if s := x.incoming(rdmap.OpSend); s.Untagged.QN != xctl.SRQN(q).QN() || s.Untagged.MSN != next[q] || !s.Untagged.Last || len(s.Payload) != 10 {
				t.Errorf("message %d: %+v", i, s.Untagged)
			}
		}
		for _, c := range []struct {
			queue, delivered uint32
			acked            uint64
		}{{10, 1, 0}, {12, 1, 0}, {9, 1, 30}, {10, 0, 30}, {10, 2, 40}, {10, 3, 40}, {9, 2, 60}} {
			x.raw.send(x.tell(xctl.Credit{SRQ: xctl.SRQN(c.queue), Delivered: c.delivered, Limit: 100}))
			x.sync()
			if n := e.qp.FramesAcked(); n != c.acked {
				t.Errorf("queue %d up to %d: %d bytes acknowledged, not %d", c.queue, c.delivered, n, c.acked)
			}
		}
		wait(t, d.acked, "Acked")
		x.raw.send(x.tell(xctl.Credit{SRQ: 12, Delivered: 2, Limit: 100}))
		x.terminated(rdmap.CauseDDPMSNRange) // never sent
	})
}

// A queue that the peer does not give more numbers of stops what comes for it, until it
// does.
func TestSinkQueuesHaveLimits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, x, d := openSink(t, Config{}, true, false)
		x.raw.send(x.tell(credit(0, 1<<20)))
		x.sync()
		const more = 5
		to := slices.Repeat([]uint32{11, 9}, frameCredit+more) // messages to one queue would share a Send
		sent := make(chan int)
		go func() {
			for n := 0; n < 4*len(to); {
				e.quiet()
				m, err := e.frames(messagesTo(4, to[n/4:]...))
				if err != nil {
					t.Error(err)
				}
				if n += m; m == 0 {
					sent <- n
					wait(t, d.writable, "Writable")
				}
			}
			close(sent)
		}()
		for range 2 * frameCredit {
			x.incoming(rdmap.OpSend)
		}
		same(t, "octets sent", <-sent, 2*4*frameCredit)
		x.raw.send(x.tell(credit(0, 1<<21))) // of another queue
		x.sync()
		for len(d.writable) > 0 {
			t.Fatal("Writable without credit")
		}
		x.raw.send(x.tell(xctl.Credit{SRQ: 11, Limit: frameCredit + more}))
		for range 2*more - 1 {
			x.incoming(rdmap.OpSend)
		}
		if s := x.incoming(rdmap.OpSend); s.Untagged.QN != xctl.SRQN(9).QN() {
			t.Errorf("%+v", s.Untagged)
		}
		for range sent {
		}
		e.quiet()
		if _, err := e.frames(messagesTo(1, 0)); err == nil {
			t.Error("a message to a queue that there is not")
		}
		if n, err := e.frames(messagesTo(1, sinkNum+sinkOthers)); n != 1 || err != nil {
			t.Errorf("after it: %d, %v", n, err)
		}
	})
}

// Short messages behind work requests keep the numbers of their queues.
func TestSinkQueuesOfShortMessages(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, x, _ := openSink(t, Config{}, true, false)
		x.raw.send(x.tell(credit(0, 100)))
		x.sync()
		e.quiet()
		e.qp.Cork()
		to := []uint32{10, 9, 10, 10}
		for i, q := range to {
			must(t, e.qp.PostFirst(WorkRequest{ID: uint64(i), Op: OpWrite, Inline: []byte{1}}))
			if n, err := e.frames([]transport.Frame{{Head: []byte{byte(i)}, Ops: following, Port: uint16(q)}}); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		e.qp.Uncork()
		next := map[uint32]uint32{}
		for i, q := range to {
			x.incoming(rdmap.OpWrite)
			next[q]++
			if s := x.incoming(rdmap.OpSendSolicited); s.Untagged.QN != xctl.SRQN(q).QN() || s.Untagged.MSN != next[q] || s.Payload[0] != byte(i) {
				t.Errorf("message %d: %+v %v", i, s.Untagged, s.Payload)
			}
		}
		x.raw.send(x.tell(xctl.Credit{SRQ: 10, Delivered: 3, Limit: 99}), x.tell(credit(1, 99)))
		x.sync()
		same(t, "acknowledged", e.qp.FramesAcked(), 4)
	})
}

// What is told of queues comes to the other side; what cannot be is not told, and not
// passed on.
func TestSinkQueuesAreAnnounced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, x, d := openSink(t, Config{}, true, false)
		for tag := range uint32(3) {
			must(t, e.qp.TellHome(tag, sinkNum+tag))
		}
		for tag := range uint32(3) {
			if h := await[xctl.Home](x); h != (xctl.Home{SRQ: xctl.SRQN(sinkNum + tag), Tag: tag}) {
				t.Errorf("%+v", h)
			}
		}
		must(t, e.qp.TellState(10, QueueNotReady))
		if s := await[xctl.SRQ](x); s != (xctl.SRQ{SRQ: 10, State: xctl.SRQDraining}) {
			t.Errorf("%+v", s)
		}
		for _, n := range []uint32{0, 0xFFFFFF, 0x1000000} {
			if e.qp.TellHome(1, n) == nil || e.qp.TellState(n, QueueReady) == nil {
				t.Errorf("queue %d can be announced", n)
			}
		}
		x.raw.send(x.tell(xctl.Home{SRQ: 10, Tag: 0xfedc0001}), x.tell(xctl.SRQ{SRQ: 10, State: xctl.SRQDraining}),
			x.tell(xctl.SRQ{SRQ: 11, State: 4}), x.tell(xctl.SRQ{SRQ: 11}), x.tell(xctl.SRQ{SRQ: 11, State: xctl.SRQGone}))
		x.sync()
		if got, want := d.heard(), []string{"tag 0xfedc0001 is of 10", "10 is 2", "11 is 3"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		_ = x.conn.Close()
		_ = d.ended()
		eventually(t, "no news of a connection that has ended", func() bool { return e.qp.TellHome(1, 10) != nil && e.qp.TellState(10, QueueGone) != nil })
	})
}

// Who asks is told at once what was taken, in the answer to a PING; with nothing to be
// acknowledged nobody is asked.
func TestSinkAsk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, x, _ := openSink(t, Config{}, true, false)
		e.qp.SinkReady()
		x.sync()
		e.quiet()
		e.qp.AskAcked()
		x.sent([]byte("message"))
		if p := has[xctl.Ping](x); len(p) > 0 {
			t.Errorf("asked for nothing: %+v", p)
		}
		e.qp.AskAcked()
		await[xctl.Ping](x)
		// The other way.
		for range 20 {
			x.raw.send(x.message(sinkNum, 0, true, []byte("message")), x.tell(xctl.Ping{Nonce: 7}))
			for len(has[xctl.Pong](x)) == 0 {
				if _, _, err := x.take(); err != nil {
					t.Fatal(err)
				}
			}
			if c := has[xctl.Credit](x); len(c) == 0 || c[len(c)-1].Delivered != x.next[sinkNum] {
				t.Errorf("with the answer to the PING %+v, not CREDIT for %d", c, x.next[sinkNum])
			}
			x.records = nil
		}
	})
}
