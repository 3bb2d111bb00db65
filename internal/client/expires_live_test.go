//go:build live

package client

import (
	"context"
	"testing"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// expiring makes a socket of each provider on a node of the lab.
func expiring(t *testing.T, in where, each func(t *testing.T, l *lab, bind func(config.Node) *socket.Socket)) {
	t.Run("node", func(t *testing.T) {
		in(t, func(t *testing.T, l *lab) {
			each(t, l, l.bindOne)
		})
	})
	t.Run("rdsd", func(t *testing.T) {
		in(t, func(t *testing.T, l *lab) {
			each(t, l, func(cfg config.Node) *socket.Socket {
				_, _, path := served(t, l, cfg, config.Service{})
				return bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 4000))
			})
		})
	})
}

// A message for a host that cannot be reached ends with its time limit and not before;
// those without one, or a later one, wait on in their order.
func TestExpiresWhileThePeerIsUnreachable(t *testing.T) {
	t.Parallel()
	expiring(t, bubble, func(t *testing.T, l *lab, bind func(config.Node) *socket.Socket) {
		s := bind(rarely(config.Node{}))
		to := rdstest.Nowhere()
		limit := rdstest.After(100 * time.Millisecond)
		for i, size := range []int{0, 10, conn.InlineMax + 1, 300_000} {
			o := datagram.Outgoing{To: to, Data: rdstest.Payload(uint64(i), size), Notify: true, Token: uint64(i), Expires: limit}
			if i == 1 {
				o.Expires = rdstest.After(time.Hour)
			}
			rdstest.Must(t, s.SendMessage(rdstest.Background(t), &o))
			rdstest.MustSend(t, s, to, rdstest.Payload(uint64(10+i), 10))
		}
		for _, token := range []uint64{0, 2, 3} {
			rdstest.WantStatus(t, s, token, datagram.StatusExpired)
			if time.Now().Before(limit) {
				t.Errorf("message %d expires too early", token)
			}
		}
		rdstest.Must(t, s.TrySendMessage(&datagram.Outgoing{To: to, Notify: true, Token: 100, Expires: rdstest.After(50 * time.Millisecond)})) // nothing follows it
		rdstest.WantStatus(t, s, 100, datagram.StatusExpired)
		late := l.bind(l.node(config.Node{}), to)
		rdstest.MustSend(t, late, rdstest.AddrOf(s.LocalAddrPort().Addr(), 9), nil) // connects
		for _, number := range []uint64{10, 1, 11, 12, 13} {
			rdstest.ExpectNumber(t, late, number)
		}
		rdstest.WantStatus(t, s, 1, datagram.StatusSuccess)
	})
}

// A message whose limit is over when it is sent never goes, be the peer up or not; nor
// does it hinder others of its batch.
func TestExpiredWhenItIsSent(t *testing.T) {
	t.Parallel()
	expiring(t, bubble, func(t *testing.T, l *lab, bind func(config.Node) *socket.Socket) {
		s, peer := bind(config.Node{}), l.bindOne(config.Node{})
		rdstest.MustSend(t, s, peer.LocalAddrPort(), []byte("up"))
		rdstest.Expect(t, peer, "up")
		var out []datagram.Outgoing
		for i := range 300 {
			o := datagram.Outgoing{To: peer.LocalAddrPort(), Data: rdstest.Payload(uint64(i), []int{8, 100, 20_000}[i%3]), Notify: true, Token: uint64(i)}
			switch {
			case i%2 == 0:
				o.Expires = rdstest.After(-time.Duration(i) * time.Hour)
			case i%3 == 0:
				o.Expires = rdstest.After(100 * 365 * 24 * time.Hour * time.Duration(i%5%3)) // what is over again, or far away
			}
			out = append(out, o)
		}
		wanted := func(i int) bool { return out[i].Expires.IsZero() || out[i].Expires.After(time.Now()) }
		if n, err := s.SendBatch(rdstest.Background(t), out); n != len(out) || err != nil {
			t.Fatal(n, err)
		}
		rdstest.Must(t, s.SendMessage(rdstest.Background(t), &datagram.Outgoing{To: peer.LocalAddrPort(), Notify: true, Token: 1000, Expires: rdstest.After(-1)}))
		rdstest.Must(t, s.TrySendMessage(&datagram.Outgoing{To: rdstest.Nowhere(), Notify: true, Token: 1001, Expires: rdstest.After(-1)}))
		for i := range out {
			if !wanted(i) {
				continue
			}
			rdstest.ExpectNumber(t, peer, uint64(i))
		}
		for range len(out) + 2 {
			m := rdstest.MustRecv(t, s)
			if i := int(m.Token); m.Kind != datagram.KindStatus || (m.Status == datagram.StatusSuccess) != (i < len(out) && wanted(i)) || m.Status != datagram.StatusSuccess && m.Status != datagram.StatusExpired {
				t.Errorf("fate %v", &m)
			}
		}
		rdstest.WantNothing(t, peer)
	})
}

