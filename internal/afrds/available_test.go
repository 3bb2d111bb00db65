//go:build !live

package afrds

import (
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"
)

func TestAbsenceIsTold(t *testing.T) {
	err := Available()
	if err == nil {
		t.Skip("needs a kernel without RDS (rmmod rds)")
	}
	if !errors.Is(err, ErrNotAvailable) || !errors.Is(err, syscall.EAFNOSUPPORT) {
		t.Errorf("%v is not both ErrNotAvailable and EAFNOSUPPORT", err)
	}
	if !strings.Contains(err.Error(), "no AF_RDS sockets") {
		t.Errorf("unclear message: %v", err)
	}
	if _, err := Listen(netip.MustParseAddrPort("127.0.0.1:4000")); !errors.Is(err, ErrNotAvailable) {
		t.Errorf("Listen: %v", err)
	}
}
