//go:build !live

package main

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/unit"

	"github.com/rds-go/rds/rds"
)

// options are a unit file's, by section and name. An empty assignment counts.
func options(t *testing.T, name string) map[string][]string {
	t.Helper()
	f, err := os.Open(filepath.Join(unitDir, name))
	must(t, err)
	defer f.Close()
	opts, err := unit.DeserializeOptions(f)
	must(t, err)
	m := make(map[string][]string)
	for _, o := range opts {
		key := o.Section + "." + o.Name
		m[key] = append(m[key], o.Value)
	}
	return m
}

// The socket unit makes what rdsd would make by itself, and by a name it knows.
func TestSocketUnit(t *testing.T) {
	t.Setenv("RDS_SOCKET", "")
	t.Setenv("RDS_RUNTIME_DIR", "")
	const path = "/run/rds/rds.sock"
	if os.Geteuid() == 0 && defaults().Socket != path {
		t.Errorf("root's default is %s, the unit's %s", defaults().Socket, path)
	}
	o := options(t, "rdsd.socket")
	for key, want := range map[string]string{
		"Socket.ListenSequentialPacket": path,
		"Socket.FileDescriptorName":     attachName,
		"Socket.SocketMode":             string(octal(rds.DefaultSocketMode)),
		"Install.WantedBy":              "sockets.target",
	} {
		if got := strings.Join(o[key], " "); got != want {
			t.Errorf("%s=%s, want %s", key, got, want)
		}
	}
}

func TestServiceUnit(t *testing.T) {
	t.Parallel()
	o := options(t, "rdsd.service")
	for key, want := range map[string]string{
		"Service.Type":                     "notify",
		"Service.ExecStartPre":             "-+/usr/local/bin/rdsbpf load --config /etc/rdsd.toml",
		"Service.ExecReload":               "-+/usr/local/bin/rdsbpf load --config /etc/rdsd.toml /bin/kill -HUP $MAINPID",
		"Service.ProtectKernelTunables":    "yes", // the BPF file system is read-only: rdsd cannot remove pins
		"Service.RestartPreventExitStatus": strconv.Itoa(statusUsage) + " " + strconv.Itoa(statusConfig),
		"Service.Restart":                  "always",
		"Service.RestartSec":               "1",
		"Unit.StartLimitIntervalSec":       "0",
		"Service.NoNewPrivileges":          "yes",
		"Service.FileDescriptorStoreMax":   "32768",
		"Service.MemoryDenyWriteExecute":   "yes",
		"Service.RuntimeDirectory":         "rds", // that of the socket
		"Service.RuntimeDirectoryMode":     "0755",
		"Service.RuntimeDirectoryPreserve": "yes",
		"Service.CapabilityBoundingSet":    "CAP_CHOWN", // control_group
		"Service.RestrictAddressFamilies":  "AF_INET AF_INET6 AF_UNIX AF_NETLINK",
	} {
		if got := strings.Join(o[key], " "); got != want {
			t.Errorf("%s=%s, want %s", key, got, want)
		}
	}
	if _, private := o["Service.PrivateUsers"]; private {
		t.Error("PrivateUsers: the users of applications would be unknown")
	}
	stop, err := strconv.Atoi(strings.Join(o["Service.TimeoutStopSec"], ""))
	d := daemon{set: defaults(), grace: grace}
	if err != nil || time.Duration(stop)*time.Second <= d.limit() {
		t.Errorf("TimeoutStopSec=%d, %v: stopping may take %v", stop, err, d.limit())
	}
}

// The directory that exists from boot on is that of rdsd's default socket, has the mode and
// owner of the service unit's RuntimeDirectory, and is never emptied.
func TestTmpfile(t *testing.T) {
	t.Setenv("RDS_SOCKET", "")
	t.Setenv("RDS_RUNTIME_DIR", "")
	text, err := os.ReadFile(tmpfile)
	must(t, err)
	service, socket := options(t, "rdsd.service"), options(t, "rdsd.socket")
	one := func(o map[string][]string, key, otherwise string) string {
		return cmp.Or(strings.Join(o[key], " "), otherwise)
	}
	dir := "/run/" + one(service, "Service.RuntimeDirectory", "")
	user := one(service, "Service.User", "root")
	want := []string{"d", dir, one(service, "Service.RuntimeDirectoryMode", "0755"), user, one(service, "Service.Group", user), "-"}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	if len(lines) != 1 || !slices.Equal(strings.Fields(lines[0]), want) {
		t.Errorf("%q, want one line of %q", lines, want)
	}
	if at := filepath.Dir(one(socket, "Socket.ListenSequentialPacket", "")); at != dir {
		t.Errorf("the socket unit's is in %s, want %s", at, dir)
	}
	if at := filepath.Dir(defaults().Socket); os.Geteuid() == 0 && at != dir {
		t.Errorf("root's default is %s, want %s", at, dir)
	}
}
