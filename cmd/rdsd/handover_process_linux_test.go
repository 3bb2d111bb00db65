//go:build live

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/ebpf"
	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/netlab"
	"github.com/rds-go/rds/internal/rdstest"
)

// steered is two hosts: b has the addresses of 10.200.0.0/20 by a route and a handover that is
// pinned for a user without capabilities; a reaches them.
type steered struct {
	*testing.T
	a, b *netlab.Host
	pins string
	tmp  string
}

// nobodyID is the user that the daemons run as.
const nobodyID = 65534

func newSteered(t *testing.T) *steered {
	t.Helper()
	s := &steered{T: t}
	s.a, s.b = netlab.Pair(t)
	s.b.Run("ip", "route", "add", "local", "10.200.0.0/20", "dev", "lo")
	s.a.Run("ip", "route", "add", "10.200.0.0/20", "via", s.b.IP4.String())
	fs := netlab.BPFFS(t)
	for d := fs; len(d) > len(os.TempDir()); d = filepath.Dir(d) { // t.TempDir is root's alone
		must(t, os.Chmod(d, 0o755))
	}
	s.pins, s.tmp = filepath.Join(fs, "handover"), rdstest.Dir(t)
	must(t, os.Chmod(s.tmp, 0o777))
	// The program is in a directory that is root's alone. Another process copies it: a process that
	// this one starts meanwhile would inherit the descriptor, and the program could not be run (ETXTBSY).
	if out, err := exec.Command("cp", bin.Path("rdsd"), filepath.Join(s.tmp, "rdsd")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	h, err := ebpf.LoadHandover(ebpf.HandoverOptions{Dir: s.pins, Netns: s.b.Netns(), Owner: nobodyID})
	must(t, err)
	h.Close()
	return s
}

// start starts a daemon on b that listens on prefixes.
func (s *steered) start(name string, prefixes ...string) *clitest.Process {
	s.Helper()
	file := filepath.Join(s.tmp, name+".toml")
	text := fmt.Sprintf("listen = ['%s']\n[handover]\nkernel = 'require'\npins = '%s'\n[admission]\nkernel = 'off'\n",
		strings.Join(prefixes, "', '"), s.pins)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		s.Fatal(err)
	}
	args := s.b.Args(filepath.Join(s.tmp, "rdsd"), "--config", file, "--socket", filepath.Join(s.tmp, name+".sock"), "--control", filepath.Join(s.tmp, name+".control"))
	// The program is started by root, who may enter the namespace, and is nobody from then on.
	args = append([]string{args[0], args[1], fmt.Sprintf("--setgid=%d", nobodyID), fmt.Sprintf("--setuid=%d", nobodyID)}, args[2:]...)
	return clitest.Start(s.T, args[0], args[1:]...)
}

func (s *steered) ready(d *clitest.Process) *clitest.Process {
	s.Helper()
	d.Line(d.Stderr, "ready")
	return d
}

// pings has host a ping an address by both wires, and tells whether there were answers.
func (s *steered) pings(to string) bool {
	s.Helper()
	if strings.Contains(to, ":") {
		return s.pingsFrom(s.a.IP6.String(), to)
	}
	return s.pingsFrom(s.a.IP4.String(), to)
}

func (s *steered) pingsFrom(from, to string) bool {
	s.Helper()
	for _, wire := range []string{"tcp", "xrc"} {
		args := s.a.Args(bin.Path("rdsping"), "--provider", "node", "--wire", wire, "-c", "1", "-W", "5s", "-I", from, to)
		if status, stdout, stderr := clitest.Run(s.T, args[0], args[1:]...); status != 0 {
			s.Logf("ping %s over %s: status %d: %s%s", to, wire, status, stdout, stderr)
			return false
		}
	}
	return true
}

// connects connects from a by TCP.
func (s *steered) connects(to string, port int) (err error) {
	s.a.Do(func() {
		var c net.Conn
		d := net.Dialer{Timeout: 10 * time.Second}
		if c, err = d.DialContext(context.Background(), "tcp", net.JoinHostPort(to, fmt.Sprint(port))); err == nil {
			c.Close()
		}
	})
	return err
}

// sockets counts the descriptors of a process and the listening TCP sockets of its namespace.
func sockets(t *testing.T, pid int) (descriptors, listening int) {
	t.Helper()
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	must(t, err)
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/tcp", pid))
	must(t, err)
	return len(fds), strings.Count(string(table), " 00000000:0000 0A ")
}

