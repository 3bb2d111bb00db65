package bench

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// setCongestion chooses the TCP congestion control of a socket; accepted
// connections have their listener's.
func setCongestion(c syscall.RawConn, name string) error {
	var err error
	if e := c.Control(func(fd uintptr) {
		err = syscall.SetsockoptString(int(fd), syscall.IPPROTO_TCP, syscall.TCP_CONGESTION, name)
	}); e != nil {
		return e
	}
	if err != nil {
		return fmt.Errorf("TCP congestion control %q: %w", name, os.NewSyscallError("setsockopt", err))
	}
	return nil
}

// setBuffers fixes the buffers of a socket that were asked for.
func setBuffers(c syscall.RawConn, b Buffers) error {
	var err error
	set := func(fd uintptr, opt, n int) {
		if n > 0 && err == nil {
			err = os.NewSyscallError("setsockopt", syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, opt, n))
		}
	}
	if e := c.Control(func(fd uintptr) {
		set(fd, syscall.SO_SNDBUF, b.Send)
		set(fd, syscall.SO_RCVBUF, b.Receive)
	}); e != nil {
		return e
	}
	return err
}

// dieWithParent has the kernel kill the child when this process ends in
// whatever way.
func dieWithParent(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// residentBytes is the physical memory of this process.
func residentBytes() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(f[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// defaultCongestion is the TCP congestion control of sockets that choose none.
func defaultCongestion() string {
	b, _ := os.ReadFile("/proc/sys/net/ipv4/tcp_congestion_control")
	return strings.TrimSpace(string(b))
}
