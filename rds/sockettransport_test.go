package rds

import (
	"errors"
	"math"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/ipc"
)

// What a socket of one application decides counts for all applications and the
// daemon's node, and the other way round.
func TestSetTransportThroughDaemon(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n, _, path := served(t, l, Config{XRC: XRCConfig{Patience: lostPatience}}, ServiceConfig{})
	here := newAddr()
	app, other := bound(t, dialed(t, path), addrOf(here, 100)), bound(t, dialed(t, path), addrOf(here, 101))
	first, second, third := l.bind(l.node(Config{})), l.bind(l.node(Config{})), l.bind(l.node(Config{Wire: WireTCP}))
	reaches := func(from, to *Socket, by string) {
		t.Helper()
		mustSend(t, from, to.LocalAddrPort(), []byte("there"))
		expect(t, to, "there")
		if got, up := transportTo(t, n, to.LocalAddrPort().Addr()); got != by || !up {
			t.Errorf("%v is served by %q, up %v; want %q", to.LocalAddrPort().Addr(), got, up, by)
		}
	}
	refused := func(from, to *Socket) {
		t.Helper()
		wantErr(t, "send", from.Send(background(t), to.LocalAddrPort(), nil), ErrNotSupported, syscall.EOPNOTSUPP)
	}
	if err := app.SetTransport(WireTCP); err != nil {
		t.Fatal(err)
	}
	if err := other.SetTransport(WireXRC); err != nil {
		t.Fatal(err)
	}
	reaches(app, first, "tcp") // although both speak XRC
	refused(other, first)
	reaches(other, second, "xrc")
	refused(app, second)
	node := l.bind(n, addrOf(here, 102))
	reaches(node, third, "tcp")
	refused(other, third)
	reaches(app, third, "tcp")
	reaches(node, first, "tcp")

	// What is known of a peer may change: one that nobody has decided for comes back
	// with TCP alone.
	fourth := l.bind(l.node(Config{}))
	theirs := fourth.LocalAddrPort()
	reaches(node, fourth, "xrc")
	reaches(other, fourth, "xrc")
	refused(app, fourth)
	if err := nodeOf(fourth).Close(); err != nil {
		t.Fatal(err)
	}
	fourth = l.bind(l.node(Config{Wire: WireTCP}), theirs)
	reaches(node, fourth, "tcp")
	refused(other, fourth)
	reaches(app, fourth, "tcp")
}

// A daemon with one transport, and one that cannot be asked.
func TestSetTransportThatTheDaemonLacks(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	_, _, path := served(t, l, Config{Wire: WireTCP}, ServiceConfig{})
	c := dialed(t, path)
	s, far := bound(t, c, addrOf(newAddr(), 100)), l.bind(l.node(Config{}))
	wantErr(t, "XRC", s.SetTransport(WireXRC), ErrNoTransport, syscall.ENOPROTOOPT)
	if err := s.SetTransport(WireTCP); err != nil {
		t.Fatal(err)
	}
	mustSend(t, s, far.LocalAddrPort(), []byte("TCP"))
	expect(t, far, "TCP")

	c.att.welcome.Features = []string{ipc.FeatureRDMA}
	wantErr(t, "an older daemon", s.SetTransport(WireTCP), ErrNotSupported, syscall.EOPNOTSUPP)
	wantErr(t, "a daemon that has become older", s.Send(background(t), far.LocalAddrPort(), nil), ErrNotSupported)
	if err := s.SetTransport(WireAuto); err != nil {
		t.Error(err)
	}
	mustSend(t, s, far.LocalAddrPort(), []byte("any"))
	expect(t, far, "any")
}

// Calls that decide are about a peer of the socket's address and a transport of the
// daemon's; a session that makes others goes on.
func TestDecidingCallsThatAreRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n, _, path := served(t, l, Config{}, ServiceConfig{})
	c := dialed(t, path)
	s, far := bound(t, c, addrOf(newAddr(), 100)), newAddr()
	elsewhere := bound(t, c, addrOf(newAddr(), 100))
	at := func(s *Socket) uint32 {
		r, err := c.att.call(background(t), ipc.Request{Op: ipc.CallResolve, Local: s.LocalAddrPort().Addr(), Remote: far})
		if err != nil {
			t.Fatal(err)
		}
		return r.Peer
	}
	peer, not := at(s), at(elsewhere)
	h := s.ep.(*clientSocket).half.Load()
	for _, q := range []ipc.Request{
		{Peer: peer}, {Peer: peer, Option: "ib"}, {Peer: peer, Option: "xrc+tcp"},
		{Peer: not, Option: "xrc"}, {Peer: 4000, Option: "xrc"}, {Peer: math.MaxUint32, Option: "tcp"},
	} {
		q.Op = ipc.CallAdmit
		if _, err := h.tell(q); err == nil {
			t.Errorf("%+v was taken", q)
		}
	}
	if by := n.serving(s.LocalAddrPort().Addr(), far); by != "" {
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
	if got := c.att.table.Server(int(not)); got != ipc.ServerTCP || n.serving(s.LocalAddrPort().Addr(), far) != "tcp" {
		t.Errorf("the table says %d, the node %q", got, n.serving(s.LocalAddrPort().Addr(), far))
	}
}

// The table tells of an address that has become the host's own.
func TestServerOfAnAddressThatBecomesOwn(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	_, _, path := served(t, l, Config{}, ServiceConfig{})
	c := dialed(t, path)
	s, later := bound(t, c, addrOf(newAddr(), 100)), addrOf(newAddr(), 100)
	if err := s.SetTransport(WireTCP); err != nil {
		t.Fatal(err)
	}
	mustSend(t, s, later, []byte("early"))
	own := bound(t, c, later)
	expect(t, own, "early")
	if err := s.SetTransport(WireXRC); err != nil {
		t.Fatal(err)
	}
	mustSend(t, s, later, []byte("no wire"))
	expect(t, own, "no wire")
}

// The wish outlives the daemon, and so does what the next one knows of it.
func TestSetTransportOutlivesTheDaemon(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := newRestarted(t, l)
	c := r.client(true)
	here := newAddr()
	tcp, xrc := bound(t, c, addrOf(here, 100)), bound(t, c, addrOf(here, 101))
	known, unknown := l.bind(l.node(Config{})), l.bind(l.node(Config{}))
	if err := errors.Join(tcp.SetTransport(WireTCP), xrc.SetTransport(WireXRC)); err != nil {
		t.Fatal(err)
	}
	mustSend(t, tcp, known.LocalAddrPort(), []byte("before"))
	expect(t, known, "before")
	old := tcp.ep.(*clientSocket).half.Load()
	r.stop()
	r.start()
	for _, s := range []*Socket{tcp, xrc} {
		eventually(t, "a new daemon", func() bool {
			h := s.ep.(*clientSocket).half.Load()
			return h != nil && h.t != old.t
		})
		wantErr(t, "the news of it", s.Send(background(t), known.LocalAddrPort(), nil), ErrDaemonLost)
	}
	for _, to := range []*Socket{known, unknown} {
		mustSend(t, tcp, to.LocalAddrPort(), []byte("after"))
		expect(t, to, "after")
		wantErr(t, "by XRC", xrc.Send(background(t), to.LocalAddrPort(), nil), ErrNotSupported)
		if by := r.node.serving(tcp.LocalAddrPort().Addr(), to.LocalAddrPort().Addr()); by != "tcp" {
			t.Errorf("served by %q", by)
		}
	}
}
