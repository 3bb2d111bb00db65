//go:build !live

package iwarp

import (
	"testing"
	"time"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// A message that is offered so often and no more fails when its queue stays dry; those of
// others that wait for the same queue go on, also those before it.
func TestMessagesAreOfferedAsOftenAsTheySay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, server, queues := sharedPair(t, Config{}, ConnParams{}, ConnParams{})
		dst := server.reg(100, mr.LocalWrite)
		dry := queues.srq(server, 1, SRQConfig{})
		const again = 3 * time.Millisecond
		start := time.Now()
		client.send(WorkRequest{ID: 1, Flags: Signaled, Queue: 1, Inline: []byte("stays")},
			WorkRequest{ID: 2, Queue: 1, Inline: []byte("once"), Offers: 1},
			WorkRequest{ID: 3, Queue: 1, Inline: []byte("thrice"), Offers: 3, Again: again},
			WorkRequest{ID: 4, Flags: Signaled, Queue: 1, Inline: []byte("stays")})
		client.want(2, ReceiverNotReady, OpSend)
		client.want(3, ReceiverNotReady, OpSend)
		if d := time.Since(start); d < 2*again {
			t.Errorf("the third offer is refused after %v", d)
		}
		for i := range 2 {
			server.give(dry, uint64(i), dst.SGE(0, 100))
			if c := server.want(uint64(i), Success, OpReceive); c.Len != 5 {
				t.Errorf("a message of %d bytes was delivered", c.Len)
			}
		}
		client.want(1, Success, OpSend)
		client.want(4, Success, OpSend)
	})
}

// What its program gives up does not wait any more, and is not delivered; a message to
// another queue, and others to the same, are not concerned.
func TestAbandonedMessagesAreNotDelivered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, server, queues := sharedPair(t, Config{}, ConnParams{}, ConnParams{})
		dst := server.reg(100, mr.LocalWrite)
		dry := queues.srq(server, 1, SRQConfig{})
		for i := range 60 { // more than are offered at once
			client.send(WorkRequest{ID: uint64(i), Flags: Signaled, Queue: 1, Inline: make([]byte, i)})
		}
		client.qp.Abandon(func(id uint64) bool { return id%2 == 1 })
		given := map[uint64]bool{}
		for range 30 { // first those that wait, then those that the queue refuses
			c := client.next()
			if c.Status != Flushed || c.ID%2 == 0 || given[c.ID] {
				t.Fatalf("%+v", c)
			}
			given[c.ID] = true
		}
		for i := 0; i < 60; i += 2 {
			server.give(dry, uint64(i), dst.SGE(0, 100))
			if c := server.want(uint64(i), Success, OpReceive); int(c.Len) != i {
				t.Fatalf("message %d has %d bytes", i, c.Len)
			}
			client.want(uint64(i), Success, OpSend)
		}
	})
}

// A request's own bound of its segments counts where it is the smaller one.
func TestSegmentsAreAsShortAsARequestSays(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := newEnd(t, openDevice(t, Config{MaxULPDU: 1000}), QPConfig{})
		x := openExtended(t, e, true, xctl.CapTarget|xctl.CapCredit|xctl.CapSoftWrite, SharedParams{Send: true})
		src := e.reg(2560, 0)
		for _, w := range []WorkRequest{{Op: OpWrite}, {Queue: 1}} {
			op := rdmap.OpWrite
			if w.Queue != 0 {
				op = rdmap.OpSend
			}
			for bound, most := range map[uint32]int{0: 1000, 256: 256, 60000: 1000} {
				w.SGE, w.Segment = []SGE{src.SGE(0, 2560)}, bound
				e.send(w)
				longest, n := 0, 0
				for last := false; !last; {
					s := x.incoming(op)
					longest, n, last = max(longest, len(s.Payload)), n+len(s.Payload), s.Last()
				}
				if longest > most || longest < most-20 || n != 2560 {
					t.Errorf("%v, bound %d: %d bytes in segments of up to %d", w.Op, bound, n, longest)
				}
			}
		}
	})
}
