//go:build !live

package node

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

func wantTransport(t testing.TB, from, to *socket.Socket, want string) {
	t.Helper()
	if got, up := rdstest.TransportTo(t, nodeOf(from), to.LocalAddrPort().Addr()); got != want || !up {
		t.Errorf("%v is served by %q, up %v; want %q", to.LocalAddrPort().Addr(), got, up, want)
	}
}

// exchange sends both ways, and checks what carries it.
func exchange(t testing.TB, a, b *socket.Socket, want string) {
	t.Helper()
	rdstest.MustSend(t, a, b.LocalAddrPort(), []byte("there"))
	rdstest.Expect(t, b, "there")
	rdstest.MustSend(t, b, a.LocalAddrPort(), []byte("and back"))
	rdstest.Expect(t, a, "and back")
	wantTransport(t, a, b, want)
	wantTransport(t, b, a, want)
}

// Two nodes speak XRC with each other, on its own port, and say so.
func TestTwoNodesSpeakXRC(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		for crc, want := range map[config.CRC]bool{config.CRCAuto: false, config.CRCOff: false, config.CRCOn: true} { // the nodes are on one host
			l := newMemLab(t)
			a, b := l.bind(l.node(config.Node{})), l.bind(l.node(config.Node{XRC: config.XRC{CRC: crc}}))
			exchange(t, a, b, "xrc")
			rdstest.Eventually(t, "acknowledgement", func() bool { x := rdstest.Report(t, nodeOf(a)).XRC; return x[0].Acked == x[0].Written })
			ia, ib := rdstest.Report(t, nodeOf(a)), rdstest.Report(t, nodeOf(b))
			if len(ia.TCP)+len(ib.TCP) != 0 || len(ia.XRC) != 1 || len(ib.XRC) != 1 {
				t.Fatalf("%+v\n%+v", ia, ib)
			}
			x, y := ia.XRC[0], ib.XRC[0]
			if x.Local != y.Remote || x.Remote != y.Local || x.Remote.Port() != l.Port^1 || x.Path != 0 || x.Operations != 0 {
				t.Errorf("%+v\n%+v", x, y)
			}
			if x.CRC != want || y.CRC != want {
				t.Errorf("one side's CRC is %q; they have %v and %v", crc, x.CRC, y.CRC)
			}
			if ca, cb := ia.Connections[0], ib.Connections[0]; ca.CRC != want || cb.CRC != want {
				t.Errorf("one side's CRC is %q; the connections have %v and %v", crc, ca.CRC, cb.CRC)
			}
			if x.Written < uint64(len("there")) || y.Written < uint64(len("and back")) {
				t.Errorf("%+v\n%+v", x, y)
			}
			if rdstest.Counter(t, nodeOf(a), "xrc_connected") == 0 || rdstest.Counter(t, nodeOf(b), "xrc_accepted") == 0 {
				t.Error("no connection was counted")
			}
		}
	})
}

// A node that speaks both and one that speaks one of them meet over that one,
// whichever has the smaller address and so connects, and whoever sends first.
func TestNodesMeet(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		lo, hi config.Node
		want   string
	}{
		{"to TCP", config.Node{}, config.Node{Wire: config.WireTCP}, "tcp"},
		{"from TCP", config.Node{Wire: config.WireTCP}, config.Node{}, "tcp"},
		{"to XRC", config.Node{}, config.Node{Wire: config.WireXRC}, "xrc"},
		{"from XRC", config.Node{Wire: config.WireXRC}, config.Node{}, "xrc"},
		{"TCP", config.Node{Wire: config.WireTCP}, config.Node{Wire: config.WireTCP}, "tcp"},
		{"XRC", config.Node{Wire: config.WireXRC}, config.Node{Wire: config.WireXRC}, "xrc"},
		{"eight paths", config.Node{Paths: 8}, config.Node{Paths: 8, Wire: config.WireTCP}, "tcp"},
		{"eight paths of XRC", config.Node{Paths: 8}, config.Node{Paths: 8}, "xrc"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rdstest.Bubble(t, func(t *testing.T) {
				for _, first := range []string{"smaller", "larger"} {
					l := newMemLab(t)
					a, b := l.bind(l.node(c.lo)), l.bind(l.node(c.hi))
					if first == "larger" {
						a, b = b, a
					}
					exchange(t, a, b, c.want)
				}
			})
		})
	}
}

