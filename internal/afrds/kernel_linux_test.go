//go:build live

package afrds

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"testing"
	"time"
)

// The tests below need a kernel with RDS; test/interop runs them in a virtual
// machine that has one. Both ends are sockets of this host, which the kernel
// joins in memory (net/rds/loop.c).

var localhost = netip.MustParseAddr("127.0.0.1")

const patience = 20 * time.Second // the machine may be emulated

func listenKernel(t *testing.T) (*Conn, netip.AddrPort) {
	t.Helper()
	if err := Available(); err != nil {
		t.Skipf("needs RDS in the kernel (modprobe rds_tcp; test/interop boots one): %v", err)
	}
	c, err := Listen(netip.AddrPortFrom(localhost, 0))
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	addr, err := c.LocalAddrPort()
	if err != nil || addr.Addr() != localhost || addr.Port() == 0 {
		t.Fatalf("bound to %v, %v", addr, err)
	}
	must(t, c.SetDeadline(time.Now().Add(patience)))
	return c, addr
}

func TestKernelDeliversInOrder(t *testing.T) {
	a, from := listenKernel(t)
	b, to := listenKernel(t)
	for i := range 100 {
		if _, err := a.SendTo(fmt.Appendf(nil, "message %d", i), to, 0); err != nil {
			t.Fatal(err)
		}
	}
	buf := make([]byte, 64)
	for i := range 100 {
		r, err := b.RecvFrom(buf, 0)
		if err != nil || r.From != from || string(buf[:r.N]) != fmt.Sprintf("message %d", i) {
			t.Fatalf("message %d: %q, %+v, %v", i, buf[:r.N], r, err)
		}
	}
}

func TestKernelPeekAndTrunc(t *testing.T) {
	a, _ := listenKernel(t)
	b, to := listenKernel(t)
	msg := bytes.Repeat([]byte("x"), 1000)
	if _, err := a.SendTo(msg, to, 0); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	if r, err := b.RecvFrom(buf, MsgPeek|MsgTrunc); err != nil || r.N != 1000 || !r.Truncated {
		t.Errorf("peek: %+v, %v", r, err)
	}
	if r, err := b.RecvFrom(buf, 0); err != nil || r.N != 100 || !r.Truncated {
		t.Errorf("short read: %+v, %v", r, err)
	}
	if _, err := b.RecvFrom(buf, MsgDontWait); !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("the rest of a truncated message is still there: %v", err)
	}
}

func TestKernelAnswersPing(t *testing.T) {
	a, _ := listenKernel(t)
	host := netip.AddrPortFrom(localhost, 0)
	if _, err := a.SendTo(nil, host, 0); err != nil {
		t.Fatal(err)
	}
	if r, err := a.RecvFrom(nil, 0); err != nil || r.N != 0 || r.From != host {
		t.Errorf("pong: %+v, %v", r, err)
	}
}

func TestKernelErrnos(t *testing.T) {
	a, addr := listenKernel(t)
	unbound, err := Open()
	must(t, err)
	defer func() { _ = unbound.Close() }()
	send := func(c *Conn, n int, to netip.AddrPort) error {
		_, err := c.SendTo(make([]byte, n), to, 0)
		return err
	}
	bind := func(s string) error {
		c, err := Listen(netip.MustParseAddrPort(s))
		if err == nil {
			_ = c.Close()
		}
		return err
	}
	for _, c := range []struct {
		name string
		err  error
		want syscall.Errno
	}{
		{"send on an unbound socket", send(unbound, 1, addr), syscall.ENOTCONN},
		{"send with no destination", send(a, 1, netip.AddrPort{}), syscall.ENOTCONN},
		{"send over 1 MiB", send(a, 1<<20+1, addr), syscall.EMSGSIZE},
		{"send over the send buffer", send(a, 1<<20, addr), syscall.EMSGSIZE},
		{"bind to a foreign address", bind("192.0.2.1:4000"), syscall.EADDRNOTAVAIL},
		{"bind to a port in use", bind(addr.String()), syscall.EADDRINUSE},
		{"bind to the probe port", bind("127.0.0.1:1"), syscall.EINVAL},
		{"bind again", a.Bind(netip.MustParseAddrPort("127.0.0.1:4001")), syscall.EINVAL},
		{"connect nowhere", a.Connect(netip.MustParseAddrPort("0.0.0.0:1")), syscall.EDESTADDRREQ},
		{"cancel on an unbound socket", unbound.CancelSentTo(addr), syscall.ENOTCONN},
		{"transport after bind", a.SetTransport(TransportTCP), syscall.EOPNOTSUPP},
		{"TOS on an unbound socket", unbound.SetTOS(1), syscall.ENOTTY},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, c.err, c.want)
		}
	}
	if a, err := unbound.LocalAddrPort(); a.IsValid() || err != nil {
		t.Errorf("address of an unbound socket: %v, %v", a, err)
	}
}

