//go:build live

package rds

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/ebpf"
	"github.com/rds-go/rds/internal/rdstest"
)

// routed is three network namespaces in a row: a host, a router and another host. All
// packets between them can be dropped, and the router can bound their rate.
type routed struct {
	testing.TB
	prefix string
	hosts  [2]netip.Addr   // addresses of a and b
	hole   *ebpf.FaultRule // drops all packets
}

const routedPrefix = "rds-silent-"

func newRouted(t testing.TB) *routed {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, for network namespaces")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("needs the program ip (iproute2)")
	}
	sweepRouted()
	r := &routed{TB: t, prefix: routedPrefix + strconv.Itoa(os.Getpid()) + "-" + strconv.Itoa(int(rdstest.NewPort())) + "-"}
	if out, err := exec.Command("ip", "netns", "add", r.prefix+"r").CombinedOutput(); err != nil {
		t.Skipf("needs CAP_SYS_ADMIN, to make network namespaces: %s", out)
	}
	t.Cleanup(func() { r.ip("netns", "del", r.prefix+"r") })
	for i, host := range []string{"a", "b"} {
		ns, net := r.prefix+host, "10.78."+strconv.Itoa(i)+"."
		r.hosts[i] = netip.MustParseAddr(net + "1")
		r.ip("netns", "add", ns)
		t.Cleanup(func() { r.ip("netns", "del", ns) })
		r.ip("-n", ns, "link", "set", "lo", "up")
		r.ip("-n", ns, "link", "add", "eth0", "type", "veth", "peer", "name", "to-"+host, "netns", r.prefix+"r")
		r.ip("-n", ns, "addr", "add", net+"1/24", "dev", "eth0")
		r.ip("-n", ns, "link", "set", "eth0", "up")
		r.ip("-n", r.prefix+"r", "addr", "add", net+"2/24", "dev", "to-"+host)
		r.ip("-n", r.prefix+"r", "link", "set", "to-"+host, "up")
		r.ip("-n", ns, "route", "add", "default", "via", net+"2")
	}
	if out, err := r.inside("r", "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"); err != nil {
		t.Skipf("needs a writable /proc/sys in a network namespace, to forward packets: %s", out)
	}
	return r
}

func (r *routed) ip(args ...string) {
	r.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		r.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

func (r *routed) inside(ns string, args ...string) (string, error) {
	out, err := exec.Command("ip", append([]string{"netns", "exec", r.prefix + ns}, args...)...).CombinedOutput()
	return string(out), err
}

// drop has every packet to and from a vanish, without a word to anybody, until heal.
func (r *routed) drop() {
	r.Helper()
	f, err := ebpf.NewFault(ebpf.FaultOptions{Netns: "/run/netns/" + r.prefix + "a", Interface: "eth0"})
	if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, ebpf.ErrPermission) {
		r.Skipf("needs a kernel that drops packets for it: %v", err)
	}
	rdstest.Must(r, err)
	r.Cleanup(func() { _ = f.Close() })
	if r.hole, err = f.Blackhole(ebpf.FaultMatch{}, ebpf.MaxFaultTime); err != nil {
		r.Fatal(err)
	}
}

func (r *routed) heal() {
	r.Helper()
	if c, err := r.hole.Stop(); err != nil || c.Hit == 0 {
		r.Errorf("the network was not silent: %+v, %v", c, err)
	}
}

// limit bounds the rate towards b.
func (r *routed) limit(rate string) {
	r.Helper()
	if out, err := exec.Command("tc", "-n", r.prefix+"r", "qdisc", "add", "dev", "to-b", "root", "tbf", "rate", rate, "burst", "16k", "limit", "256k").CombinedOutput(); err != nil {
		r.Skipf("needs the program tc (iproute2) and the kernel module sch_tbf, to bound the rate: %s", out)
	}
}

// sweepRouted removes namespaces that test processes killed half-way left behind.
func sweepRouted() {
	names, _ := filepath.Glob("/run/netns/" + routedPrefix + "*")
	for _, name := range names {
		name = filepath.Base(name)
		number, _, _ := strings.Cut(strings.TrimPrefix(name, routedPrefix), "-")
		if pid, err := strconv.Atoi(number); err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = exec.Command("ip", "netns", "del", name).Run()
		}
	}
}

// both starts a talker on each host.
func (r *routed) both(test string, k talk) (a, b *talker) {
	r.Helper()
	k.here, k.there = netip.AddrPortFrom(r.hosts[0], 4000), netip.AddrPortFrom(r.hosts[1], 4000)
	k.port = DefaultPort
	a = startTalker(r, test, r.prefix+"a", k)
	k.here, k.there = k.there, k.here
	return a, startTalker(r, test, r.prefix+"b", k)
}

// silenceLimit is the limit that tests set: 1 s, or with RDS_LONG the default.
func silenceLimit() time.Duration {
	if os.Getenv("RDS_LONG") != "" {
		return 20 * time.Second
	}
	return time.Second
}

