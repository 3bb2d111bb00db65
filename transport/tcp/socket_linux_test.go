package tcp

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/transport"
)

func TestSourcePortTellsPath(t *testing.T) {
	e := newEnv(t, Options{Seed: 1}, Options{})
	e.Accepted(t)
	for path := range pathModulus {
		for range 5 {
			l, err := e.A.Dial(t.Context(), e.AddrA, e.AddrB, path)
			if err != nil {
				t.Fatal(err)
			}
			if p := l.LocalAddr().Port(); int(p)%pathModulus != path {
				t.Errorf("path %d has source port %d", path, p)
			}
			l.Close(transport.Abort)
		}
	}
}

func TestSourcePortFallsBack(t *testing.T) {
	a, b := newTransport(t, Options{}), newTransport(t, Options{})
	local, remote := newAddr(), newAddr()
	if err := b.Listen(remote, func(l transport.Link) { l.Close(transport.Drain) }); err != nil {
		t.Fatal(err)
	}
	busy, err := net.Listen("tcp4", netip.AddrPortFrom(local, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	// The one port that may be chosen is taken.
	port := int(busy.Addr().(*net.TCPAddr).Port)
	a.lowPort, a.highPort = port, port
	l, err := a.Dial(t.Context(), local, remote, port%pathModulus)
	if err != nil {
		t.Fatal(err)
	}
	if int(l.LocalAddr().Port()) == port {
		t.Error("two sockets on one port")
	}
	l.Close(transport.Abort)
	if p := a.sourcePort((port + 1) % pathModulus); p != 0 {
		t.Errorf("port %d is outside the range", p)
	}
}

func TestSocketOptionsAreSet(t *testing.T) {
	o := Options{
		KeepAliveIdle: 7 * time.Second, KeepAliveInterval: 3 * time.Second, KeepAliveCount: 4,
		UserTimeout: 1500 * time.Millisecond, SendBuffer: 50000, ReceiveBuffer: 60000, Congestion: "reno",
	}
	for _, tt := range []struct {
		name string
		o    Options
		want map[[2]int]int
	}{
		{"defaults", Options{}, map[[2]int]int{
			{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE}: 5, {unix.IPPROTO_TCP, unix.TCP_KEEPINTVL}: 5,
			{unix.IPPROTO_TCP, unix.TCP_KEEPCNT}: 5, {unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT}: 0,
		}},
		{"chosen", o, map[[2]int]int{
			{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE}: 7, {unix.IPPROTO_TCP, unix.TCP_KEEPINTVL}: 3,
			{unix.IPPROTO_TCP, unix.TCP_KEEPCNT}: 4, {unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT}: 1500,
			{unix.SOL_SOCKET, unix.SO_SNDBUF}: 100000, {unix.SOL_SOCKET, unix.SO_RCVBUF}: 120000,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newEnv(t, tt.o, tt.o)
			p := e.Connect(t)
			tt.want[[2]int{unix.IPPROTO_TCP, unix.TCP_NODELAY}] = 1
			tt.want[[2]int{unix.SOL_SOCKET, unix.SO_KEEPALIVE}] = 1
			for _, l := range []*link{p.A.Link.(*link), p.B.Link.(*link)} {
				for opt, want := range tt.want {
					if got, err := unix.GetsockoptInt(l.fd, opt[0], opt[1]); err != nil || got != want {
						t.Errorf("option %v is %d, expected %d (%v)", opt, got, want, err)
					}
				}
				if name, err := unix.GetsockoptString(l.fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION); tt.o.Congestion != "" &&
					(err != nil || strings.TrimRight(name, "\x00") != tt.o.Congestion) {
					t.Errorf("congestion control %q, %v", name, err)
				}
			}
		})
	}
}

// watchLog returns a logger and what it logs.
func watchLog() (*zap.Logger, <-chan zapcore.Entry) {
	entries := make(chan zapcore.Entry, 100)
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{}), zapcore.AddSync(discard{}), zap.InfoLevel)
	return zap.New(core, zap.Hooks(func(e zapcore.Entry) error { entries <- e; return nil })), entries
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// A congestion control that the system does not have is refused at once: later
// it would fail every dial, and a node would wait for peers for ever.
func TestUnknownCongestionControl(t *testing.T) {
	if tr, err := New(Options{Congestion: "nosuch"}); !errors.Is(err, unix.ENOENT) || tr != nil {
		t.Errorf("New: %v, %v", tr, err)
	}
}

// What a socket holds unsent is bounded, towards this host its buffers are
// small; what the options fix stays as they say.
func TestUnsentIsBounded(t *testing.T) {
	for _, c := range []struct {
		opts     Options
		snd, rcv int
	}{
		{Options{}, 2 * hereSendBuffer, 2 * hereReceiveBuffer},
		{Options{SendBuffer: 300000, ReceiveBuffer: 200000}, 600000, 400000},
	} {
		p := newEnv(t, c.opts, c.opts).Connect(t)
		for _, tl := range []transport.Link{p.A.Link, p.B.Link} {
			l := tl.(*link)
			for _, o := range []struct{ level, opt, want int }{
				{unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsentMost},
				{unix.SOL_SOCKET, unix.SO_SNDBUF, c.snd},
				{unix.SOL_SOCKET, unix.SO_RCVBUF, c.rcv},
			} {
				if got, err := unix.GetsockoptInt(l.fd, o.level, o.opt); err != nil || got != o.want {
					t.Errorf("option %d: %d, want %d, %v", o.opt, got, o.want, err)
				}
			}
		}
	}
	if onThisHost(netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("203.0.113.7")) {
		t.Error("203.0.113.7 is not of this host")
	}
}

func TestIPv6(t *testing.T) {
	e := newEnv(t, Options{}, Options{})
	e.AddrA, e.AddrB = netip.IPv6Loopback(), netip.IPv6Loopback()
	if ln, err := net.Listen("tcp6", "[::1]:0"); err != nil {
		t.Skip("no IPv6 here: ", err)
	} else {
		_ = ln.Close()
	}
	p := e.Connect(t)
	p.A.Send(t, 10)
	p.RecB.WaitMessages(t, 1)
	if a := p.B.Link.RemoteAddr().Addr(); a != netip.IPv6Loopback() {
		t.Errorf("remote address %v", a)
	}
}

func TestOptionsValidate(t *testing.T) {
	if err := (Options{}).Validate(); err != nil {
		t.Errorf("the zero Options: %v", err)
	}
	bad := Options{
		EventLoops: -1, ReadBuffer: 100, KeepAliveIdle: time.Millisecond, KeepAliveInterval: -time.Second,
		KeepAliveCount: 128, UserTimeout: time.Microsecond, SendBuffer: -1, ReceiveBuffer: -1,
		Congestion: "0123456789abcdef", DrainTimeout: -1, MaxMessage: 1<<30 + 1,
	}
	err := bad.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, name := range strings.Fields("EventLoops ReadBuffer KeepAliveIdle KeepAliveInterval KeepAliveCount " +
		"UserTimeout SendBuffer ReceiveBuffer Congestion DrainTimeout MaxMessage") {
		if !strings.Contains(err.Error(), name+" ") {
			t.Errorf("%s is not named in %q", name, err)
		}
	}
	if tr, err := New(bad); err == nil || tr != nil {
		t.Error("New accepted them")
	}
}
