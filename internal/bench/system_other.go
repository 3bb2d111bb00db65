//go:build !linux

package bench

import (
	"errors"
	"net/netip"
	"os/exec"
	"syscall"
)

func setCongestion(syscall.RawConn, string) error {
	return errors.New("choosing the TCP congestion control is not supported on this system")
}

func setBuffers(_ syscall.RawConn, b Buffers) error {
	if b != (Buffers{}) {
		return errors.New("choosing TCP buffers is not supported on this system")
	}
	return nil
}

// dieWithParent does nothing: the child ends when its standard input does.
func dieWithParent(*exec.Cmd) {}

func physicalMemory(int) (resident, shared int64) { return 0, 0 }

func defaultCongestion() string { return "" }

func establishedTCP() ([][2]netip.AddrPort, error) { return nil, errors.ErrUnsupported }

func cutConnections() (int, error) { return 0, errors.ErrUnsupported }