// A daemon without capabilities has 4,096 addresses with one listening socket for each port,
// and is upgraded while peers connect, none of which is refused.
func TestDaemonHas4096AddressesWithOneListener(t *testing.T) {
	t.Parallel()
	s := newSteered(t)
	began := time.Now()
	d := s.ready(s.start("one", "10.200.0.0/20"))
	descriptors, listening := sockets(t, d.PID())
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.PID()))
	must(t, err)
	_, rss, _ := strings.Cut(string(status), "VmRSS:")
	rss, _, _ = strings.Cut(rss, "\n")
	t.Logf("ready after %v, %d descriptors, %d listening sockets, %s", time.Since(began).Round(time.Millisecond), descriptors, listening, strings.TrimSpace(rss))
	if descriptors > 64 || listening != 2 {
		t.Errorf("%d descriptors and %d listening sockets for 4,096 addresses", descriptors, listening)
	}
	for _, a := range []string{"10.200.0.0", "10.200.0.1", "10.200.7.255", "10.200.15.254", "10.200.15.255"} {
		if !s.pings(a) {
			t.Errorf("%s does not answer", a)
		}
	}
	s.a.Run("ip", "address", "add", "10.99.0.7/16", "dev", "eth0")
	stop := make(chan struct{})
	var (
		work     sync.WaitGroup
		connects int
		failed   []error
	)
	work.Go(func() {
		to := netip.MustParseAddr("10.200.0.0")
		for ; ; connects++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := s.connects(to.String(), []int{16385, 18634}[connects%2]); err != nil {
				failed = append(failed, err)
			}
			if to = to.Next(); to == netip.MustParseAddr("10.200.15.0") {
				to = netip.MustParseAddr("10.200.0.0")
			}
		}
	})
	d.Signal(upgradeSignal)
	d.Line(d.Stderr, "taken over")
	// From an address that does not connect all the time: of such a one the oldest connections that
	// are not set up end for the next ones, the ping's too.
	if !s.pingsFrom("10.99.0.7", "10.200.15.251") {
		t.Error("no answer of the successor")
	}
	close(stop)
	work.Wait()
	t.Logf("%d connections", connects)
	if len(failed) > 0 || connects == 0 {
		t.Errorf("%d of %d connections have failed, the first: %v", len(failed), connects, failed[:min(1, len(failed))])
	}
	pid := 0
	if line := lastLine(d.Stderr.String(), "successor started"); line != "" {
		_, text, _ := strings.Cut(line, `"successor": `)
		_, _ = fmt.Sscanf(text, "%d", &pid)
	}
	if pid == 0 {
		t.Fatalf("no successor: %s", d.Stderr)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	netlab.Until(t, "the connections that have ended are closed, and the successor has few descriptors", func() bool {
		descriptors, listening = sockets(t, pid)
		return descriptors <= 64
	})
	if listening != 2 {
		t.Errorf("the successor has %d listening sockets", listening)
	}
}

// Prefixes of both families have a listening socket each for each port, and their addresses
// connect to others as they are connected to.
func TestDaemonWithPrefixesOfBothFamilies(t *testing.T) {
	t.Parallel()
	s := newSteered(t)
	s.b.Run("ip", "route", "add", "local", "fd77::/124", "dev", "lo")
	s.b.Run("sh", "-c", "echo 1 > /proc/sys/net/ipv6/ip_nonlocal_bind") // without it IPv6 has no use for the route
	s.a.Run("ip", "route", "add", "fd77::/124", "via", s.b.IP6.String())
	d := s.ready(s.start("both", "10.200.0.0/28", "fd77::/124"))
	if descriptors, listening := sockets(t, d.PID()); descriptors > 64 || listening != 2 {
		t.Errorf("%d descriptors, %d listening sockets of IPv4", descriptors, listening)
	}
	for _, a := range []string{"10.200.0.15", "fd77::", "fd77::7", "fd77::f"} {
		if !s.pings(a) {
			t.Errorf("%s does not answer", a)
		}
	}
	peer := daemonOn(t, s.a, "--listen", s.a.IP4.String()+","+s.a.IP6.String())
	peer.Line(peer.Stderr, "ready")
	for from, to := range map[string]netip.Addr{"10.200.0.7": s.a.IP4, "fd77::9": s.a.IP6} {
		args := s.b.Args(bin.Path("rdsping"), "--socket", filepath.Join(s.tmp, "both.sock"), "-c", "2", "-W", "10s", "-I", from, to.String())
		if status, stdout, stderr := clitest.Run(t, args[0], args[1:]...); status != 0 {
			t.Errorf("ping from %s: status %d: %s%s", from, status, stdout, stderr)
		}
	}
}

func lastLine(text, with string) (last string) {
	for _, line := range strings.Split(text, "\n") {
		if strings.Contains(line, with) {
			last = line
		}
	}
	return last
}

