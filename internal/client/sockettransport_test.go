//go:build live

package client

import (
	"errors"
	"math"
	"net/netip"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// What a socket of one application decides counts for all applications and the
// daemon's node, and the other way round.
func TestSetTransportThroughDaemon(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n, _, path := served(t, l, config.Node{XRC: config.XRC{Patience: rdstest.LostPatience}}, config.Service{})
	here := rdstest.NewAddr()
	app, other := bound(t, dialed(t, path), rdstest.AddrOf(here, 100)), bound(t, dialed(t, path), rdstest.AddrOf(here, 101))
	first, second, third := l.bind(l.node(config.Node{})), l.bind(l.node(config.Node{})), l.bind(l.node(config.Node{Wire: config.WireTCP}))
	reaches := func(from, to *socket.Socket, by string) {
		t.Helper()
		rdstest.MustSend(t, from, to.LocalAddrPort(), []byte("there"))
		rdstest.Expect(t, to, "there")
		if got, up := rdstest.TransportTo(t, n, to.LocalAddrPort().Addr()); got != by || !up {
			t.Errorf("%v is served by %q, up %v; want %q", to.LocalAddrPort().Addr(), got, up, by)
		}
	}
	refused := func(from, to *socket.Socket) {
		t.Helper()
		rdstest.WantErr(t, "send", from.Send(rdstest.Background(t), to.LocalAddrPort(), nil), datagram.ErrNotSupported, syscall.EOPNOTSUPP)
	}
	rdstest.Must(t, app.SetTransport(config.WireTCP))
	rdstest.Must(t, other.SetTransport(config.WireXRC))
	reaches(app, first, "tcp") // although both speak XRC
	refused(other, first)
	reaches(other, second, "xrc")
	refused(app, second)
	node := l.bind(n, rdstest.AddrOf(here, 102))
	reaches(node, third, "tcp")
	refused(other, third)
	reaches(app, third, "tcp")
	reaches(node, first, "tcp")

	// What is known of a peer may change: one that nobody has decided for comes back
	// with TCP alone.
	fourth := l.bind(l.node(config.Node{}))
	theirs := fourth.LocalAddrPort()
	reaches(node, fourth, "xrc")
	reaches(other, fourth, "xrc")
	refused(app, fourth)
	rdstest.Must(t, nodeOf(fourth).Close())
	fourth = l.bind(l.node(config.Node{Wire: config.WireTCP}), theirs)
	reaches(node, fourth, "tcp")
	refused(other, fourth)
	reaches(app, fourth, "tcp")
}

// A daemon with one transport, and one that cannot be asked.
func TestSetTransportThatTheDaemonLacks(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	_, _, path := served(t, l, config.Node{Wire: config.WireTCP}, config.Service{})
	c := dialed(t, path)
	s, far := bound(t, c, rdstest.AddrOf(rdstest.NewAddr(), 100)), l.bind(l.node(config.Node{}))
	rdstest.WantErr(t, "XRC", s.SetTransport(config.WireXRC), datagram.ErrNoTransport, syscall.ENOPROTOOPT)
	rdstest.Must(t, s.SetTransport(config.WireTCP))
	rdstest.MustSend(t, s, far.LocalAddrPort(), []byte("TCP"))
	rdstest.Expect(t, far, "TCP")

	c.att.welcome.Features = []string{ipc.FeatureRDMA}
	rdstest.WantErr(t, "an older daemon", s.SetTransport(config.WireTCP), datagram.ErrNotSupported, syscall.EOPNOTSUPP)
	rdstest.WantErr(t, "a daemon that has become older", s.Send(rdstest.Background(t), far.LocalAddrPort(), nil), datagram.ErrNotSupported)
	rdstest.NoError(t, s.SetTransport(config.WireAuto))
	rdstest.MustSend(t, s, far.LocalAddrPort(), []byte("any"))
	rdstest.Expect(t, far, "any")
}

// servedBy is the transport that a node reports for a peer.
func servedBy(t *testing.T, n *node.Node, local, remote netip.Addr) string {
	t.Helper()
	for _, c := range rdstest.Report(t, n).Connections {
		if c.Local == local && c.Remote == remote {
			return c.Transport
		}
	}
	t.Fatalf("no connection from %v to %v is reported", local, remote)
	return ""
}

// Calls that decide are about a peer of the socket's address and a transport of the
// daemon's; a session that makes others goes on.
func TestDecidingCallsThatAreRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n, _, path := served(t, l, config.Node{}, config.Service{})
	c := dialed(t, path)
	s, far := bound(t, c, rdstest.AddrOf(rdstest.NewAddr(), 100)), rdstest.NewAddr()
	elsewhere := bound(t, c, rdstest.AddrOf(rdstest.NewAddr(), 100))
	at := func(s *socket.Socket) uint32 {
		r, err := c.att.call(rdstest.Background(t), ipc.Request{Op: ipc.CallResolve, Local: s.LocalAddrPort().Addr(), Remote: far})
		rdstest.Must(t, err)
		return r.Peer
	}
	peer, not := at(s), at(elsewhere)
	h := s.Endpoint.(*Socket).half.Load()
	for _, q := range []ipc.Request{
		{Peer: peer}, {Peer: peer, Option: "ib"}, {Peer: peer, Option: "xrc+tcp"},
		{Peer: not, Option: "xrc"}, {Peer: 4000, Option: "xrc"}, {Peer: math.MaxUint32, Option: "tcp"},
	} {
		q.Op = ipc.CallAdmit
		if _, err := h.tell(q); err == nil {
			t.Errorf("%+v was taken", q)
		}
	}
	if by := servedBy(t, n, s.LocalAddrPort().Addr(), far); by != "" {
		t.Errorf("served by %q", by)
	}
	for range 2 {
		if _, err := h.tell(ipc.Request{Op: ipc.CallAdmit, Peer: peer, Option: "tcp"}); err != nil {
			t.Error(err)
		}
	}
	if _, err := h.tell(ipc.Request{Op: ipc.CallAdmit, Peer: peer, Option: "xrc"}); err == nil {
		t.Error("a host has two transports")
	}
	if got := c.att.table.Server(int(not)); got != ipc.ServerTCP || servedBy(t, n, s.LocalAddrPort().Addr(), far) != "tcp" {
		t.Errorf("the table says %d, the node %q", got, servedBy(t, n, s.LocalAddrPort().Addr(), far))
	}
}

