//go:build !live

package peer

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"
)

func TestDestroyOfNoConnection(t *testing.T) {
	none := TCPConn{Local: netip.MustParseAddrPort("192.0.2.1:16385"), Remote: netip.MustParseAddrPort("192.0.2.2:1")}
	if err := destroy(none); !errors.Is(err, syscall.ENOENT) {
		t.Skipf("needs the kernel's socket monitor, and root (modprobe tcp_diag): %v", err)
	}
}