// Two daemons have every second /28 of one range, at the same ports. One that is killed leaves
// its addresses refusing, and has them again when it is started again. A third cannot have the
// same prefix, and strangers to an admission get to none.
func TestDaemonsShareOneRange(t *testing.T) {
	t.Parallel()
	s := newSteered(t)
	var halves [2][]string
	for i := range 256 {
		a := netip.AddrFrom4([4]byte{10, 200, byte(i >> 4), byte(i << 4)})
		halves[i%2] = append(halves[i%2], netip.PrefixFrom(a, 28).String())
	}
	first, second := s.start("first", halves[0]...), s.start("second", halves[1]...)
	s.ready(first)
	s.ready(second)
	reached := func(first, second bool) {
		t.Helper()
		for a, want := range map[string]bool{"10.200.0.5": first, "10.200.15.224": first, "10.200.0.16": second, "10.200.15.255": second} {
			if want && !s.pings(a) {
				t.Errorf("%s does not answer", a)
			}
			for _, port := range []int{16385, 18634} {
				if err := s.connects(a, port); want != (err == nil) || !want && !errors.Is(err, syscall.ECONNREFUSED) {
					t.Errorf("connect to %s port %d: %v", a, port, err)
				}
			}
		}
	}
	reached(true, true)
	third := s.start("third", halves[1][0])
	if status := third.Wait(); status == 0 || !strings.Contains(third.Stderr.String(), "in use") {
		t.Errorf("a prefix of another daemon: status %d: %s", status, third.Stderr)
	}
	first.Signal(syscall.SIGKILL)
	first.Wait()
	reached(false, true)
	s.ready(s.start("first", halves[0]...))
	reached(true, true)
	filter, err := ebpf.LoadAdmission(ebpf.AdmissionOptions{Deny: ebpf.Refuse, Netns: s.b.Netns(), Allow: []netip.Prefix{netip.MustParsePrefix("10.250.0.0/24")}})
	must(t, err)
	defer filter.Close()
	reached(false, false)
}

// Without a handover auto listens on each address, require does not start and says why, and a
// user who may not register is told what is needed.
func TestDaemonWithoutHandover(t *testing.T) {
	t.Parallel()
	s := newSteered(t)
	pins := s.pins
	s.pins = filepath.Join(s.tmp, "none")
	d := s.start("require", "10.200.0.0/28")
	if status := d.Wait(); status != statusConfig || !strings.Contains(d.Stderr.String(), "handover.kernel: require") {
		t.Errorf("status %d: %s", status, d.Stderr)
	}
	s.pins = pins
	h, err := ebpf.LoadHandover(ebpf.HandoverOptions{Dir: pins, Netns: s.b.Netns()}) // for root alone
	must(t, err)
	h.Close()
	d = s.start("stranger", "10.200.0.0/28")
	if status := d.Wait(); status != statusConfig || !strings.Contains(d.Stderr.String(), "not permitted: needs to be owner") {
		t.Errorf("status %d: %s", status, d.Stderr)
	}
	args := s.b.Args(bin.Path("rdsd"), "--listen", "10.200.0.0/28", "--socket", "none", "--control", "none")
	auto := clitest.StartEnv(t, nil, args[0], args[1:]...)
	line := auto.Line(auto.Stderr, "hands no connections over")
	if !strings.Contains(line, "no such file") && !strings.Contains(line, "not exist") {
		t.Errorf("%s", line)
	}
	s.ready(auto)
	if _, listening := sockets(t, auto.PID()); listening != 2*16 {
		t.Errorf("%d listening sockets for 16 addresses", listening)
	}
	if !s.pings("10.200.0.15") {
		t.Error("no answer")
	}
	terminate(t, auto)
}

// A handover of another network namespace is not the daemon's: auto listens on each address and
// says why, also without prefixes, and require does not start.
func TestDaemonBesideAHandoverOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	s := newSteered(t)
	h, err := ebpf.LoadHandover(ebpf.HandoverOptions{Dir: s.pins, Netns: s.a.Netns(), Owner: nobodyID})
	must(t, err)
	h.Close()
	const why = "of another network namespace"
	d := s.start("require", "10.200.0.0/28")
	if status := d.Wait(); status != statusConfig || !strings.Contains(d.Stderr.String(), "handover.kernel: require") || !strings.Contains(d.Stderr.String(), why) {
		t.Errorf("require: status %d: %s", status, d.Stderr)
	}
	for _, c := range []struct{ listen, ping string }{{"10.200.0.0/28", "10.200.0.15"}, {s.b.IP4.String(), s.b.IP4.String()}} {
		file := filepath.Join(s.tmp, "auto.toml")
		must(t, os.WriteFile(file, []byte("[handover]\npins = '"+s.pins+"'\n[admission]\nkernel = 'off'\n"), 0o644))
		args := s.b.Args(bin.Path("rdsd"), "--config", file, "--listen", c.listen, "--socket", "none", "--control", "none")
		auto := clitest.Start(t, args[0], args[1:]...)
		if line := auto.Line(auto.Stderr, "hands no connections over"); !strings.Contains(line, why) {
			t.Errorf("auto: %s", line)
		}
		s.ready(auto)
		if !s.pings(c.ping) {
			t.Errorf("%s does not answer", c.ping)
		}
		terminate(t, auto)
	}
}
