//go:build live

package netlink

import (
	"errors"
	"net"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Both ends of a connection are listed, the listener as such; destroying one end resets the other.
func TestConnectionIsListedAndDestroyed(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	d, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	at := l.Addr().(*net.TCPAddr).AddrPort()
	// An earlier connection to the same port may still be waiting for its time to pass.
	list, err := TCP(func(s *Socket) bool { return s.State != unix.BPF_TCP_TIME_WAIT && (s.Local == at || s.Remote == at) })
	if err != nil {
		t.Skipf("needs the kernel's socket monitor (modprobe tcp_diag): %v", err)
	}
	slices.SortFunc(list, func(a, b Socket) int { return int(a.State) - int(b.State) })
	if len(list) != 3 || list[0].State != Established || list[1].State != Established || list[2].State != Listen || list[0].Local != list[1].Remote {
		t.Fatalf("%+v", list)
	}
	if err := list[0].Destroy(); errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EOPNOTSUPP) {
		t.Skipf("needs root, and a kernel with CONFIG_INET_DIAG_DESTROY: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{c, d} {
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNABORTED) && !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
	}
}

func TestQdiscsOfLoopback(t *testing.T) {
	t.Parallel()
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	if kinds, err := Qdiscs(lo.Index); err != nil || len(kinds) == 0 {
		t.Errorf("%q, %v", kinds, err)
	}
}