// The table tells of an address that has become the host's own.
func TestServerOfAnAddressThatBecomesOwn(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	_, _, path := served(t, l, config.Node{}, config.Service{})
	c := dialed(t, path)
	s, later := bound(t, c, rdstest.AddrOf(rdstest.NewAddr(), 100)), rdstest.AddrOf(rdstest.NewAddr(), 100)
	rdstest.Must(t, s.SetTransport(config.WireTCP))
	rdstest.MustSend(t, s, later, []byte("early"))
	own := bound(t, c, later)
	rdstest.Expect(t, own, "early")
	rdstest.Must(t, s.SetTransport(config.WireXRC))
	rdstest.MustSend(t, s, later, []byte("no wire"))
	rdstest.Expect(t, own, "no wire")
}

// The wish outlives the daemon, and so does what the next one knows of it.
func TestSetTransportOutlivesTheDaemon(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := newRestarted(t, l)
	c := r.client(true)
	here := rdstest.NewAddr()
	tcp, xrc := bound(t, c, rdstest.AddrOf(here, 100)), bound(t, c, rdstest.AddrOf(here, 101))
	known, unknown := l.bind(l.node(config.Node{})), l.bind(l.node(config.Node{}))
	rdstest.Must(t, errors.Join(tcp.SetTransport(config.WireTCP), xrc.SetTransport(config.WireXRC)))
	rdstest.MustSend(t, tcp, known.LocalAddrPort(), []byte("before"))
	rdstest.Expect(t, known, "before")
	old := tcp.Endpoint.(*Socket).half.Load()
	r.stop()
	r.start()
	for _, s := range []*socket.Socket{tcp, xrc} {
		rdstest.Eventually(t, "a new daemon", func() bool {
			h := s.Endpoint.(*Socket).half.Load()
			return h != nil && h.att != old.att
		})
		rdstest.WantErr(t, "the news of it", s.Send(rdstest.Background(t), known.LocalAddrPort(), nil), datagram.ErrDaemonLost)
	}
	for _, to := range []*socket.Socket{known, unknown} {
		rdstest.MustSend(t, tcp, to.LocalAddrPort(), []byte("after"))
		rdstest.Expect(t, to, "after")
		rdstest.WantErr(t, "by XRC", xrc.Send(rdstest.Background(t), to.LocalAddrPort(), nil), datagram.ErrNotSupported)
		if by := servedBy(t, r.node, tcp.LocalAddrPort().Addr(), to.LocalAddrPort().Addr()); by != "tcp" {
			t.Errorf("served by %q", by)
		}
	}
}
