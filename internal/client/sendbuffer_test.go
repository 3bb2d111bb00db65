//go:build !live

package client

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// A send that waits for room ends with its node, and does not wait if its context has ended.
func TestSendThatWaitsForRoomEnds(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		s, to := l.bindOne(config.Node{SendBuffer: 10}), rdstest.Nowhere()
		rdstest.MustSend(t, s, to, make([]byte, 10))
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		rdstest.WantErr(t, "Send", s.Send(ctx, to, []byte("x")), context.Canceled)
		got := make(chan error)
		go func() { got <- s.Send(context.Background(), to, []byte("x")) }()
		rdstest.Eventually(t, "the sender waits", func() bool { return halfOf(s).Writers.N.Load() > 0 })
		_ = nodeOf(s).Close()
		if err := <-got; !rdstest.Closed(err) {
			t.Error(err)
		}
	})
}

func TestEmptyMessagesAreFree(t *testing.T) {
	t.Parallel()
	s := newLoopLab(t).bindOne(config.Node{SendBuffer: 100})
	to := rdstest.Nowhere()
	for range 1000 {
		rdstest.Must(t, s.TrySend(to, nil))
	}
	if s.Poll()&datagram.PollOut == 0 {
		t.Error("no POLLOUT")
	}
}

// Messages for a peer that cannot be reached are bounded in memory whatever
// their payload: 0-byte ones too.
func TestPeerBudgetBoundsEmptyMessages(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		s := l.bindOne(config.Node{PeerBudget: 100_000})
		to := rdstest.Nowhere()
		n := 0
		for ; n < 10000; n++ {
			if err := s.TrySend(to, nil); err != nil {
				rdstest.WantErr(t, "budget", err, datagram.ErrWouldBlock)
				break
			}
		}
		if n < 100 || n > 3000 {
			t.Errorf("%d messages in 100,000 bytes", n)
		}
		if err := s.TrySend(rdstest.Nowhere(), []byte("x")); err != nil {
			t.Errorf("another peer: %v", err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		rdstest.WantErr(t, "blocking send", s.Send(ctx, to, nil), context.DeadlineExceeded)
		rdstest.Must(t, s.CancelSentTo(to))
		if err := s.TrySend(to, nil); err != nil {
			t.Errorf("after the cancel: %v", err)
		}
	})
}

func TestCloseReturnsRoomOfOtherSockets(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	n := l.node(config.Node{PeerBudget: 50_000})
	a, b := l.bind(n), l.bind(n, netip.AddrPortFrom(rdstest.NewAddr(), 1000))
	to := rdstest.Nowhere()
	b2 := l.bind(n, netip.AddrPortFrom(a.LocalAddrPort().Addr(), 4001))
	for a.TrySend(to, make([]byte, 1000)) == nil {
	}
	rdstest.WantErr(t, "b2", b2.TrySend(to, nil), datagram.ErrWouldBlock)
	if err := b.TrySend(to, nil); err != nil {
		t.Errorf("another address is another connection: %v", err)
	}
	var d *datagram.DroppedError
	if err := a.Close(); !errors.As(err, &d) || d.Messages == 0 || d.Bytes != 1000*d.Messages {
		t.Errorf("Close: %v", err)
	}
	if err := b2.TrySend(to, nil); err != nil {
		t.Errorf("after the close: %v", err)
	}
}

// A send that ends while its socket is being closed gives back what it took once: the daemon
// has closed the socket by then, and the session's budget has the room already.
func TestSendThatEndsBehindACloseGivesBackOnce(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		_, path := serving(t, l.node(config.Node{}), config.Service{})
		s := clientHalfOf(bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 100)))
		h := s.half.Load()
		const size = 3000
		for range 2 { // the second send begins behind the close
			if why := h.take(ipc.MaxPeers-1, size); why != taken {
				t.Fatal(why)
			}
			h.retire()
			h.untake(ipc.MaxPeers-1, size)
			for _, a := range []*conn.Account{&h.account, &h.att.budget.account} {
				if a.Bytes() != 0 || a.Messages() != 0 {
					t.Fatalf("%d bytes of %d messages", a.Bytes(), a.Messages())
				}
			}
		}
		_ = h.take(ipc.MaxPeers-1, size)
		h.untake(ipc.MaxPeers-1, size)
		if n := h.att.budget.account.Messages(); n != 0 {
			t.Errorf("%d messages", n)
		}
	})
}
