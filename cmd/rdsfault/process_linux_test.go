package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/netlab"
)

// connect makes a TCP connection between two hosts.
func connect(t *testing.T, a, b *netlab.Host, port uint16) (from, to *net.TCPConn) {
	t.Helper()
	at := netip.AddrPortFrom(b.IP4, port).String()
	var l net.Listener
	var c, d net.Conn
	var err error
	if b.Do(func() { l, err = net.Listen("tcp", at) }); err == nil {
		defer l.Close()
		if a.Do(func() { c, err = net.DialTimeout("tcp", at, 10*time.Second) }); err == nil {
			d, err = l.Accept()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); d.Close() })
	return c.(*net.TCPConn), d.(*net.TCPConn)
}

func send(t *testing.T, from *net.TCPConn, n int) {
	t.Helper()
	if _, err := from.Write(make([]byte, n)); err != nil {
		t.Fatal(err)
	}
}

// arrive waits until so many octets have arrived.
func arrive(t *testing.T, to *net.TCPConn, n int) {
	t.Helper()
	_ = to.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.ReadFull(to, make([]byte, n)); err != nil {
		t.Fatal(err)
	}
}

// info is what the kernel has counted for a connection.
func info(t *testing.T, c *net.TCPConn) (info *unix.TCPInfo) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
	}
	if err != nil || info == nil {
		t.Fatal(err)
	}
	return info
}

// attached is the number of programs at eth0 of a host.
func attached(t *testing.T, h *netlab.Host) (n int) {
	t.Helper()
	h.Do(func() {
		eth0, err := net.InterfaceByName("eth0")
		for _, at := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
			var q *link.QueryResult
			if err == nil {
				q, err = link.QueryPrograms(link.QueryOptions{Target: eth0.Index, Attach: at})
			}
			if err != nil {
				t.Error(err)
				return
			}
			n += len(q.Programs)
		}
	})
	return n
}

func nothingStays(t *testing.T, h *netlab.Host) {
	t.Helper()
	netlab.Until(t, "no program is attached", func() bool { return attached(t, h) == 0 })
}

// begin starts rdsfault for eth0 of a host and waits until the fault is made.
func begin(t *testing.T, h *netlab.Host, args ...string) *clitest.Process {
	t.Helper()
	p := clitest.Start(t, bin.Path("rdsfault"), append(args, "--netns", h.Netns(), "--interface", "eth0")...)
	p.Line(p.Stderr, "Ctrl-C ends it")
	return p
}

// ended waits for the end of rdsfault with --json and returns its report.
func ended(t *testing.T, p *clitest.Process) (r report) {
	t.Helper()
	if status := p.Wait(); status != 0 {
		t.Fatalf("status %d: %s", status, p.Stderr)
	}
	if err := json.Unmarshal([]byte(p.Stdout.String()), &r); err != nil || r.FaultCounts == nil {
		t.Fatalf("%v: %s", err, p.Stdout)
	}
	return r
}

// Of what one host has sent, the other has had all but the count.
func TestDropEndsAfterItsCount(t *testing.T) {
	t.Parallel()
	a, b := netlab.Pair(t)
	from, to := connect(t, a, b, 16385)
	other, there := connect(t, a, b, 1234)
	p := begin(t, a, "drop", "--count", "5", "--for", "1m", "--direction", "out", "--json")
	lost := func() int { return int(info(t, from).Segs_out) - int(info(t, to).Segs_in) }
	before := lost()
	const packets = 20
	for range packets {
		send(t, from, 1)
		send(t, other, 1)
	}
	arrive(t, to, packets)
	arrive(t, there, packets)
	if r := ended(t, p); r.Fault != "drop" || r.Interface != "eth0" || r.Hit != 5 || r.Seen != 5 || r.Bytes < 5*54 {
		t.Errorf("%s", p.Stdout)
	}
	netlab.Until(t, "5 packets are lost and no more", func() bool { return lost()-before == 5 })
	if n := info(t, other).Total_retrans; n != 0 {
		t.Errorf("%d packets of another port are sent again", n)
	}
	nothingStays(t, a)
}

func TestBlackholeEndsAfterItsTime(t *testing.T) {
	t.Parallel()
	a, b := netlab.Pair(t)
	from, to := connect(t, a, b, 18634)
	const dark = 400 * time.Millisecond
	began := time.Now()
	p := begin(t, a, "blackhole", "--for", dark.String(), "--peer", b.IP4.String(), "--json")
	send(t, from, 1000)
	late := time.Since(began) > dark // this process had to wait: the data may have gone after the fault
	arrive(t, to, 1000)
	if d := time.Since(began); d < dark {
		t.Errorf("through after %v", d)
	}
	if r := ended(t, p); r.Hit == 0 && !late || r.Hit != r.Seen || r.Seconds < dark.Seconds() {
		t.Errorf("%s", p.Stdout)
	}
	nothingStays(t, a)
}

