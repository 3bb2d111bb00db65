//go:build live

package client

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// eachSender runs a test with a socket of a node and with one of an application, at a
// host that reaches the one of the other socket.
func eachSender(t *testing.T, in where, cfg config.Node, scfg config.Service, test func(t *testing.T, l *lab, p rdstest.Provider, up *socket.Socket)) {
	t.Helper()
	t.Run("node", func(t *testing.T) {
		in(t, func(t *testing.T, l *lab) {
			test(t, l, l.node(cfg), l.bindOne(config.Node{}))
		})
	})
	t.Run("application", func(t *testing.T) {
		in(t, func(t *testing.T, l *lab) {
			_, _, path := served(t, l, cfg, scfg)
			test(t, l, dialed(t, path), l.bindOne(config.Node{}))
		})
	})
}

// 64 messages of 64 KiB to a dead host leave half of the send buffer: a send to a live
// host is not kept waiting, whatever waits for the dead one.
func TestADeadHostLeavesHalfOfTheSendBuffer(t *testing.T) {
	t.Parallel()
	eachSender(t, bubble, config.Node{}, config.Service{}, func(t *testing.T, l *lab, p rdstest.Provider, up *socket.Socket) {
		s := bound(t, p, rdstest.AddrOf(rdstest.NewAddr(), 100))
		s.SetLinger(0)
		dead := rdstest.Nowhere()
		const size = 64 << 10
		limit, _ := s.Buffers()
		if n := stuffed(t, s, dead, size); n != limit/2 {
			t.Errorf("%d bytes for a dead host, want half of %d", n, limit)
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		blocked := make(chan error, 1)
		go func() { blocked <- s.Send(ctx, dead, make([]byte, size)) }()
		for range 100 {
			rdstest.Promptly(t, s, up, make([]byte, size))
		}
		if s.Poll()&datagram.PollOut == 0 {
			t.Error("no POLLOUT")
		}
		if err := s.TrySend(up.LocalAddrPort(), nil); err != nil {
			t.Errorf("TrySend to a live host: %v", err)
		}
		if n, err := s.TrySendBatch([]datagram.Outgoing{{To: up.LocalAddrPort()}, {To: dead}}); n != 1 || !errors.Is(err, datagram.ErrWouldBlock) {
			t.Errorf("TrySendBatch: %d, %v", n, err)
		}
		cancel()
		rdstest.WantErr(t, "a send to the dead host", <-blocked, context.Canceled)
	})
}

// However many hosts are dead, each has a message taken and a live one its half.
func TestManyDeadHosts(t *testing.T) {
	t.Parallel()
	eachSender(t, bubble, config.Node{}, config.Service{}, func(t *testing.T, l *lab, p rdstest.Provider, up *socket.Socket) {
		s := bound(t, p, rdstest.AddrOf(rdstest.NewAddr(), 100))
		s.SetLinger(0)
		total := 0
		for i := range 20 {
			n := stuffed(t, s, rdstest.Nowhere(), 1000)
			if n == 0 && i < 10 {
				t.Errorf("nothing for dead host %d", i)
			}
			total += n
		}
		if limit, _ := s.Buffers(); total < limit*9/10 || total > limit+1000 {
			t.Errorf("%d bytes for dead hosts, of %d", total, limit)
		}
		for range 20 {
			rdstest.Promptly(t, s, up, make([]byte, 200_000))
		}
		// A host that is met only now is dialled, though it is down at first.
		late := l.bindOne(config.Node{})
		rdstest.Promptly(t, s, late, make([]byte, 1000))
	})
}

// A host that goes down with all of the send buffer does not keep what it has from others.
func TestAHostThatDiesWithAFullBuffer(t *testing.T) {
	t.Parallel()
	eachSender(t, bubble, config.Node{}, config.Service{}, func(t *testing.T, l *lab, p rdstest.Provider, up *socket.Socket) {
		s := bound(t, p, rdstest.AddrOf(rdstest.NewAddr(), 100))
		s.SetLinger(0)
		host := rdstest.NewAddr()
		n := l.node(config.Node{Addresses: []netip.Addr{host}})
		dying := l.bind(n, netip.AddrPortFrom(host, 4000))
		rdstest.Promptly(t, s, dying, nil)
		rdstest.Must(t, n.Close())
		var own int
		switch p := p.(type) {
		case *node.Node: // all of it was sent while the host was up
			peer := p.Known(s.LocalAddrPort().Addr(), host)
			h := halfOf(s).Share(peer)
			rdstest.Eventually(t, "the host to be down", peer.Down.Load)
			h.Admit(halfOf(s).Account.Limit())
			defer h.Refund(h.Bytes(), h.Messages())
			own = h.Bytes()
		case *Client:
			own = clientHalfOf(s).half.Load().account.Limit()
			filledWhileUp(t, s, dying.LocalAddrPort())
		}
		if own == 0 {
			t.Fatal("nothing is queued")
		}
		rdstest.WantErr(t, "to the host that died", s.TrySend(dying.LocalAddrPort(), make([]byte, 10)), datagram.ErrWouldBlock)
		for range 20 {
			rdstest.Promptly(t, s, up, make([]byte, 100_000))
		}
	})
}

// filledWhileUp has an application's socket fill its buffer for a host that it takes to be
// up, as what it was sent before the host went down would.
func filledWhileUp(t *testing.T, s *socket.Socket, to netip.AddrPort) {
	t.Helper()
	h := clientHalfOf(s).half.Load()
	rdstest.Eventually(t, "the host to be down", func() bool { return h.att.table.Down(int(clientHalfOf(s).last.Load().peer)) })
	d := clientHalfOf(s).last.Load()
	const size = 100_000
	for h.account.Bytes() < h.account.Limit() {
		if !h.account.Charge(size) {
			break
		}
		h.att.budget.account.Admit(cost(size))
		rdstest.Must(t, clientHalfOf(s).submit(h, d, to.Port(), &datagram.Outgoing{To: to, Data: make([]byte, size)}, nil))
	}
	rdstest.Eventually(t, "the daemon to have it", func() bool { return h.heldBytes() >= h.account.Limit() })
}

// What waits for a dead host is delivered in order when it comes up, all of it; senders
// that waited for room go on, and the host has all of the buffer again.
func TestADeadHostComesBack(t *testing.T) {
	t.Parallel()
	eachSender(t, bubble, config.Node{SendBuffer: 1 << 20}, config.Service{}, func(t *testing.T, l *lab, p rdstest.Provider, up *socket.Socket) {
		s := bound(t, p, rdstest.AddrOf(rdstest.NewAddr(), 100))
		to := rdstest.Nowhere()
		const count, size = 400, 5000 // nearly twice the buffer
		sent := make(chan error, 1)
		go func() {
			var err error
			for i := uint64(0); i < count && err == nil; i++ {
				err = s.Send(rdstest.Background(t), to, rdstest.Payload(i, size))
			}
			sent <- err
		}()
		rdstest.Eventually(t, "the sender to wait", func() bool { return waitsToSend(s) })
		rdstest.Promptly(t, s, up, make([]byte, 1000))
		back := l.bind(l.node(config.Node{Addresses: []netip.Addr{to.Addr()}}), to)
		rdstest.ExpectNumbers(t, back, count)
		rdstest.Must(t, <-sent)
	})
}

// A sender that has nothing queued for a host, because other hosts that are down leave no
// room, goes on when that host accepts a connection, even if its RDS says nothing: that it is
// up makes the room, not its congestion map.
func TestAHostThatIsUpAndSilentHasRoom(t *testing.T) {
	t.Parallel()
	eachSender(t, overTCP, config.Node{Wire: config.WireTCP, SendBuffer: 1000}, config.Service{}, func(t *testing.T, l *lab, p rdstest.Provider, _ *socket.Socket) {
		s := bound(t, p, rdstest.AddrOf(rdstest.NewAddr(), 100))
		s.SetLinger(0)
		silent := l.Raw()
		rdstest.MustSend(t, s, rdstest.Nowhere(), make([]byte, 1000))
		sent := make(chan error, 1)
		go func() { sent <- s.Send(rdstest.Background(t), netip.AddrPortFrom(silent.Addr, 1), []byte("x")) }()
		rdstest.Eventually(t, "the sender to wait", func() bool { return waitsToSend(s) })
		silent.Listen().Accept()
		rdstest.NoError(t, <-sent)
	})
}

// waitsToSend tells whether a sender waits for room.
func waitsToSend(s *socket.Socket) bool {
	if halfOf(s) != nil {
		return halfOf(s).Writers.N.Load() > 0
	}
	return clientHalfOf(s).writers.N.Load()+clientHalfOf(s).half.Load().att.space.N.Load() > 0
}