func TestKernelOptionsReadBack(t *testing.T) {
	c, addr := listenKernel(t)
	must(t, c.SetRecvErr(true))
	if on, err := c.RecvErr(); !on || err != nil {
		t.Errorf("RecvErr: %v, %v", on, err)
	}
	must(t, errors.Join(c.SetSendBuffer(100_000), c.SetReceiveBuffer(50_000)))
	if n, err := c.SendBuffer(); n != 100_000 || err != nil {
		t.Errorf("send buffer: %d, %v", n, err)
	}
	if n, err := c.ReceiveBuffer(); n != 50_000 || err != nil {
		t.Errorf("receive buffer: %d, %v", n, err)
	}
	must(t, errors.Join(c.Connect(addr), c.CancelSentTo(addr)))
	u, err := Open()
	must(t, err)
	defer func() { _ = u.Close() }()
	if tr, err := u.Transport(); tr != TransportNone || err != nil {
		t.Errorf("transport of an unbound socket: %d, %v", tr, err)
	}
	must(t, u.SetTransport(TransportTCP))
	if tr, err := u.Transport(); tr != TransportTCP || err != nil {
		t.Errorf("transport: %d, %v", tr, err)
	}
}

// TestKernelHasNoCongestionWithin shows that the loop transport never refuses a
// sender (net/rds/recv.c, rds_recv_rcvbuf_delta returns early for it): what is
// full on the same host must be noticed by its user.
func TestKernelHasNoCongestionWithin(t *testing.T) {
	a, _ := listenKernel(t)
	b, to := listenKernel(t)
	must(t, errors.Join(a.SetCongestionMonitor(true), b.SetReceiveBuffer(16<<10)))
	msg := make([]byte, 4<<10)
	for i := range 100 {
		if _, err := a.SendTo(msg, to, MsgDontWait); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
}

func TestKernelReports(t *testing.T) {
	c, addr := listenKernel(t)
	counters, err := c.Counters()
	if err != nil || len(counters) == 0 || counters[0].Name != "conn_reset" {
		t.Errorf("counters: %+v, %v", counters, err)
	}
	sockets, err := c.Sockets()
	found := false
	for _, s := range sockets {
		found = found || s.Bound == addr
	}
	if !found || err != nil {
		t.Errorf("sockets: %+v, %v", sockets, err)
	}
	if _, err := c.SendTo([]byte("x"), addr, 0); err != nil {
		t.Fatal(err)
	}
	queue, err := c.ReceiveQueue()
	if err != nil || len(queue) != 1 || queue[0].Length != 1 {
		t.Errorf("receive queue: %+v, %v", queue, err)
	}
	_, err1 := c.Connections()
	_, err2 := c.SendQueue()
	_, err3 := c.RetransmitQueue()
	_, err4 := c.TCPSockets()
	must(t, errors.Join(err1, err2, err3, err4))
}
