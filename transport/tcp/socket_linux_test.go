package tcp

import (
	"net"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/gnetloop"
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

func TestIPv6(t *testing.T) {
	e := newEnv(t, Options{}, Options{})
	e.AddrA, e.AddrB = netip.IPv6Loopback(), netip.IPv6Loopback()
	if ln, err := net.Listen("tcp6", "[::1]:0"); err != nil {
		t.Skip("needs the address ::1 on the loopback interface: ", err)
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
		KeepAliveCount: 128, UserTimeout: time.Microsecond, Silence: 1, SendBuffer: -1, LocalSendBuffer: -1, ReceiveBuffer: -1,
		Congestion: "0123456789abcdef", DrainTimeout: -1, MaxMessage: 1<<30 + 1,
	}
	err := bad.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, name := range strings.Fields("EventLoops ReadBuffer KeepAliveIdle KeepAliveInterval KeepAliveCount " +
		"UserTimeout Silence SendBuffer LocalSendBuffer ReceiveBuffer Congestion DrainTimeout MaxMessage") {
		if !strings.Contains(err.Error(), name+" ") {
			t.Errorf("%s is not named in %q", name, err)
		}
	}
	if tr, err := New(bad); err == nil || tr != nil {
		t.Error("New accepted them")
	}
}

// everybody is a Gate without a list.
type everybody struct{}

func (everybody) Admits(netip.Addr) bool { return true }
func (everybody) Allows(netip.Addr) bool { return true }
func (everybody) Listed(netip.Addr) bool { return false }

// someNetwork is a Network that nobody opens.
type someNetwork struct{ gnetloop.Network }

// Whatever is set of the lower half reaches it.
func TestOptionsReachTheEngine(t *testing.T) {
	o := Options{
		EventLoops: 1, ReadBuffer: 2, KeepAliveIdle: 3, KeepAliveInterval: 4, KeepAliveCount: 5, UserTimeout: 6, Silence: 10,
		SendBuffer: 7, LocalSendBuffer: 11, ReceiveBuffer: 8, Congestion: "reno", DrainTimeout: 9, Gate: everybody{}, Network: someNetwork{}, Inherited: new(gnetloop.Inheritance), Loops: new(gnetloop.Loops), Sharing: new(gnetloop.Sharing), Logger: zap.NewNop(),
	}
	from, to := reflect.ValueOf(o), reflect.ValueOf(o.engine())
	for i := range to.NumField() {
		name := to.Type().Field(i).Name
		if name == "Name" || strings.HasPrefix(name, "HalfOpen") { // these are constant
			continue
		}
		if v := from.FieldByName(name); !v.IsValid() || v.IsZero() || !v.Equal(to.Field(i)) {
			t.Errorf("%s is %v for the engine", name, to.Field(i))
		}
	}
}
