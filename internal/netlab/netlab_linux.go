package netlab

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

var count atomic.Int32

// Host is a network namespace with an interface "eth0".
type Host struct {
	t    *testing.T
	Name string     // as "ip netns" knows it
	IP4  netip.Addr // of eth0
	IP6  netip.Addr // of eth0
}

// Root skips a test that is not run by root, who may make namespaces and load programs.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make network namespaces and to load programs into the kernel")
	}
	for _, program := range []string{"ip", "nsenter"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs the program %s (iproute2, util-linux), to make network namespaces", program)
		}
	}
}

// Pair makes two hosts with a link between them: 10.99.0.1 and fd99::1, 10.99.0.2 and fd99::2.
func Pair(t *testing.T) (a, b *Host) {
	t.Helper()
	hosts := Hosts(t, 2)
	return hosts[0], hosts[1]
}

// Hosts makes hosts 10.99.0.1, 10.99.0.2 and so on, and fd99::1, fd99::2 and so on. Two have a
// link between them; more have a bridge in a namespace of its own.
func Hosts(t *testing.T, n int) []*Host {
	t.Helper()
	Root(t)
	hosts := make([]*Host, n)
	for i := range hosts {
		hosts[i] = newHost(t)
		hosts[i].IP4 = netip.AddrFrom4([4]byte{10, 99, 0, byte(i + 1)})
		hosts[i].IP6 = netip.MustParseAddr(fmt.Sprintf("fd99::%x", i+1))
	}
	if n == 2 {
		hosts[0].Run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", hosts[1].Name)
	} else {
		bridge := newHost(t)
		bridge.Run("ip", "link", "add", "br0", "type", "bridge")
		bridge.Run("ip", "link", "set", "br0", "up")
		for i, h := range hosts {
			port := fmt.Sprintf("p%d", i+1)
			h.Run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", bridge.Name)
			bridge.Run("ip", "link", "set", port, "master", "br0", "up")
		}
	}
	for _, h := range hosts {
		h.Run("ip", "address", "add", h.IP4.String()+"/16", "dev", "eth0")
		h.Run("ip", "address", "add", h.IP6.String()+"/64", "dev", "eth0", "nodad")
		h.Run("ip", "link", "set", "eth0", "up")
	}
	return hosts
}

func newHost(t *testing.T) *Host {
	t.Helper()
	h := &Host{t: t, Name: fmt.Sprintf("rds-netlab-%d-%d", os.Getpid(), count.Add(1))}
	if out, err := exec.Command("ip", "netns", "add", h.Name).CombinedOutput(); err != nil {
		t.Skipf("needs CAP_SYS_ADMIN, to make a network namespace: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", h.Name).Run() })
	h.Run("ip", "link", "set", "lo", "up")
	return h
}

// Netns is the file of the host's network namespace.
func (h *Host) Netns() string { return "/run/netns/" + h.Name }

// Args is a command line that runs a program on the host. Unlike "ip netns exec", it leaves
// /sys as it is, with the BPF file system and control groups in it.
func (h *Host) Args(args ...string) []string {
	return append([]string{"nsenter", "--net=" + h.Netns(), "--"}, args...)
}

// Command is a program to run on the host.
func (h *Host) Command(args ...string) *exec.Cmd {
	args = h.Args(args...)
	return exec.Command(args[0], args[1:]...)
}

// Run runs a program on the host to its end. It fails the test if the program fails.
func (h *Host) Run(args ...string) string {
	h.t.Helper()
	out, err := h.Command(args...).CombinedOutput()
	if err != nil {
		h.t.Fatalf("%v on %s: %v: %s", args, h.Name, err, out)
	}
	return string(out)
}

// Do runs f on a thread that is on the host. Sockets that f makes are the host's, also
// afterwards. f must not start goroutines that make sockets, nor end the test.
func (h *Host) Do(f func()) {
	h.t.Helper()
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // and not unlocked: the thread ends with the goroutine
		ns, err := os.Open(h.Netns())
		if err == nil {
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
			ns.Close()
		}
		if err == nil {
			f()
		}
		failed <- err
	}()
	if err := <-failed; err != nil {
		h.t.Fatalf("namespace %s: %v", h.Name, err)
	}
}

// BPFFS mounts a BPF file system of the test's own and returns its directory.
func BPFFS(t *testing.T) string {
	t.Helper()
	Root(t)
	dir := filepath.Join(t.TempDir(), "bpf")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("bpf", dir, "bpf", 0, ""); err != nil {
		t.Skipf("needs CAP_SYS_ADMIN, to mount a BPF file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}
