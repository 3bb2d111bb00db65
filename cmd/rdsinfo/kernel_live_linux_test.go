//go:build live

package main

import (
	"context"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/cmd/rdsinfo/internal/report"
	"github.com/rds-go/rds/ebpf"
	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/netlab"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// pair is two hosts with a daemon each, and an application that sends to another one and back
// until the test ends.
func pair(t *testing.T) (hosts [2]*netlab.Host, daemons [2]*clitest.Process) {
	t.Helper()
	hosts[0], hosts[1] = netlab.Pair(t)
	var sockets [2]*rds.Socket
	for i, h := range hosts {
		attach := filepath.Join(t.TempDir(), "a.sock")
		args := h.Args(bin.Path("rdsd"), "--listen", h.IP4.String())
		daemons[i] = clitest.StartEnv(t, []string{"RDS_SOCKET=" + attach, "RDS_CONTROL=none"}, args[0], args[1:]...)
		daemons[i].Line(daemons[i].Stderr, "ready")
		c, err := rds.Dial(attach)
		rdstest.Must(t, err)
		t.Cleanup(func() { c.Close() })
		if sockets[i], err = c.Bind(netip.AddrPortFrom(h.IP4, 4000)); err != nil {
			t.Fatal(err)
		}
	}
	var rounds atomic.Uint64
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		for {
			for i, s := range sockets {
				to := sockets[1-i]
				if err := s.Send(ctx, to.LocalAddrPort(), []byte("hello")); err != nil {
					done <- err
					return
				}
				if _, _, err := to.ReadMessage(nil, 0); err != nil {
					done <- err
					return
				}
			}
			rounds.Add(1)
			if ctx.Err() != nil {
				done <- nil
				return
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	})
	netlab.Until(t, "messages have gone back and forth", func() bool { return rounds.Load() > 100 })
	return hosts, daemons
}

// ofHost are the connections of a host in a report.
func ofHost(t *testing.T, stdout string, h *netlab.Host) []report.KernelConnection {
	t.Helper()
	var k report.Kernel
	if err := json.Unmarshal([]byte(stdout), &k); err != nil {
		t.Fatalf("%v: %s", err, stdout)
	}
	var st unix.Stat_t
	rdstest.Must(t, unix.Stat(h.Netns(), &st))
	var out []report.KernelConnection
	for _, c := range k.Connections {
		if uint64(c.Netns) == st.Ino {
			out = append(out, c)
		}
	}
	return out
}

func TestKernelReportOfTwoDaemons(t *testing.T) {
	t.Parallel()
	hosts, daemons := pair(t)
	dir := filepath.Join(netlab.BPFFS(t), "rds")
	check := func(stdout string) {
		t.Helper()
		for i, h := range hosts {
			of := ofHost(t, stdout, h)
			if len(of) == 0 {
				t.Errorf("no connection of host %d", i)
			}
			var rtts, waits uint64
			for _, c := range of {
				if c.State != "established" || c.Local.Addr() != h.IP4 || c.Remote.Addr() != hosts[1-i].IP4 || c.PID != daemons[i].PID() || c.Command != "rdsd" || c.RTT == 0 {
					t.Errorf("host %d: %+v", i, c)
				}
				rtts += c.RTTs.Count
				waits += c.Waits.Count
			}
			if rtts == 0 || waits == 0 {
				t.Errorf("host %d: %d round trips, %d waits", i, rtts, waits)
			}
		}
	}
	status, stdout, stderr := info(t, "--kernel", "--pins", dir, "--for", "300ms", "--json")
	if status != 0 || !strings.Contains(stderr, "no telemetry is loaded in "+dir) {
		t.Fatalf("status %d: %s", status, stderr)
	}
	check(stdout)

	tel, err := ebpf.LoadTelemetry(ebpf.TelemetryOptions{Dir: dir})
	rdstest.Must(t, err)
	rdstest.Must(t, tel.Close())
	netlab.Until(t, "there are round trips and waits", func() bool {
		status, stdout, stderr = info(t, "--kernel", "--pins", dir, "--json")
		if status != 0 || stderr != "" {
			t.Fatalf("status %d: %s", status, stderr)
		}
		for _, h := range hosts {
			for _, c := range ofHost(t, stdout, h) {
				if c.RTTs.Count == 0 || c.Waits.Count == 0 {
					return false
				}
			}
		}
		return true
	})
	check(stdout)
	if _, stdout, _ = info(t, "--kernel", "--pins", dir); !strings.Contains(stdout, hosts[0].IP4.String()+":") || !strings.Contains(stdout, " rdsd ") {
		t.Errorf("the table:\n%s", stdout)
	}
}

func TestKernelReportIsNotForEverybody(t *testing.T) {
	t.Parallel()
	netlab.Root(t)
	rdstest.Must(t, os.Chmod(string(bin), 0o755))
	p := clitest.StartAs(t, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}, nil,
		bin.Path("rdsinfo"), "--kernel", "--pins", "/nowhere")
	if status := p.Wait(); status != 1 || !strings.Contains(p.Stderr.String(), "not permitted: needs CAP_BPF and CAP_PERFMON; root can") {
		t.Errorf("status %d: %s", status, p.Stderr)
	}
}

func TestKernelReportGoesWithNoOther(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"--kernel -n", "--kernel --control /x", "--for 1", "--pins /x", "--kernel --for 1 --watch", "--kernel -v",
		"--per 3", "--kernel --per 3", "--wakeups --kernel", "--wakeups -n", "--wakeups --pins /x", "--wakeups --watch"} {
		if status, _, stderr := info(t, strings.Fields(args)...); status != 2 {
			t.Errorf("%s: status %d, %s", args, status, stderr)
		}
	}
}
