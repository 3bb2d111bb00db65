//go:build live

package main

import (
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
	"github.com/rds-go/rds/internal/rdstest"
)

// info is what the kernel has counted for a connection.
func info(t *testing.T, c net.Conn) (info *unix.TCPInfo) {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
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

// Of what one host has sent, the other has had all but the count, and no program stays.
func TestDropLosesItsCountAndNoMore(t *testing.T) {
	t.Parallel()
	e := newEcho(t)
	at := netip.AddrPortFrom(e.client.IP4, 1234).String()
	var l net.Listener
	var from, to net.Conn
	var err error
	if e.client.Do(func() { l, err = net.Listen("tcp", at) }); err == nil {
		defer l.Close()
		if e.server.Do(func() { from, err = net.DialTimeout("tcp", at, 10*time.Second) }); err == nil {
			defer from.Close()
			to, err = l.Accept()
		}
	}
	rdstest.Must(t, err)
	defer to.Close()
	lost := func() int { return int(info(t, from).Segs_out) - int(info(t, to).Segs_in) }
	before := lost()
	p := e.begin("drop", "--interface", "eth0", "--port", "1234", "--direction", "out", "--count", "5", "--for", "1m")
	for range 20 {
		if _, err := from.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
	}
	if status := p.Wait(); status != 0 || !strings.HasPrefix(p.Stdout.String(), "eth0: dropped 5 of 5 packets (") {
		t.Errorf("status %d: %s%s", status, p.Stdout, p.Stderr)
	}
	netlab.Until(t, "all has arrived", func() bool { return info(t, to).Bytes_received == 20 })
	netlab.Until(t, "5 packets are lost and no more", func() bool { return lost()-before == 5 })
	netlab.Until(t, "no program is attached", func() bool { return attached(t, e.server) == 0 })
}

func TestNoProgramStaysAfterASignal(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			e := newEcho(t)
			p := e.begin("blackhole", "--interface", "eth0", "--for", "1h")
			if n := attached(t, e.server); n != 2 {
				t.Errorf("%d programs while the fault is made", n)
			}
			p.Signal(signal)
			p.Wait()
			netlab.Until(t, "no program is attached", func() bool { return attached(t, e.server) == 0 })
		})
	}
}

func TestAbortOneAtATimeEndsByCount(t *testing.T) {
	t.Parallel()
	e := newEcho(t)
	var all [3]net.Conn
	for i := range all {
		all[i] = e.dial(16385)
		if _, err := answered(all[i], 10*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	status, stdout, stderr := clitest.Run(t, bin.Path("rdsfault"), "abort", "--netns", e.server.Name, "--every", "1ms", "--count", "2")
	gone := 0
	for _, c := range all {
		if _, err := answered(c, 10*time.Second); err != nil {
			gone++
		}
	}
	if status != 0 || !strings.HasPrefix(stdout, "aborted 2 connections in ") || gone != 2 {
		t.Errorf("status %d, %d connections are gone: %s%s", status, gone, stdout, stderr)
	}
}

// A user with some of the capabilities hears which are needed, also for another network namespace.
func TestCapabilitiesThatAreMissingAreNamed(t *testing.T) {
	t.Parallel()
	h, _ := netlab.Pair(t)
	rdstest.Must(t, os.Chmod(string(bin), 0o755))
	const packets, abort = "faults by tcx: not permitted: needs CAP_BPF and CAP_NET_ADMIN", "abort by SOCK_DESTROY: not permitted: needs CAP_NET_ADMIN"
	const other = ", and CAP_SYS_ADMIN for another network namespace"
	for _, c := range []struct {
		args string
		has  []uintptr
		want string
	}{
		{"drop --interface lo", nil, packets},
		{"drop --interface lo", []uintptr{unix.CAP_NET_ADMIN}, packets},
		{"drop --interface lo", []uintptr{unix.CAP_BPF}, packets},
		{"abort", nil, abort},
		{"drop --interface eth0 --netns " + h.Name, []uintptr{unix.CAP_BPF, unix.CAP_NET_ADMIN}, packets + other},
		{"abort --netns " + h.Name, []uintptr{unix.CAP_NET_ADMIN}, abort + other},
	} {
		nobody := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: c.has}
		p := clitest.StartAs(t, nobody, nil, bin.Path("rdsfault"), strings.Fields(c.args)...)
		if status := p.Wait(); status != 2 || p.Stderr.String() != "rdsfault: "+c.want+"\n" || p.Stdout.String() != "" {
			t.Errorf("%s: status %d, %s%s", c.args, status, p.Stderr, p.Stdout)
		}
	}
}
