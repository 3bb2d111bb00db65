//go:build live

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rds-go/rds/ebpf"
	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/netlab"
	"github.com/rds-go/rds/internal/rdstest"
)

// A handover that is loaded for a group lets its members register listening sockets, and nobody
// else. It is loaded again without losing them, is shown, and is gone when it is unloaded.
func TestHandoverIsLoadedForAGroup(t *testing.T) {
	t.Parallel()
	server := netlab.Hosts(t, 1)[0]
	mount := netlab.BPFFS(t)
	for d := mount; len(d) > len(os.TempDir()); d = filepath.Dir(d) { // t.TempDir is root's alone
		rdstest.Must(t, os.Chmod(d, 0o755))
	}
	pins := filepath.Join(mount, "rds")
	does := func(want string, args ...string) string {
		t.Helper()
		status, stdout, stderr := command(t, server, append(args, "--dir", pins)...)
		if status != 0 || !strings.Contains(stdout, want) {
			t.Errorf("%q: status %d, %s%s; want %q", args, status, stdout, stderr, want)
		}
		return stdout
	}
	does("handover: ports [16385 18634], 0 listening sockets with 0 prefixes, in "+pins, "load", "handover", "--group", "daemon")
	l := listener(t, server)
	all := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/24")}
	register := func(gid int) (err error) {
		server.As(65534, gid, func() {
			var h *ebpf.Handover
			if h, err = ebpf.OpenHandover(filepath.Join(pins, "handover")); err == nil {
				err = errors.Join(h.Register(all, 16385, l), h.Close())
			}
		})
		return err
	}
	if err := register(65534); !errors.Is(err, ebpf.ErrPermission) {
		t.Errorf("registered by another group: %v", err)
	}
	if err := register(1); err != nil { // the group daemon
		t.Errorf("registered by the group: %v", err)
	}
	does("handover: ports [16385], 1 listening sockets with 1 prefixes", "load", "handover", "--port", "16385")
	does("0 prefixes of sockets that were closed; ", "status")
	var r struct {
		Loaded struct {
			Handover *handoverReport `json:"handover"`
		} `json:"loaded"`
	}
	if err := json.Unmarshal([]byte(does("", "status", "--json")), &r); err != nil || r.Loaded.Handover == nil {
		t.Fatalf("%v, %+v", err, r)
	}
	if h := r.Loaded.Handover; len(h.Registered) != 1 || h.Registered[0].Prefix != all[0] || !h.Registered[0].Live {
		t.Errorf("%+v", h)
	}
	if err := register(1); !errors.Is(err, ebpf.ErrPermission) {
		t.Errorf("registered by the group that the handover is not loaded for any more: %v", err)
	}
	does("handover: unloaded\n", "unload", "handover")
	if _, err := os.Stat(pins); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("pins are left: %v", err)
	}
	does("handover: not loaded in "+pins, "status")
}

// The handover is pinned where the file says, which is where rdsd looks for it; --dir is the
// directory of all features. status and unload find it by the file. A load that fails leaves
// nothing.
func TestHandoverIsPinnedWhereTheFileSays(t *testing.T) {
	t.Parallel()
	host := netlab.Hosts(t, 1)[0]
	mount := netlab.BPFFS(t)
	own, all := filepath.Join(mount, "own", "shared"), filepath.Join(mount, "all")
	file := filepath.Join(t.TempDir(), "rdsd.toml")
	text := fmt.Sprintf("[handover]\nkernel = 'require'\npins = '%s'\n[admission]\npins = '%s/rds'\n", own, mount)
	rdstest.Must(t, os.WriteFile(file, []byte(text), 0o600))
	leaves := func(want ...string) {
		t.Helper()
		var got []string
		dirs, err := os.ReadDir(mount)
		for _, d := range dirs {
			if filepath.Ext(d.Name()) != ".debug" { // the kernel's: maps.debug and progs.debug
				got = append(got, d.Name())
			}
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q are there, want %q; %v", got, want, err)
		}
	}
	does := func(want string, args ...string) {
		t.Helper()
		status, stdout, stderr := command(t, host, append(args, "--config", file)...)
		if status != 0 || !strings.Contains(stdout, want) {
			t.Errorf("%q: status %d, %s%s; want %q", args, status, stdout, stderr, want)
		}
	}
	args := host.Args("setpriv", "--bounding-set=-all", "--inh-caps=-all", bin.Path("rdsbpf"), "load", "handover", "--config", file)
	if status, _, stderr := clitest.Run(t, args[0], args[1:]...); status != 1 || !strings.Contains(stderr, "not permitted") {
		t.Errorf("without capabilities: status %d, %s", status, stderr)
	}
	leaves()
	does(", in "+own+"\n", "load", "handover")
	leaves("own")
	does("handover: ports [16385 18634], ", "status")
	does(", in "+all+"/handover\n", "load", "handover", "--dir", all)
	leaves("all", "own")
	does("handover: unloaded\n", "unload")
	leaves("all")
	does("handover: not loaded in "+own+"\n", "status")
	does("handover: unloaded\n", "unload", "--dir", all)
	leaves()
}

