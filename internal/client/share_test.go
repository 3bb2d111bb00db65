package client

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// eachSender runs a test with a socket of a node and with one of an application, at a
// host that reaches the one of the other socket.
func eachSender(t *testing.T, in where, cfg config.Node, scfg config.Service, test func(t *testing.T, l *lab, p provider, up *socket.Socket)) {
	t.Helper()
	t.Run("node", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, l *lab) {
			test(t, l, l.node(cfg), l.bindOne(config.Node{}))
		})
	})
	t.Run("application", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, l *lab) {
			_, _, path := served(t, l, cfg, scfg)
			test(t, l, dialed(t, path), l.bindOne(config.Node{}))
		})
	})
}

// stuffed sends to a host that is down until it is refused, and returns the bytes taken.
func stuffed(t *testing.T, s *socket.Socket, to netip.AddrPort, size int) (n int) {
	t.Helper()
	data := make([]byte, size)
	for {
		err := s.TrySend(to, data)
		if errors.Is(err, datagram.ErrWouldBlock) {
			if clientHalfOf(s) == nil || allTaken(clientHalfOf(s).half.Load().att) {
				return n
			}
			rdstest.Eventually(t, "the daemon to take what was submitted", func() bool { return allTaken(clientHalfOf(s).half.Load().att) })
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		n += size
	}
}

// allTaken tells whether the daemon has taken all that an application has submitted.
func allTaken(t *attachment) bool {
	u := &t.submission
	u.mu.Lock()
	defer u.mu.Unlock()
	n, _ := u.ring.Free(len(u.ends))
	return n == len(u.ends)
}

// 64 messages of 64 KiB to a dead host leave half of the send buffer: a send to a live
// host is not kept waiting, whatever waits for the dead one.
func TestADeadHostLeavesHalfOfTheSendBuffer(t *testing.T) {
	t.Parallel()
	eachSender(t, bubble, config.Node{}, config.Service{}, func(t *testing.T, l *lab, p provider, up *socket.Socket) {
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
	eachSender(t, bubble, config.Node{}, config.Service{}, func(t *testing.T, l *lab, p provider, up *socket.Socket) {
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
	eachSender(t, bubble, config.Node{}, config.Service{}, func(t *testing.T, l *lab, p provider, up *socket.Socket) {
		s := bound(t, p, rdstest.AddrOf(rdstest.NewAddr(), 100))
		s.SetLinger(0)
		host := rdstest.NewAddr()
		n := l.node(config.Node{Addresses: []netip.Addr{host}})
		dying := l.bind(n, netip.AddrPortFrom(host, 4000))
		rdstest.Promptly(t, s, dying, nil)
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
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
		if err := clientHalfOf(s).submit(h, d, to.Port(), &datagram.Outgoing{To: to, Data: make([]byte, size)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	rdstest.Eventually(t, "the daemon to have it", func() bool { return h.heldBytes() >= h.account.Limit() })
}

// What waits for a dead host is delivered in order when it comes up, all of it; senders
// that waited for room go on, and the host has all of the buffer again.
func TestADeadHostComesBack(t *testing.T) {
	t.Parallel()
	eachSender(t, bubble, config.Node{SendBuffer: 1 << 20}, config.Service{}, func(t *testing.T, l *lab, p provider, up *socket.Socket) {
		s := bound(t, p, rdstest.AddrOf(rdstest.NewAddr(), 100))
		to := rdstest.Nowhere()
		const count, size = 400, 5000 // nearly twice the buffer
		sent := make(chan error, 1)
		send := func(i int) error {
			b := make([]byte, size)
			binary.BigEndian.PutUint32(b, uint32(i))
			return s.Send(rdstest.Background(t), to, b)
		}
		go func() {
			for i := range count {
				if err := send(i); err != nil {
					sent <- err
					return
				}
			}
			sent <- nil
		}()
		rdstest.Eventually(t, "the sender to wait", func() bool { return waitsToSend(s) })
		rdstest.Promptly(t, s, up, make([]byte, 1000))
		back := l.bind(l.node(config.Node{Addresses: []netip.Addr{to.Addr()}}), to)
		for i := range count {
			m := rdstest.MustRecv(t, back)
			if got := binary.BigEndian.Uint32(m.Data); got != uint32(i) {
				t.Fatalf("message %d instead of %d", got, i)
			}
			m.Release()
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
	})
}

// A sender that has nothing queued for a host, because other hosts that are down leave no
// room, goes on when that host accepts a connection, even if its RDS says nothing: that it is
// up makes the room, not its congestion map.
func TestAHostThatIsUpAndSilentHasRoom(t *testing.T) {
	t.Parallel()
	eachSender(t, overTCP, config.Node{Wire: config.WireTCP, SendBuffer: 1000}, config.Service{}, func(t *testing.T, l *lab, p provider, _ *socket.Socket) {
		s := bound(t, p, rdstest.AddrOf(rdstest.NewAddr(), 100))
		s.SetLinger(0)
		silent := l.Raw()
		rdstest.MustSend(t, s, rdstest.Nowhere(), make([]byte, 1000))
		sent := make(chan error, 1)
		go func() { sent <- s.Send(rdstest.Background(t), netip.AddrPortFrom(silent.Addr, 1), []byte("x")) }()
		rdstest.Eventually(t, "the sender to wait", func() bool { return waitsToSend(s) })
		silent.Listen().Accept()
		if err := <-sent; err != nil {
			t.Error(err)
		}
	})
}

// waitsToSend tells whether a sender waits for room.
func waitsToSend(s *socket.Socket) bool {
	if halfOf(s) != nil {
		return halfOf(s).Writers.N.Load() > 0
	}
	return clientHalfOf(s).writers.N.Load()+clientHalfOf(s).half.Load().att.space.N.Load() > 0
}

// Eight sockets with 4 MiB each for a host that is down use up an application's budget:
// messages to others, and of other sockets, go on, large ones and small ones. Nothing that
// was taken is left on the ring.
func TestADeadHostLeavesHalfOfTheBudget(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"small": 1000, "large": 64 << 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLoopLab(t)
				_, svc, path := served(t, l, config.Node{SendBuffer: 8 << 20}, config.Service{})
				c := dialed(t, path)
				up := l.bindOne(config.Node{})
				dead := rdstest.Nowhere()
				host, total := rdstest.NewAddr(), 0
				for i := range 8 {
					s := bound(t, c, rdstest.AddrOf(host, 100+uint16(i)))
					s.SetLinger(0)
					n := stuffed(t, s, dead, size)
					if n > 4<<20+size {
						t.Errorf("%d bytes of socket %d for a dead host", n, i)
					}
					total += n
				}
				if total < config.DefaultSendBudget/4 || total > config.DefaultSendBudget/2+size {
					t.Errorf("%d bytes for a dead host", total)
				}
				live := bound(t, c, rdstest.AddrOf(host, 200))
				for _, n := range []int{0, 1000, 64 << 10, 1 << 20} {
					rdstest.Promptly(t, live, up, make([]byte, n))
				}
				for i := range 8 { // sockets of the same program fill up towards other dead hosts, too
					s := bound(t, c, rdstest.AddrOf(host, 300+uint16(i)))
					s.SetLinger(0)
					stuffed(t, s, rdstest.Nowhere(), size)
				}
				for range 20 {
					rdstest.Promptly(t, live, up, make([]byte, 64<<10))
				}
				if q, most := svc.Sessions()[0].SendQueued, config.DefaultSendBudget*3/2; q > most {
					t.Errorf("%d bytes queued of %d", q, most)
				}
				rdstest.Eventually(t, "all submissions to be taken", func() bool { return allTaken(c.att) })
			})
		})
	}
}

// The rule: see conn.HasRoomFor.
func TestRoomOfOthers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		used, held, own int64
		down, want      bool
	}{
		{99, 0, 99, false, true}, {100, 0, 100, false, false}, // Linux
		{100, 50, 0, false, false}, {99, 50, 0, false, true}, {100, 100, 0, false, true}, {149, 100, 0, false, true}, {150, 100, 0, false, false},
		{149, 140, 0, false, true}, {150, 140, 0, false, false}, {149, 149, 0, false, true}, {151, 150, 0, false, false}, {200, 200, 0, false, true}, // held beyond the limit
		{0, 0, 0, true, true}, {49, 49, 49, true, true}, {50, 50, 50, true, false}, {74, 74, 24, true, true}, {75, 75, 25, true, false},
		{99, 99, 0, true, true}, {100, 100, 0, true, false},
	} {
		if got := conn.HasRoomFor(100, c.used, c.held, c.own, c.down); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