// isTalker runs the process of a test.
func isTalker() bool {
	if os.Getenv(rdstest.RoleEnv) != talkerRole {
		return false
	}
	beTalker(strings.Fields(os.Getenv(rdstest.ArgEnv)))
	return true
}

// notices waits until the talker finds its peer silent, which has to be about limit after
// the time since.
func (p *talker) notices(since time.Time, limit time.Duration) {
	p.Helper()
	d := p.silent().Sub(since)
	p.Logf("noticed after %v", d)
	if d < limit*3/4 || d > limit*5/4+2*time.Second {
		p.Errorf("with a limit of %v noticed after %v", limit, d)
	}
}

// A network that drops all packets for longer than the limit, under traffic both ways:
// both hosts notice, messages flow again within 2 s of its being back, and none is lost,
// doubled or out of order.
func TestSilentNetworkIsNoticed(t *testing.T) {
	if isTalker() {
		return
	}
	t.Parallel()
	limit := silenceLimit()
	rdstest.EachWire(t, func(t *testing.T, wire Wire) {
		r := newRouted(t)
		a, b := r.both("TestSilentNetworkIsNoticed", talk{wire: wire, paths: 1, silence: limit, every: 5 * time.Millisecond, size: 500})
		a.more(50)
		b.more(50)
		r.drop()
		began := time.Now()
		for _, p := range []*talker{a, b} {
			p.notices(began, limit)
		}
		<-time.After(limit) // attempts to connect are under way
		healed := time.Now()
		r.heal()
		for _, p := range []*talker{a, b} {
			d := p.more(1).Sub(healed)
			t.Logf("messages flow again after %v", d)
			if d > 2*time.Second {
				t.Errorf("messages flow again after %v", d)
			}
		}
		finish(t, a, b)
	})
}

// here starts two talkers on this host.
func here(t *testing.T, test string, k talk) (a, b *talker) {
	t.Helper()
	k.here, k.there = netip.AddrPortFrom(rdstest.NewAddr(), 4000), netip.AddrPortFrom(rdstest.NewAddr(), 4000)
	k.port = rdstest.NewPort()
	a = startTalker(t, test, "", k)
	k.here, k.there = k.there, k.here
	return a, startTalker(t, test, "", k)
}

func (p *talker) signal(s syscall.Signal) {
	p.Helper()
	rdstest.Must(p, p.cmd.Process.Signal(s))
}

// A node that is stopped by SIGSTOP, under traffic. On XRC its peer notices within the
// limit, whether the traffic is little, so that the stopped node's TCP goes on
// acknowledging it, or much, so that its window closes. Over TCP that TCP answers: the
// peer waits for as long as it takes and keeps the connection. None of the messages is
// lost, doubled or out of order either way.
func TestStoppedPeer(t *testing.T) {
	if isTalker() {
		return
	}
	t.Parallel()
	limit := silenceLimit()
	pause := 3 * limit
	if limit > time.Second {
		pause = 5 * time.Minute
	}
	for _, traffic := range []struct {
		name  string
		every time.Duration
		size  int
	}{
		{"little", time.Millisecond, 100},
		{"much", 0, 16 << 10},
	} {
		t.Run(traffic.name, func(t *testing.T) {
			t.Parallel()
			rdstest.EachWire(t, func(t *testing.T, wire Wire) {
				a, b := here(t, "TestStoppedPeer", talk{wire: wire, paths: 1, silence: limit, every: traffic.every, size: traffic.size})
				a.more(50)
				b.more(50)
				stopped := time.Now()
				b.signal(syscall.SIGSTOP)
				if wire == WireXRC {
					a.notices(stopped, limit)
				} else {
					<-time.After(pause)
					if l := a.downs(); len(l) > 0 {
						t.Errorf("the path has ended: %+v", l)
					}
				}
				b.signal(syscall.SIGCONT)
				b.more(50)
				a.more(50)
				finish(t, a, b)
			})
		})
	}
}

// A link so slow that what is outstanding takes several times the limit is never cut.
func TestSlowLinkIsNotSilent(t *testing.T) {
	if isTalker() {
		return
	}
	t.Parallel()
	limit, rate := silenceLimit(), "16mbit" // 8 MiB are 4 s of it
	if limit > time.Second {
		rate = "1mbit"
	}
	rdstest.EachWire(t, func(t *testing.T, wire Wire) {
		r := newRouted(t)
		r.limit(rate)
		a, b := r.both("TestSlowLinkIsNotSilent", talk{wire: wire, paths: 1, silence: limit, size: 64 << 10, most: 128})
		for _, p := range []*talker{a, b} {
			for p.received() < 128 {
				p.more(1)
			}
			if l := p.downs(); len(l) > 0 {
				t.Errorf("a path has ended: %+v", l)
			}
		}
		finish(t, a, b)
	})
}
