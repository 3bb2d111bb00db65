//go:build live

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/ebpf"
	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/netlab"
	"github.com/rds-go/rds/internal/rdstest"
)

// command runs rdsbpf on a host.
func command(t *testing.T, host *netlab.Host, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	args = host.Args(append([]string{bin.Path("rdsbpf")}, args...)...)
	return clitest.Run(t, args[0], args[1:]...)
}

// Load, list, watch, status and unload, with real strangers; a rdsbpf that is killed leaves
// the filter.
func TestFilterWithoutDaemon(t *testing.T) {
	t.Parallel()
	server, stranger := netlab.Pair(t)
	pins := filepath.Join(netlab.BPFFS(t), "rds")
	says := func(failed int, want string, args ...string) string {
		t.Helper()
		status, stdout, stderr := command(t, server, append(args, "--dir", pins)...)
		if said := [...]string{stdout, stderr}[failed]; status != failed || !strings.Contains(said, want) || failed > 0 && strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: status %d, %s%s; want %q", args, status, stdout, stderr, want)
		}
		return stdout
	}
	does := func(want string, args ...string) string { t.Helper(); return says(0, want, args...) }
	fails := func(want string, args ...string) { t.Helper(); says(1, want, args...) }
	fails("no filter is loaded in "+pins, "allow", "10.0.0.1")
	fails("nothing is loaded in "+pins, "unload")
	does("not loaded in "+pins, "status")
	does("refuse by sk_lookup, TCP 16385 and 18634, everybody may connect", "load", "admission")
	does("1 prefix", "allow", "10.7.0.0/24")
	does("2 prefixes", "allow", "fd00::7", "10.7.0.0/24")
	var l net.Listener
	var err error
	server.Do(func() { l, err = net.Listen("tcp", ":16385") })
	rdstest.Must(t, err)
	defer l.Close()
	connect := func() (err error) {
		stranger.Do(func() {
			var c net.Conn
			if c, err = net.DialTimeout("tcp", fmt.Sprintf("%v:16385", server.IP4), time.Second); err == nil {
				_ = c.Close()
			}
		})
		return err
	}
	args := server.Args(bin.Path("rdsbpf"), "watch", "--interval", "10ms", "--json", "--dir", pins)
	w := clitest.Start(t, args[0], args[1:]...)
	netlab.Until(t, "the watch tells of the stranger", func() bool {
		if connect() == nil {
			t.Error("the stranger is let through")
		}
		return strings.Contains(w.Stdout.String(), stranger.IP4.String())
	})
	var line struct {
		Address      netip.Addr
		New, Refused uint64
	}
	if err := json.Unmarshal([]byte(w.Line(w.Stdout, stranger.IP4.String())), &line); err != nil || line.Address != stranger.IP4 || line.New == 0 || line.Refused < line.New {
		t.Errorf("watch: %+v, %v", line, err)
	}
	w.Signal(syscall.SIGKILL)
	w.Wait()
	if connect() == nil {
		t.Error("the filter has gone with the rdsbpf that was killed")
	}
	fails("10.8.0.0/24 is not on the list", "deny", "10.8.0.0/24")
	does("1 prefix", "deny", "10.7.0.0/24")
	fails("lets everybody connect", "deny", "fd00::7")
	does("everybody may connect", "deny", "fd00::7", "--everybody")
	if err := connect(); err != nil {
		t.Errorf("everybody may connect: %v", err)
	}
	var report struct {
		Dir      string
		Loaded   map[string]ebpf.AdmissionStatus
		Possible map[string]struct{ OK bool }
	}
	if err := json.Unmarshal([]byte(does("", "status", "--json")), &report); err != nil || report.Dir != pins || report.Loaded["admission"].Refused == 0 || len(report.Possible) == 0 {
		t.Errorf("%+v, %v", report, err)
	}
	does("silent by tcx on eth0", "load", "admission", "--deny", "silent")
	does("admission: unloaded", "unload", "admission")
	if _, err := os.Stat(pins); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("pins are left: %v", err)
	}
}

// What the configuration asks for is loaded; off and a host that may not are said, and are
// no failure unless the filter is required. No text of the verifier is shown.
func TestLoadByConfiguration(t *testing.T) {
	t.Parallel()
	host, _ := netlab.Pair(t)
	mount := netlab.BPFFS(t)
	file := filepath.Join(t.TempDir(), "rdsd.toml")
	for _, c := range []struct {
		kernel string
		may    bool
		args   string
		status int
		want   string
	}{
		{"off", true, "", 0, "admission: off in the configuration: nothing loaded\n"},
		{"auto", false, "", 0, "admission: not loaded, rdsd does without: admission by sk_lookup: not permitted: needs CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN\n"},
		{"require", false, "", 1, "rdsbpf: admission by sk_lookup: not permitted: needs CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN\n"},
		{"require", true, "", 0, "admission: refuse by sk_lookup, TCP 17000 and 17001, everybody may connect\n"},
		{"off", true, "", 0, "nothing loaded\nrdsbpf: admission was loaded into " + mount + "/rds before and stays: rdsbpf unload takes it out\n"},
		{"auto", false, "admission", 0, "admission: not loaded, rdsd does without: admission by sk_lookup: not permitted: needs CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN\n"},
		{"", false, "admission", 1, "rdsbpf: admission by sk_lookup: not permitted: needs CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN\n"}, // named, without a file
		{"auto", true, "--port 16385", 0, "admission: refuse by sk_lookup, TCP 16385, everybody may connect\n"},
	} {
		text := fmt.Sprintf("port = 17000\nnpaths = 8\n[admission]\nkernel = '%s'\npins = '%s/rds'\n", c.kernel, mount)
		rdstest.Must(t, os.WriteFile(file, []byte(text), 0o600))
		args := append([]string{bin.Path("rdsbpf"), "load", "--config", file}, strings.Fields(c.args)...)
		if c.kernel == "" {
			args = append([]string{bin.Path("rdsbpf"), "load", "--dir", mount + "/none"}, strings.Fields(c.args)...)
		}
		if !c.may {
			args = append([]string{"setpriv", "--bounding-set=-all", "--inh-caps=-all"}, args...)
		}
		args = host.Args(args...)
		if status, stdout, stderr := clitest.Run(t, args[0], args[1:]...); status != c.status || !strings.HasSuffix(stdout+stderr, c.want) {
			t.Errorf("%+v: status %d, %s%s", c, status, stdout, stderr)
		}
	}
}

// A host without the BPF file system gets it.
func TestLoadMountsTheFileSystem(t *testing.T) {
	t.Parallel()
	host, _ := netlab.Pair(t)
	script := `umount -l /sys/fs/bpf 2>/dev/null; "$0" load admission && "$0" load admission && grep " /sys/fs/bpf " /proc/self/mountinfo && "$0" unload`
	args := host.Args("unshare", "--mount", "sh", "-c", script, bin.Path("rdsbpf"))
	status, stdout, stderr := clitest.Run(t, args[0], args[1:]...)
	if status != 0 || strings.Count(stdout, " - bpf bpf ") != 1 || !strings.HasSuffix(stdout, "admission: unloaded\n") {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
}