// A peer that has spoken XRC is restarted without it, and the other way round. What
// is sent to it meanwhile arrives, once and in order.
func TestPeerRestartsWithAnotherWire(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		before, after config.Wire
		first, then   string
		restarted     int // 0: that of the smaller address
	}{
		{"larger loses XRC", config.WireAuto, config.WireTCP, "xrc", "tcp", 1},
		{"smaller loses XRC", config.WireAuto, config.WireTCP, "xrc", "tcp", 0},
		{"larger loses TCP", config.WireTCP, config.WireXRC, "tcp", "xrc", 1},
		{"smaller loses TCP", config.WireTCP, config.WireXRC, "tcp", "xrc", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, newMemLab, func(t *testing.T, l *lab) {
				at := []netip.AddrPort{rdstest.AddrOf(rdstest.NewAddr(), 4000), rdstest.AddrOf(rdstest.NewAddr(), 4000)}
				mine, theirs := at[1-c.restarted], at[c.restarted]
				xrc := config.XRC{Patience: rdstest.LostPatience}
				a := l.bind(l.node(config.Node{ReconnectMax: 50 * time.Millisecond, XRC: xrc}), mine)
				n := l.node(config.Node{Wire: c.before, XRC: xrc})
				b := l.bind(n, theirs)
				exchange(t, a, b, c.first)
				rdstest.Eventually(t, "acknowledgement", func() bool { return halfOf(a).Account.Messages() == 0 })
				_ = n.Close()
				rdstest.Eventually(t, "the end", func() bool { _, up := rdstest.TransportTo(t, nodeOf(a), theirs.Addr()); return !up })
				const count = 100
				for i := range count {
					rdstest.MustSend(t, a, theirs, rdstest.Payload(uint64(i), 5000))
				}
				b = l.bind(l.node(config.Node{Wire: c.after}), theirs)
				rdstest.ExpectNumbers(t, b, count)
				wantTransport(t, a, b, c.then)
				rdstest.MustSend(t, b, mine, []byte("back"))
				rdstest.Expect(t, a, "back")
				rdstest.WantNothing(t, b)
			})
		})
	}
}

// A socket that insists on a transport settles it for peers not decided yet, and
// cannot send to others.
func TestSetTransport(t *testing.T) {
	bubble(t, newMemLab, func(t *testing.T, l *lab) {
		a, b := l.bind(l.node(config.Node{})), l.bind(l.node(config.Node{}))
		other := l.bind(nodeOf(a))
		rdstest.Must(t, a.SetTransport(config.WireTCP))
		exchange(t, a, b, "tcp") // although both speak XRC
		exchange(t, other, b, "tcp")
		rdstest.Must(t, other.SetTransport(config.WireXRC))
		to := b.LocalAddrPort()
		rdstest.WantErr(t, "send", other.Send(rdstest.Background(t), to, nil), datagram.ErrNotSupported, syscall.EOPNOTSUPP)
		rdstest.WantErr(t, "send again", other.TrySend(to, nil), datagram.ErrNotSupported)
		n, err := other.SendBatch(rdstest.Background(t), []datagram.Outgoing{{To: to}, {To: to}})
		if n != 0 {
			t.Errorf("%d of a batch were sent", n)
		}
		rdstest.WantErr(t, "batch", err, datagram.ErrNotSupported)
		rdstest.MustSend(t, other, other.LocalAddrPort(), []byte("myself")) // an own address is no peer
		rdstest.Expect(t, other, "myself")
		rdstest.MustSend(t, b, other.LocalAddrPort(), []byte("inbound")) // receiving is not concerned
		rdstest.Expect(t, other, "inbound")
		rdstest.Must(t, other.SetTransport(config.WireAuto))
		rdstest.MustSend(t, other, to, []byte("any"))
		rdstest.Expect(t, b, "any")

		rdstest.WantErr(t, "no transport", other.SetTransport("ib"), datagram.ErrInvalid, syscall.EINVAL)
		tcp := l.bind(l.node(config.Node{Wire: config.WireTCP}))
		rdstest.WantErr(t, "not of this node", tcp.SetTransport(config.WireXRC), datagram.ErrNoTransport, syscall.ENOPROTOOPT)
		rdstest.NoError(t, errors.Join(tcp.SetTransport(config.WireTCP), tcp.SetTransport(config.WireAuto)))
		_ = tcp.Close()
		if err := tcp.SetTransport(config.WireTCP); !rdstest.Closed(err) {
			t.Errorf("closed: %v", err)
		}
	})
}

