package bench

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/netlink"
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

// physicalMemory is that of a process, in bytes, and what of it is shared memory or
// files; 0 if it is not known.
func physicalMemory(pid int) (resident, shared int64) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, 0
	}
	f := strings.Fields(string(b))
	if len(f) < 3 {
		return 0, 0
	}
	size := int64(os.Getpagesize())
	resident, _ = strconv.ParseInt(f[1], 10, 64)
	shared, _ = strconv.ParseInt(f[2], 10, 64)
	return resident * size, shared * size
}

// establishedTCP are the established TCP connections of this network namespace, each
// end that is here.
func establishedTCP() (list [][2]netip.AddrPort, err error) {
	all, err := netlink.TCP(func(s *netlink.Socket) bool { return s.State == netlink.Established })
	for _, s := range all {
		list = append(list, [2]netip.AddrPort{s.Local, s.Remote})
	}
	return list, err
}

// defaultCongestion is the TCP congestion control of sockets that choose none.
func defaultCongestion() string {
	b, _ := os.ReadFile("/proc/sys/net/ipv4/tcp_congestion_control")
	return strings.TrimSpace(string(b))
}

// cutConnections shuts down TCP connections of this process, behind the back of
// whoever has them: every second one, at least one. Half of them end with a reset.
func cutConnections() (int, error) {
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0, err
	}
	n := 0
	for i, d := range dir {
		fd, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		if n > 0 && i%2 == 0 || !inUse(fd) {
			continue
		}
		if i%4 < 2 {
			_ = syscall.SetsockoptLinger(fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
		}
		if syscall.Shutdown(fd, syscall.SHUT_RDWR) == nil { // Otherwise the connection has just ended by itself.
			n++
		}
	}
	return n, nil
}

// inUse tells whether a descriptor is a TCP connection that has sent something. One that
// has not may still be waited for: whoever connects would not see that it has ended,
// and wait for as long as an attempt may take.
func inUse(fd int) bool {
	peer, err := syscall.Getpeername(fd)
	if _, ok := peer.(*syscall.SockaddrInet4); err != nil || !ok {
		return false
	}
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	return err == nil && info.Bytes_sent > 0
}
