//go:build !live

package iwarp

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/memnet"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// Ten thousand queues come, take a message and go: both ends together keep no more
// than 4 MiB of them. Their numbers go on when they come again.
func TestQueuesThatCameAndWentLeaveLittle(t *testing.T) {
	memnet.Bubble(t, memnet.Options{}, func(t *testing.T) {
		client, server, queues := sharedPair(t, Config{}, ConnParams{}, ConnParams{})
		dst := server.reg(64, mr.LocalWrite)
		const all, batch = 10_000, 50
		// One for all that come and go, or each would keep its own to the end.
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		next := func(e *end) { // keeps nothing of the test's own
			var c [1]Completion
			for e.cq.Poll(c[:]) == 0 {
				must(t, e.cq.Wait(ctx))
			}
			if c[0].Status != Success {
				t.Fatalf("%+v: %v", c[0], client.qp.Err())
			}
		}
		round := func(first uint32) {
			t.Helper()
			var srqs []*SRQ
			for n := first; n < first+batch; n++ {
				s := queues.srq(server, n, SRQConfig{MaxReceive: 1})
				server.give(s, uint64(n), dst.SGE(0, 64))
				srqs = append(srqs, s)
				client.send(WorkRequest{ID: uint64(n), Flags: Signaled, Queue: n, Inline: []byte("x")})
			}
			for range batch {
				next(server)
				next(client)
			}
			for _, s := range srqs {
				queues.end(t, s)
			}
		}
		round(0xf00000)
		before := inUse()
		for n := uint32(1); n < all; n += batch {
			round(n)
		}
		after := inUse()
		t.Logf("%d KiB more", (int64(after)-int64(before))>>10)
		if after > before+4<<20 {
			t.Errorf("%d queues that came and went have left %d KiB", all, (after-before)>>10)
		}
		for range 20 {
			round(1 + batch*rand.Uint32N(all/batch))
		}
	})
}

// The numbers of a queue that was idle go on, a CREDIT that comes meanwhile counts,
// and anything else is wrong.
func TestIdleQueueGoesOn(t *testing.T) {
	t.Parallel()
	for name, nonsense := range map[string]xctl.Record{
		"NAK":                       xctl.NAK{SRQ: 1, MSN: 4, Code: xctl.NAKUnknown},
		"CREDIT of the future":      xctl.Credit{SRQ: 1, Delivered: 5, Limit: 9},
		"CREDIT of another":         xctl.Credit{SRQ: 0xfffff, Delivered: 0, Limit: 9},
		"NAK of what never was one": xctl.NAK{SRQ: 0xfffff, MSN: 1, Code: xctl.NAKUnknown},
	} {
		inBubble(t, name, func(t *testing.T) {
			e, x, _ := sharedPeer(t, true, SharedParams{})
			say := func(n xctl.SRQN, want uint32) {
				t.Helper()
				e.send(WorkRequest{ID: uint64(n), Flags: Signaled, Queue: uint32(n), Inline: []byte("x")})
				if s := x.incoming(rdmap.OpSend); s.Untagged.MSN != want || s.Untagged.QN != n.QN() {
					t.Fatalf("%+v, want message %d of %d", s.Untagged, want, n)
				}
			}
			done := func(n xctl.SRQN, msn, limit uint32) {
				t.Helper()
				x.raw.send(x.tell(xctl.Credit{SRQ: n, Delivered: msn, Limit: limit}))
				e.want(uint64(n), Success, OpSend)
			}
			for msn := uint32(1); msn <= 4; msn++ {
				say(1, msn)
				done(1, msn, 4) // no more than that
			}
			const batch = 32 // a turn for each takes a slow machine a minute
			for first := xctl.SRQN(2); first < outMost+10; first += batch {
				_ = x.conn.SetDeadline(time.Now().Add(30 * time.Second)) // for this batch
				var list []WorkRequest
				var credits []xctl.Record
				for n := first; n < first+batch; n++ {
					list = append(list, WorkRequest{Flags: Signaled, Queue: uint32(n), Inline: []byte("x")})
					credits = append(credits, xctl.Credit{SRQ: n, Delivered: 1, Limit: 4})
				}
				e.send(list...)
				for range batch {
					if s := x.incoming(rdmap.OpSend); s.Untagged.MSN != 1 {
						t.Fatalf("%+v, want the first message of a queue", s.Untagged)
					}
				}
				x.raw.send(x.tell(credits...))
				for range batch {
					e.want(0, Success, OpSend)
				}
			}
			x.raw.send(x.tell(xctl.Credit{SRQ: 1, Delivered: 4, Limit: 5}))
			x.sync()
			x.raw.send(x.tell(nonsense))
			var te *TerminateError
			if err := e.ended(); !errors.As(err, &te) {
				t.Error(err)
			}
		})
	}
}
