//go:build !live

package node

import (
	"net/netip"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/transport"
)

// Messages between a node's own addresses do not touch the network.
func TestOwnAddresses(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		for _, paths := range []int{1, 8} {
			l := newLoopLab(t)
			net := &rdstest.Interceptor{Transport: l.Net.Transport(), Links: make(chan transport.Link, 1)}
			n := l.node(config.Node{Paths: paths, Transport: net})
			a, b := l.bind(n), l.bind(n)
			same := l.bind(n, rdstest.AddrOf(a.LocalAddrPort().Addr(), 4001))
			sizes := []int{8, 3000, 100_000}
			size := func(i int) int { return sizes[i%3] }
			for _, c := range []struct {
				name     string
				from, to *socket.Socket
			}{
				{"smaller to larger", a, b},
				{"larger to smaller", b, a},
				{"two sockets of an address", a, same},
				{"and back", same, a},
				{"to itself", b, b},
			} {
				if err := rdstest.Stream(rdstest.Background(t), c.from, c.to, 200, size); err != nil {
					t.Errorf("%d paths, %s: %v", paths, c.name, err)
				}
			}
			if len(net.Links) != 0 {
				t.Error("a link has come from the network")
			}
		}
	})
}

// A destination may become one of the node's own addresses after it was sent to.
func TestAddressBecomesOwn(t *testing.T) {
	bubble(t, newLoopLab, func(t *testing.T, l *lab) {
		n := l.node(config.Node{})
		low, mid, high := rdstest.NewAddr(), rdstest.NewAddr(), rdstest.NewAddr()
		s := l.bind(n, rdstest.AddrOf(mid, 4000))
		for _, a := range []netip.Addr{low, high} {
			rdstest.MustSend(t, s, rdstest.AddrOf(a, 4000), []byte("early"))
		}
		for _, a := range []netip.Addr{low, high} {
			d := l.bind(n, rdstest.AddrOf(a, 4000))
			rdstest.Expect(t, d, "early")
			rdstest.MustSend(t, d, s.LocalAddrPort(), []byte("answer"))
			rdstest.Expect(t, s, "answer")
		}
	})
}

func TestIPv6(t *testing.T) {
	bubble(t, newLoopLab, func(t *testing.T, l *lab) {
		a := l.bind(l.node(config.Node{}), netip.MustParseAddrPort("[fd00::1]:4000"))
		b := l.bind(l.node(config.Node{}), netip.MustParseAddrPort("[fd00::2]:4000"))
		ctx := rdstest.Background(t)
		for _, c := range [][2]*socket.Socket{{a, b}, {b, a}, {a, a}} {
			rdstest.NoError(t, rdstest.Stream(ctx, c[0], c[1], 100, rdstest.Fixed(1000)))
		}
		rdstest.MustSend(t, a, b.LocalAddrPort(), []byte("x"))
		m := rdstest.MustRecv(t, b)
		if m.From != a.LocalAddrPort() {
			t.Error(m.From)
		}
		m.Release()
		rdstest.Ping(t, a, b.LocalAddrPort().Addr())
	})
}

// The node itself answers what is sent to port 0, with 0 bytes from port 0
// (net/rds/recv.c, rds_recv_incoming; net/rds/send.c, rds_send_pong).
func TestPing(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		for _, paths := range []int{1, 8} {
			l := newLoopLab(t)
			n := l.node(config.Node{Paths: paths, Addresses: []netip.Addr{rdstest.NewAddr()}}) // nothing bound
			host := n.Config.Addresses[0]
			s := l.bindOne(config.Node{Paths: paths})
			for range 10 {
				rdstest.Ping(t, s, host)
			}
			rdstest.Ping(t, s, s.LocalAddrPort().Addr())
			if got := rdstest.Counter(t, n, "recv_ping"); got < 10 {
				t.Errorf("recv_ping %d", got)
			}
		}
	})
}

func TestDisabledPing(t *testing.T) {
	bubble(t, newLoopLab, func(t *testing.T, l *lab) {
		quiet := l.bindOne(config.Node{DisablePing: true})
		s := l.bindOne(config.Node{})
		host := quiet.LocalAddrPort().Addr()
		rdstest.MustSend(t, s, rdstest.AddrOf(host, 0), nil)
		rdstest.MustSend(t, s, quiet.LocalAddrPort(), []byte("data"))
		rdstest.Expect(t, quiet, "data")
		rdstest.MustSend(t, quiet, s.LocalAddrPort(), []byte("back"))
		rdstest.Expect(t, s, "back") // and no pong before it
		if got := rdstest.Counter(t, nodeOf(quiet), "recv_drop_no_sock"); got == 0 {
			t.Error("the ping was not dropped as data to port 0")
		}
	})
}

// A pong to a congested port is not sent (net/rds/send.c, rds_send_pong).
func TestPongMeetsCongestion(t *testing.T) {
	bubble(t, newMemLab, func(t *testing.T, l *lab) {
		peer := l.Raw()
		s := l.bindOne(config.Node{})
		r := peer.Dial(s.LocalAddrPort().Addr())
		r.Put(rdstest.Congestion(77))
		r.Put(r.Data(77, wire.PortHost, nil))
		r.Put(r.Data(78, wire.PortHost, nil))
		h, _ := r.NextData()
		if h.Dport != 78 || h.Sport != wire.PortHost || h.Length != 0 {
			t.Errorf("%+v", h)
		}
		rdstest.WantCounter(t, nodeOf(s), "cong_send_error", 1)
	})
}