// A peer without XRC on which a socket insists is like a host that is down.
func TestForcedTransportThatThePeerLacks(t *testing.T) {
	bubble(t, newMemLab, func(t *testing.T, l *lab) {
		a, b := l.bind(l.node(config.Node{SendBuffer: 10_000, ReconnectMax: 20 * time.Millisecond})), l.bind(l.node(config.Node{Wire: config.WireTCP}))
		rdstest.Must(t, a.SetTransport(config.WireXRC))
		rdstest.MustSend(t, a, b.LocalAddrPort(), make([]byte, 10_000))
		rdstest.MustSend(t, b, a.LocalAddrPort(), []byte("it connects, too"))
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		rdstest.WantErr(t, "full", a.Send(ctx, b.LocalAddrPort(), []byte("x")), context.DeadlineExceeded)
		if name, up := rdstest.TransportTo(t, nodeOf(a), b.LocalAddrPort().Addr()); name != "xrc" || up {
			t.Errorf("served by %q, up %v", name, up)
		}
		rdstest.WantNothing(t, b)
		rdstest.WantNothing(t, a)
		if q := rdstest.Report(t, nodeOf(a)).SendQueue; len(q) != 1 || q[0].Bytes != 10_000 {
			t.Errorf("send queue %+v", q)
		}
		rdstest.Must(t, a.SetWriteDeadline(time.Now().Add(50*time.Millisecond)))
		rdstest.WantErr(t, "full", a.Send(context.Background(), b.LocalAddrPort(), []byte("x")), os.ErrDeadlineExceeded)
	})
}

// What serves a peer may be configured.
func TestPeerWires(t *testing.T) {
	bubble(t, newMemLab, func(t *testing.T, l *lab) {
		b := l.bind(l.node(config.Node{}))
		a := l.bind(l.node(config.Node{PeerWires: map[netip.Addr]config.Wire{b.LocalAddrPort().Addr(): config.WireTCP}}))
		exchange(t, b, a, "tcp") // whoever begins
		c := l.bind(l.node(config.Node{}))
		exchange(t, a, c, "xrc")
	})
}

// A peer that connects by the transport that is not the one configured for it has no link.
func TestConfiguredPeerConnectsByAnother(t *testing.T) {
	bubble(t, newMemLab, func(t *testing.T, l *lab) {
		b := l.bindOne(config.Node{Wire: config.WireTCP, ReconnectMax: 20 * time.Millisecond}) // its address is smaller: it dials
		n := l.node(config.Node{PeerWires: map[netip.Addr]config.Wire{b.LocalAddrPort().Addr(): config.WireXRC}})
		a := l.bind(n)
		rdstest.MustSend(t, b, a.LocalAddrPort(), []byte("there"))
		rdstest.Eventually(t, "connections of the peer", func() bool { return rdstest.Report(t, nodeOf(b)).Connections[0].Path[0].Resets > 1 })
		if p := rdstest.Peers(n); p != 0 {
			t.Errorf("%d peers", p)
		}
		rdstest.WantNothing(t, a)
	})
}

// An address on which one of two transports cannot listen has no peers, until both can.
func TestListenAgain(t *testing.T) {
	bubble(t, newMemLab, func(t *testing.T, l *lab) {
		b := l.bindOne(config.Node{Wire: config.WireXRC, ReconnectMax: 20 * time.Millisecond}) // its address is smaller: it dials
		n, at := l.node(config.Node{}), rdstest.AddrOf(rdstest.NewAddr(), 4000)
		taken, err := l.Sockets.Listen(rdstest.AddrOf(at.Addr(), l.Port))
		rdstest.Must(t, err)
		for range 2 {
			_, err = n.Bind(at)
			rdstest.WantErr(t, "bind", err, datagram.ErrAddressInUse)
		}
		rdstest.MustSend(t, b, at, []byte("early"))
		rdstest.Eventually(t, "links of the transport that listens", func() bool { return rdstest.Counter(t, n, "xrc_accepted") > 1 })
		if p := rdstest.Peers(n); p != 0 {
			t.Errorf("%d peers of an address that is not bound", p)
		}
		_ = taken.Close()
		a := l.bind(n, at)
		rdstest.Expect(t, a, "early")
		exchange(t, a, b, "xrc")
		exchange(t, a, l.bindOne(config.Node{Wire: config.WireTCP}), "tcp")
	})
}
