package rds

import (
	"net/netip"
	"testing"

	"github.com/rds-go/rds/internal/wire"
)

func addrOf(a netip.Addr, port uint16) netip.AddrPort { return netip.AddrPortFrom(a, port) }

// Messages between a node's own addresses do not touch the network.
func TestOwnAddresses(t *testing.T) {
	t.Parallel()
	for _, paths := range []int{1, 8} {
		l := newLab(t)
		n := l.node(Config{Paths: paths})
		a, b := l.bind(n), l.bind(n)
		same := l.bind(n, addrOf(a.LocalAddrPort().Addr(), 4001))
		sizes := []int{8, 3000, 100_000}
		size := func(i int) int { return sizes[i%3] }
		for _, c := range []struct {
			name     string
			from, to *Socket
		}{
			{"smaller to larger", a, b},
			{"larger to smaller", b, a},
			{"two sockets of an address", a, same},
			{"and back", same, a},
			{"to itself", b, b},
		} {
			if err := stream(background(t), c.from, c.to, 200, size); err != nil {
				t.Errorf("%d paths, %s: %v", paths, c.name, err)
			}
		}
		info, err := n.Info()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range info.TCP {
			if s.Remote.Port() == l.port || s.Local.Port() == l.port {
				t.Errorf("a TCP connection: %+v", s)
			}
		}
	}
}

// A destination may become one of the node's own addresses after it was sent to.
func TestAddressBecomesOwn(t *testing.T) {
	t.Parallel()
	for _, l := range []*lab{newLab(t), newLoopLab(t)} {
		n := l.node(Config{})
		low, mid, high := newAddr(), newAddr(), newAddr()
		s := l.bind(n, addrOf(mid, 4000))
		for _, a := range []netip.Addr{low, high} {
			mustSend(t, s, addrOf(a, 4000), []byte("early"))
		}
		for _, a := range []netip.Addr{low, high} {
			d := l.bind(n, addrOf(a, 4000))
			expect(t, d, "early")
			mustSend(t, d, s.LocalAddrPort(), []byte("answer"))
			expect(t, s, "answer")
		}
	}
}

func TestIPv6(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	a := l.bind(l.node(Config{}), netip.MustParseAddrPort("[fd00::1]:4000"))
	b := l.bind(l.node(Config{}), netip.MustParseAddrPort("[fd00::2]:4000"))
	ctx := background(t)
	for _, c := range [][2]*Socket{{a, b}, {b, a}, {a, a}} {
		if err := stream(ctx, c[0], c[1], 100, fixed(1000)); err != nil {
			t.Error(err)
		}
	}
	mustSend(t, a, b.LocalAddrPort(), []byte("x"))
	m := mustRecv(t, b)
	if m.From != a.LocalAddrPort() {
		t.Error(m.From)
	}
	m.Release()
}

func TestIPv6Loopback(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.node(Config{})
	one := netip.IPv6Loopback()
	a, err := n.Bind(addrOf(one, 4000))
	if err != nil {
		t.Skipf("needs the address ::1 on the loopback interface: %v", err)
	}
	b := l.bind(n, addrOf(one, 4001))
	if err := stream(background(t), a, b, 100, fixed(5000)); err != nil {
		t.Error(err)
	}
	ping(t, a, one)
}

// ping sends one to the host itself and takes the answer.
func ping(t testing.TB, s *Socket, host netip.Addr) {
	t.Helper()
	mustSend(t, s, addrOf(host, 0), []byte("not echoed"))
	m := mustRecv(t, s)
	defer m.Release()
	if m.From != addrOf(host, 0) || len(m.Data) != 0 || m.Kind != KindData {
		t.Errorf("ping: %v", &m)
	}
}

// The node itself answers what is sent to port 0, with 0 bytes from port 0
// (net/rds/recv.c, rds_recv_incoming; net/rds/send.c, rds_send_pong).
func TestPing(t *testing.T) {
	t.Parallel()
	for _, paths := range []int{1, 8} {
		l := newLab(t)
		n := l.node(Config{Paths: paths, Addresses: []netip.Addr{newAddr()}}) // nothing bound
		host := n.cfg.Addresses[0]
		s := l.bindOne(Config{Paths: paths})
		for range 10 {
			ping(t, s, host)
		}
		ping(t, s, s.LocalAddrPort().Addr())
		if got := counter(t, n, "recv_ping"); got < 10 {
			t.Errorf("recv_ping %d", got)
		}
	}
}

func TestDisabledPing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	quiet := l.bindOne(Config{DisablePing: true})
	s := l.bindOne(Config{})
	host := quiet.LocalAddrPort().Addr()
	mustSend(t, s, addrOf(host, 0), nil)
	mustSend(t, s, quiet.LocalAddrPort(), []byte("data"))
	expect(t, quiet, "data")
	mustSend(t, quiet, s.LocalAddrPort(), []byte("back"))
	expect(t, s, "back") // and no pong before it
	if got := counter(t, nodeOf(quiet), "recv_drop_no_sock"); got == 0 {
		t.Error("the ping was not dropped as data to port 0")
	}
}

// A pong to a congested port is not sent (net/rds/send.c, rds_send_pong).
func TestPongMeetsCongestion(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	peer := l.raw()
	s := l.bindOne(Config{})
	r := peer.dial(s.LocalAddrPort().Addr())
	r.write(congestion(77))
	r.write(r.data(77, wire.PortHost, nil))
	r.write(r.data(78, wire.PortHost, nil))
	h, _ := r.nextData()
	if h.Dport != 78 || h.Sport != wire.PortHost || h.Length != 0 {
		t.Errorf("%+v", h)
	}
	if got := counter(t, nodeOf(s), "cong_send_error"); got != 1 {
		t.Errorf("cong_send_error %d", got)
	}
}