// Messages that wait for a congested port expire, and what has expired is not received.
func TestExpiresAtACongestedPort(t *testing.T) {
	t.Parallel()
	expiring(t, overTCP, func(t *testing.T, l *lab, bind func(config.Node) *socket.Socket) {
		s := bind(config.Node{SendBuffer: 8 << 20, ReconnectMin: time.Millisecond, ReconnectMax: 10 * time.Millisecond})
		to := rdstest.Nowhere()
		const n = 200 // more than the port takes, and no map has come yet
		for i := range uint64(n) {
			o := datagram.Outgoing{To: to, Data: rdstest.Payload(i, 8<<10), Notify: true, Token: i, Expires: rdstest.After(3 * time.Second)}
			rdstest.Must(t, s.SendMessage(rdstest.Background(t), &o))
		}
		peer := l.bind(l.node(config.Node{ReceiveBuffer: 64 << 10, ReceiveOverrun: 256 << 10}), to)
		ends, expired := make(map[datagram.Status]int), make(map[uint64]bool)
		for range n {
			m := rdstest.MustRecv(t, s)
			ends[m.Status]++
			expired[m.Token] = m.Status == datagram.StatusExpired
		}
		if ends[datagram.StatusExpired] == 0 || ends[datagram.StatusSuccess] == 0 || ends[datagram.StatusExpired]+ends[datagram.StatusSuccess] != n {
			t.Fatalf("fates %v", ends)
		}
		for i := range uint64(n) {
			if expired[i] {
				continue
			}
			rdstest.ExpectNumber(t, peer, i)
		}
		rdstest.MustSend(t, s, to, []byte("last"))
		rdstest.Expect(t, peer, "last")
	})
}

// A send that blocks waits for room no longer than its message may.
func TestBlockedSendEndsWithItsMessage(t *testing.T) {
	t.Parallel()
	expiring(t, bubble, func(t *testing.T, l *lab, bind func(config.Node) *socket.Socket) {
		s := bind(config.Node{SendBuffer: 100_000})
		to := rdstest.Nowhere()
		for s.TrySend(to, make([]byte, 10_000)) == nil {
		}
		for _, limit := range []time.Duration{-time.Second, 50 * time.Millisecond} {
			o := datagram.Outgoing{To: to, Data: make([]byte, 10_000), Notify: true, Expires: rdstest.After(limit)}
			rdstest.WantErr(t, "SendMessage", s.SendMessage(rdstest.Background(t), &o), context.DeadlineExceeded)
			n, err := s.SendBatch(rdstest.Background(t), []datagram.Outgoing{o})
			if n != 0 {
				t.Error("sent in a batch")
			}
			rdstest.WantErr(t, "SendBatch", err, context.DeadlineExceeded)
		}
		rdstest.WantNothing(t, s)
	})
}

// What has expired for a host that is down leaves the host its part of the send buffer,
// while another one that is down has as much as it may: each message is alone.
func TestExpiredMessagesLeaveRoom(t *testing.T) {
	t.Parallel()
	expiring(t, bubble, func(t *testing.T, l *lab, bind func(config.Node) *socket.Socket) {
		s := bind(config.Node{SendBuffer: 100_000})
		other, to := rdstest.Nowhere(), rdstest.Nowhere()
		for s.TrySend(other, make([]byte, 1000)) == nil {
		}
		for i := range uint64(40) {
			o := datagram.Outgoing{To: to, Data: make([]byte, 4000), Notify: true, Token: i, Expires: rdstest.After(10 * time.Millisecond)}
			if i%2 == 0 {
				if n, err := s.SendBatch(rdstest.Background(t), []datagram.Outgoing{o}); n != 1 {
					t.Fatal(i, err)
				}
			} else if err := s.SendMessage(rdstest.Background(t), &o); err != nil {
				t.Fatal(i, err)
			}
			rdstest.WantStatus(t, s, i, datagram.StatusExpired)
		}
	})
}