// Without names load loads the handover if the file requires it, or has a prefix to listen on,
// and nothing else than the file asks for. What others have loaded and use stays.
func TestHandoverIsLoadedIfTheFileAsksForIt(t *testing.T) {
	t.Parallel()
	hosts := netlab.Hosts(t, 2)
	mount := netlab.BPFFS(t)
	pins := filepath.Join(mount, "shared")
	file := filepath.Join(t.TempDir(), "rdsd.toml")
	load := func(host *netlab.Host, listen, kernel, args string, capable bool) (int, string) {
		t.Helper()
		text := fmt.Sprintf("listen = [%s]\n[handover]\nkernel = '%s'\npins = '%s'\n[admission]\nkernel = 'off'\npins = '%s/rds'\n", listen, kernel, pins, mount)
		rdstest.Must(t, os.WriteFile(file, []byte(text), 0o600))
		line := append([]string{bin.Path("rdsbpf"), "load", "--config", file}, strings.Fields(args)...)
		if !capable {
			line = append([]string{"setpriv", "--bounding-set=-all", "--inh-caps=-all"}, line...)
		}
		line = host.Args(line...)
		status, stdout, stderr := clitest.Run(t, line[0], line[1:]...)
		return status, strings.TrimPrefix(stdout, "admission: off in the configuration: nothing loaded\n") + stderr
	}
	for _, c := range []struct {
		listen, kernel string
		capable        bool
		status         int
		want           string // the start of the output; empty: nothing
	}{
		{"'10.1.0.1'", modeAuto, true, 0, ""},
		{"'10.1.0.1', '10.1.0.0/24'", modeOff, true, 0, ""},
		{"'10.1.0.1', '10.1.0.0/24'", modeAuto, false, 0, "handover: not loaded, rdsd does without: handover by sk_lookup: not permitted"},
		{"'10.1.0.1', '10.1.0.0/24'", modeAuto, true, 0, "handover: ports [16385 18634], 0 listening sockets with 0 prefixes, in " + pins},
		{"", modeRequire, false, 1, "rdsbpf: handover by sk_lookup: not permitted"},
		{"", modeRequire, true, 0, "handover: ports [16385 18634], 0 listening sockets with 0 prefixes, in " + pins},
	} {
		status, out := load(hosts[0], c.listen, c.kernel, "", c.capable)
		if status != c.status || !strings.HasPrefix(out, c.want) || c.want == "" && out != "" {
			t.Errorf("%+v: status %d, %s", c, status, out)
		}
		if err := ebpf.UnloadHandover(pins); (err == nil) != (c.status == 0 && c.capable && c.want != "") {
			t.Errorf("%+v: unload: %v", c, err)
		}
		if dirs, err := filepath.Glob(filepath.Join(mount, "[^mp]*")); err != nil || len(dirs) != 0 {
			t.Errorf("%+v: %v are there, %v", c, dirs, err)
		}
	}

	h, err := ebpf.LoadHandover(ebpf.HandoverOptions{Dir: pins, Netns: hosts[0].Netns(), Owner: 65534})
	rdstest.Must(t, err)
	defer h.Close()
	if status, out := load(hosts[0], "'10.1.0.0/24'", modeAuto, "", true); status != 0 || !strings.HasPrefix(out, "handover: ports") {
		t.Errorf("status %d, %s", status, out)
	}
	if fi, err := os.Stat(filepath.Join(pins, "rds_prefixes")); err != nil || fi.Sys().(*syscall.Stat_t).Uid != 65534 {
		t.Errorf("the owner of the handover is another one: %+v, %v", fi, err)
	}
	l := listener(t, hosts[0])
	rdstest.Must(t, h.Register([]netip.Prefix{netip.MustParsePrefix("10.1.0.0/24")}, 16385, l))
	for _, c := range []struct {
		host         *netlab.Host
		kernel, args string
		status       int
		want         string
	}{
		{hosts[1], modeAuto, "", 0, "handover: not loaded, rdsd does without: handover by sk_lookup: " + pins + ": the handover is in use in another network namespace"},
		{hosts[0], modeAuto, "--port 17000", 0, "handover: not loaded, rdsd does without: handover by sk_lookup: " + pins + ": the handover is in use with ports [16385 18634], not [17000]"},
		{hosts[1], modeRequire, "", 1, "rdsbpf: handover by sk_lookup: " + pins + ": the handover is in use in another"},
		{hosts[0], modeRequire, "handover", 0, "handover: ports [16385 18634], 1 listening sockets with 1 prefixes, in " + pins},
	} {
		if status, out := load(c.host, "'10.1.0.0/24'", c.kernel, c.args, true); status != c.status || !strings.HasPrefix(out, c.want) {
			t.Errorf("%+v: status %d, %s", c, status, out)
		}
	}
	if fi, err := os.Stat(filepath.Join(pins, "rds_prefixes")); err != nil || fi.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("the owner of the handover that was loaded by name is another one: %+v, %v", fi, err)
	}
}

// listener listens on a host with plain TCP, which a handover takes.
func listener(t *testing.T, h *netlab.Host) *net.TCPListener {
	t.Helper()
	var l net.Listener
	var err error
	h.Do(func() {
		var lc net.ListenConfig
		lc.SetMultipathTCP(false)
		l, err = lc.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	})
	rdstest.Must(t, err)
	t.Cleanup(func() { l.Close() })
	return l.(*net.TCPListener)
}