// The connection of RDS is aborted, here and at the other end; of others as many as are asked for.
func TestAbortEndsWhatMatches(t *testing.T) {
	t.Parallel()
	a, b := netlab.Pair(t)
	abort := func(want string, args ...string) {
		t.Helper()
		status, stdout, stderr := clitest.Run(t, bin.Path("rdsfault"), append([]string{"abort", "--netns", a.Netns()}, args...)...)
		if status != 0 || !strings.HasPrefix(stdout, want) {
			t.Errorf("%v: status %d, %q, %s", args, status, stdout, stderr)
		}
	}
	from, to := connect(t, a, b, 16385)
	var others [3]*net.TCPConn
	for i := range others {
		others[i], _ = connect(t, a, b, uint16(1234+i))
	}
	abort("aborted 1 connections in ")
	for c, want := range map[*net.TCPConn]error{from: unix.ECONNABORTED, to: unix.ECONNRESET} {
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	gone := func() (n int) {
		for _, c := range others {
			if _, err := c.Write([]byte{1}); err != nil {
				n++
			}
		}
		return n
	}
	if n := gone(); n != 0 {
		t.Errorf("%d connections of other ports are gone", n)
	}
	abort("aborted 2 connections in ", "--every", "1ms", "--count", "2", "--port", "1234,1235,1236", "--peer", b.IP4.String())
	if n := gone(); n != 2 {
		t.Errorf("%d of 3 connections are gone, want 2", n)
	}
}

// A signal ends the fault. Those that rdsfault sees have it print its counts.
func TestFaultsEndByASignal(t *testing.T) {
	t.Parallel()
	for signal, status := range map[syscall.Signal]int{syscall.SIGINT: 0, syscall.SIGTERM: 0, syscall.SIGKILL: -1} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			a, b := netlab.Pair(t)
			from, to := connect(t, a, b, 16385)
			p := begin(t, a, "blackhole", "--for", "1h")
			if n := attached(t, a); n != 2 {
				t.Errorf("%d programs while the fault is made", n)
			}
			send(t, from, 1000)
			netlab.Until(t, "data is sent again", func() bool { return info(t, from).Total_retrans > 0 })
			if n := info(t, to).Bytes_received; n != 0 {
				t.Errorf("%d octets have come through", n)
			}
			p.Signal(signal)
			if got := p.Wait(); got != status {
				t.Errorf("status %d: %s", got, p.Stderr)
			}
			var hit, seen uint64
			n, _ := fmt.Sscanf(p.Stdout.String(), "eth0: dropped %d of %d packets (", &hit, &seen)
			if status == 0 && (n != 2 || hit < 2 || seen != hit) || status != 0 && p.Stdout.String() != "" {
				t.Errorf("%q", p.Stdout)
			}
			arrive(t, to, 1000)
			nothingStays(t, a)
		})
	}
}

// What cannot begin leaves nothing, and says in one line why: to a user without capabilities, which.
func TestWhatCannotBeginSaysWhy(t *testing.T) {
	t.Parallel()
	a, _ := netlab.Pair(t)
	if err := os.Chmod(string(bin), 0o755); err != nil {
		t.Fatal(err)
	}
	nobody := func(capabilities ...uintptr) *syscall.SysProcAttr {
		return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: capabilities}
	}
	const packets, abort = "faults by tcx: not permitted: needs CAP_BPF and CAP_NET_ADMIN", "abort by SOCK_DESTROY: not permitted: needs CAP_NET_ADMIN"
	const other = ", and CAP_SYS_ADMIN for another network namespace"
	for _, c := range []struct {
		args string
		user *syscall.SysProcAttr // nil: root
		want string
	}{
		{"drop --interface lo", nobody(), packets},
		{"drop --interface lo", nobody(unix.CAP_NET_ADMIN), packets},
		{"drop --interface lo", nobody(unix.CAP_BPF), packets},
		{"abort", nobody(), abort},
		{"drop --interface eth0 --netns " + a.Netns(), nobody(unix.CAP_BPF, unix.CAP_NET_ADMIN), packets + other},
		{"abort --netns " + a.Netns(), nobody(unix.CAP_NET_ADMIN), abort + other},
		{"drop --interface eth1 --netns " + a.Netns(), nil, "faults by tcx: interface eth1: route ip+net: no such network interface"},
		{"drop --interface eth0 --netns no-such", nil, "faults by tcx: network namespace /run/netns/no-such: open /run/netns/no-such: no such file or directory"},
		{"delay --interface eth0 --netns " + a.Netns(), nil, "delay by the qdisc fq: not supported by this kernel as it is set up: " +
			"interface eth0 has the qdisc noqueue, and only fq delays packets (tc qdisc replace dev eth0 root fq)"},
	} {
		p := clitest.StartAs(t, c.user, nil, bin.Path("rdsfault"), strings.Fields(c.args)...)
		if status := p.Wait(); status != 2 || p.Stderr.String() != "rdsfault: "+c.want+"\n" || p.Stdout.String() != "" {
			t.Errorf("%s: status %d, %s%s", c.args, status, p.Stderr, p.Stdout)
		}
	}
	nothingStays(t, a)
}
