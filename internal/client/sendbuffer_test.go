//go:build !live

package client

import (
	"context"
	"errors"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// The test looks at what was queued before: the last message may pass the limit
// (net/rds/send.c, rds_send_queue_rm), which for a host that is down is half the
// buffer. POLLOUT is up as long as a host that is up may be sent to.
func TestLastMessageMayPassTheSendBuffer(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		s, up := l.bindOne(config.Node{SendBuffer: 2 * 106496}), l.bindOne(config.Node{})
		to := rdstest.Nowhere()
		data := make([]byte, 60000)
		for i := range 2 {
			if s.Poll()&datagram.PollOut == 0 {
				t.Errorf("no POLLOUT before message %d", i)
			}
			if err := s.TrySend(to, data); err != nil {
				t.Fatalf("message %d: %v", i, err)
			}
		}
		if s.Poll()&datagram.PollOut == 0 {
			t.Error("no POLLOUT although only one host has its share")
		}
		rdstest.MustSend(t, s, up.LocalAddrPort(), data)
		rdstest.Eventually(t, "the message to a host that is up to be settled", func() bool { return halfOf(s).Account.Bytes() == 120000 })
		rdstest.WantErr(t, "third message", s.TrySend(to, data), datagram.ErrWouldBlock, syscall.EAGAIN)
		rdstest.WantErr(t, "a byte", s.TrySend(to, data[:1]), datagram.ErrWouldBlock, syscall.EAGAIN)
		rdstest.WantErr(t, "an empty message", s.TrySend(to, nil), datagram.ErrWouldBlock, syscall.EAGAIN)
		rdstest.WantCounter(t, nodeOf(s), "send_queue_full", 3)
		info, _ := nodeOf(s).Info()
		if got := info.Sockets[0].SendQueued; got != 120000 {
			t.Errorf("%d bytes queued", got)
		}
		rdstest.Must(t, s.SetWriteBuffer(2*120001))
		if s.Poll()&datagram.PollOut == 0 || s.TrySend(to, data) != nil {
			t.Error("a larger buffer has no room")
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

func TestRoomReturns(t *testing.T) {
	t.Parallel()
	data := make([]byte, 1000)
	for _, c := range []struct {
		name string
		how  func(t *testing.T, l *lab, s *socket.Socket, to netip.AddrPort)
	}{
		{"when acknowledged", func(t *testing.T, l *lab, s *socket.Socket, to netip.AddrPort) {
			l.bind(l.node(config.Node{}), to)
		}},
		{"when canceled", func(t *testing.T, _ *lab, s *socket.Socket, to netip.AddrPort) {
			rdstest.NoError(t, s.CancelSentTo(to))
		}},
		{"when the buffer grows", func(t *testing.T, _ *lab, s *socket.Socket, to netip.AddrPort) {
			rdstest.NoError(t, s.SetWriteBuffer(5000))
		}},
	} {
		for _, blocked := range []bool{false, true} {
			name := c.name
			if blocked {
				name += ", to a blocked sender"
			}
			t.Run(name, func(t *testing.T) {
				bubble(t, func(t *testing.T, l *lab) {
					s := l.bindOne(config.Node{SendBuffer: 1000, ReconnectMax: 10 * time.Millisecond})
					to := rdstest.Nowhere()
					rdstest.MustSend(t, s, to, data)
					sent := make(chan error, 1)
					if blocked {
						go func() { sent <- s.Send(rdstest.Background(t), to, data) }()
						rdstest.Eventually(t, "the sender waits", func() bool { return halfOf(s).Writers.N.Load() == 1 })
					}
					c.how(t, l, s, to)
					if blocked {
						rdstest.NoError(t, <-sent)
					}
					rdstest.Eventually(t, "room", func() bool { return s.Poll()&datagram.PollOut != 0 || blocked })
				})
			})
		}
	}
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
