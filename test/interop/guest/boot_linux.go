package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/test/interop/peer"
)

// Places the image builder fills.
const (
	moduleDir  = "/modules"       // the kernel modules
	moduleList = "/modules/order" // their file names, one a line, in order of loading
)

// socketMemory is the largest socket buffer the tests ask for.
const socketMemory = "16777216"

// boot does what an init system would: file systems, modules, the network. The
// machine's address comes from the kernel command line, guest_ip=ADDR/BITS,
// which Linux hands to the first process as environment.
func boot() error {
	for _, m := range []struct{ kind, dir string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/tmp"},
		{"bpf", "/sys/fs/bpf"}, {"cgroup2", "/sys/fs/cgroup"},
	} {
		if err := unix.Mount(m.kind, m.dir, m.kind, 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.dir, err)
		}
	}
	if err := os.Setenv("PATH", "/bin"); err != nil { // the kernel gives none
		return err
	}
	order, err := os.ReadFile(moduleList)
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(order)) {
		if err := loadModule(filepath.Join(moduleDir, name)); err != nil {
			return fmt.Errorf("module %s: %w", name, err)
		}
	}
	for _, name := range []string{"wmem_max", "rmem_max"} {
		if err := os.WriteFile("/proc/sys/net/core/"+name, []byte(socketMemory), 0); err != nil {
			return err
		}
	}
	prefix, err := netip.ParsePrefix(os.Getenv("guest_ip"))
	if err != nil {
		return err
	}
	if err := linkUp("lo", netip.Prefix{}); err != nil {
		return err
	}
	if err := linkUp("eth0", prefix); err != nil {
		return err
	}
	// A second address, for what needs two hosts in one machine.
	return linkUp("eth0:1", netip.PrefixFrom(peer.SecondAddr(prefix.Addr()), prefix.Bits()))
}

func loadModule(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

// linkUp gives a network device an IPv4 address, if prefix is valid, and
// switches it on.
func linkUp(name string, prefix netip.Prefix) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if prefix.IsValid() {
		mask := binary.BigEndian.AppendUint32(nil, ^uint32(0)<<(32-prefix.Bits()))
		if err := linkIoctl(fd, name, unix.SIOCSIFADDR, inetAddr(prefix.Addr().AsSlice())); err != nil {
			return err
		}
		if err := linkIoctl(fd, name, unix.SIOCSIFNETMASK, inetAddr(mask)); err != nil {
			return err
		}
	}
	return linkIoctl(fd, name, unix.SIOCSIFFLAGS, binary.NativeEndian.AppendUint16(nil, unix.IFF_UP|unix.IFF_RUNNING))
}

// inetAddr is a struct sockaddr_in with port 0.
func inetAddr(addr []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, unix.AF_INET)
	b = append(b, 0, 0)
	return append(b, addr...)
}

// linkIoctl runs one ioctl of netdevice(7): a struct ifreq is the name in 16
// bytes and then the value.
func linkIoctl(fd int, name string, request uintptr, value []byte) error {
	var ifreq [40]byte
	copy(ifreq[:unix.IFNAMSIZ-1], name)
	copy(ifreq[unix.IFNAMSIZ:], value)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(&ifreq))); errno != 0 {
		return fmt.Errorf("device %s, ioctl %#x: %w", name, request, errno)
	}
	return nil
}

// openControl opens the virtio port named control.
func openControl() (*os.File, error) {
	names, err := filepath.Glob("/sys/class/virtio-ports/*/name")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if b, err := os.ReadFile(name); err == nil && strings.TrimSpace(string(b)) == "control" {
			return os.OpenFile(filepath.Join("/dev", filepath.Base(filepath.Dir(name))), os.O_RDWR, 0)
		}
	}
	return nil, errors.New("no virtio port named control")
}
