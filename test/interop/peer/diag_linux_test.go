package peer

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestDiagOfV4MappedConnection(t *testing.T) {
	b := make([]byte, sizeofDiagMsg)
	b[0], b[1] = unix.AF_INET6, tcpEstablished
	copy(b[4:], []byte{0x40, 0x01, 0xc0, 0x00}) // ports 16385 and 49152
	local, remote := netip.MustParseAddr("::ffff:10.77.0.2").As16(), netip.MustParseAddr("::ffff:10.77.0.1").As16()
	copy(b[8:], local[:])
	copy(b[24:], remote[:])
	c, err := parseDiag(b)
	want := TCPConn{Local: netip.MustParseAddrPort("10.77.0.2:16385"), Remote: netip.MustParseAddrPort("10.77.0.1:49152"), Established: true}
	if err != nil || c.TCPConn != want || c.listener {
		t.Errorf("%+v, %v, want %+v", c.TCPConn, err, want)
	}
}

func TestNetlinkLengthsAreChecked(t *testing.T) {
	done := diagRequest(unix.NLMSG_DONE, 0, 0, nil)[:unix.SizeofNlMsghdr]
	done[0] = unix.SizeofNlMsghdr
	if ok, err := netlinkMessages(done, nil); !ok || err != nil {
		t.Errorf("end of a dump: %v, %v", ok, err)
	}
	for _, size := range []byte{0, unix.SizeofNlMsghdr - 1, unix.SizeofNlMsghdr + 1} {
		done[0] = size
		if _, err := netlinkMessages(done, nil); err != errBadNetlink {
			t.Errorf("length %d: %v", size, err)
		}
	}
	if _, err := parseDiag(make([]byte, sizeofDiagMsg-1)); err != errBadNetlink {
		t.Errorf("short answer: %v", err)
	}
}

func TestDestroyOfNoConnection(t *testing.T) {
	none := TCPConn{Local: netip.MustParseAddrPort("192.0.2.1:16385"), Remote: netip.MustParseAddrPort("192.0.2.2:1")}
	if err := destroy(none); !errors.Is(err, syscall.ENOENT) {
		t.Skipf("needs the kernel's socket monitor, and root (modprobe tcp_diag): %v", err)
	}
}

func TestListenersAreNoConnections(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	at := l.Addr().(*net.TCPAddr).AddrPort()
	for _, listeners := range []bool{false, true} {
		list, err := tcpConns(at.Port(), listeners)
		if err != nil {
			t.Skipf("needs the kernel's socket monitor, and root (modprobe tcp_diag): %v", err)
		}
		if found := slices.ContainsFunc(list, func(c TCPConn) bool { return c.Local == at }); found != listeners {
			t.Errorf("listeners %v: %v", listeners, list)
		}
	}
}
