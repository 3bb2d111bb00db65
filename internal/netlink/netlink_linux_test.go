//go:build !live

package netlink

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestDiagOfV4MappedConnection(t *testing.T) {
	t.Parallel()
	b := make([]byte, sizeofDiagMsg)
	b[0], b[1] = unix.AF_INET6, Established
	copy(b[4:], []byte{0x40, 0x01, 0xc0, 0x00}) // ports 16385 and 49152
	local, remote := netip.MustParseAddr("::ffff:10.77.0.2").As16(), netip.MustParseAddr("::ffff:10.77.0.1").As16()
	copy(b[8:], local[:])
	copy(b[24:], remote[:])
	s, err := parseDiag(b)
	if err != nil || s.Local != netip.MustParseAddrPort("10.77.0.2:16385") || s.Remote != netip.MustParseAddrPort("10.77.0.1:49152") || s.State != Established {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestNetlinkLengthsAreChecked(t *testing.T) {
	t.Parallel()
	done := header(nil, 0, unix.NLMSG_DONE, 0)
	if ok, err := messages(done, nil); !ok || err != nil {
		t.Errorf("end of a dump: %v, %v", ok, err)
	}
	for _, size := range []byte{0, unix.SizeofNlMsghdr - 1, unix.SizeofNlMsghdr + 1} {
		done[0] = size
		if _, err := messages(done, nil); err != errMalformed {
			t.Errorf("length %d: %v", size, err)
		}
	}
	if _, err := parseDiag(make([]byte, sizeofDiagMsg-1)); err != errMalformed {
		t.Errorf("short answer: %v", err)
	}
}

func TestDestroyOfNoConnection(t *testing.T) {
	t.Parallel()
	none := Socket{family: unix.AF_INET}
	if err := none.Destroy(); !errors.Is(err, syscall.ENOENT) {
		t.Skipf("needs the kernel's socket monitor, and root (modprobe tcp_diag): %v", err)
	}
	if err := CanDestroy(); err != nil {
		t.Error(err)
	}
}
