//go:build live

package main

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// metricsAt are the metrics of the daemon that shows them at an "IP:port".
func metricsAt(t *testing.T, address string) string {
	t.Helper()
	answer, err := http.Get("http://" + address + metricsPath)
	must(t, err)
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	must(t, err)
	return string(b)
}

// clientOf is an application of a daemon until the test ends.
func clientOf(t *testing.T, path string) *rds.Client {
	t.Helper()
	c, err := rds.Dial(path)
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// nodeOf is a node in the test until it ends.
func nodeOf(t *testing.T, cfg rds.Config) *rds.Node {
	t.Helper()
	n, err := rds.NewNode(cfg)
	must(t, err)
	t.Cleanup(func() { _ = n.Close() })
	return n
}

// bind binds a socket to an "IP:port".
func bind(t *testing.T, p rds.Provider, address string) *rds.Socket {
	t.Helper()
	s, err := p.Bind(netip.MustParseAddrPort(address))
	must(t, err)
	return s
}

func TestDaemonTellsSystemd(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	path := filepath.Join(rdstest.Dir(t), "n.sock")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	must(t, err)
	defer l.Close()
	d := clitest.StartEnv(t, []string{"NOTIFY_SOCKET=" + path}, bin.Path("rdsd"), "--listen", "127.22.3.5", "--port", "17203", "--socket", "none", "--control", "none")
	b := make([]byte, 256)
	hear := func(want string) {
		t.Helper()
		n, err := l.Read(b)
		if err != nil || !strings.HasPrefix(string(b[:n]), want) {
			t.Fatalf("heard %q, %v; want %s", b[:n], err, want)
		}
	}
	hear("READY=1")
	d.Signal(syscall.SIGHUP)
	hear("RELOADING=1\nMONOTONIC_USEC=")
	hear("READY=1")
	d.Signal(syscall.SIGTERM)
	hear("STOPPING=1")
	if status := d.Wait(); status != 0 {
		t.Errorf("status %d", status)
	}
}

func TestDaemonCannotStart(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	tmp := rdstest.Dir(t)
	ctl := filepath.Join(tmp, "c.sock")
	attach := filepath.Join(tmp, "a.sock")
	daemonAt(t, "--listen", "127.22.4.5", "--port", "17204", "--socket", attach, "--control", ctl)
	file := write(t, "lissten = []\n")
	several := write(t, "lissten = []\nnpaths = '8'\n[tcp]\nbuffers = 1\nsilence = '10ms'\n")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	group := write(t, "listen = ['127.22.4.6']\ncontrol_group = 'no-such-group'\n")
	for _, c := range []struct {
		name   string
		args   []string
		status int
		want   string
	}{
		{"no address", nil, statusConfig, "rdsd: listen: no address: give --listen HOST[,HOST...], or listen in the configuration file\n"},
		{"bad settings", []string{"--listen", "10.0.0.256", "--npaths", "2"}, statusConfig, `rdsd: listen: "10.0.0.256": neither an IP address nor a host name; npaths: 2 is neither 1 nor 8` + "\n"},
		{"unknown key", []string{"--config", file}, statusConfig, "rdsd: " + file + ":1: lissten: unknown key; listen: no address: give --listen HOST[,HOST...], or listen in the configuration file\n"},
		{"all at once", []string{"--config", several, "--listn", "127.22.4.6", "--npaths", "two", "--log-level=loud", "--xrc-port", "17204", "extra"}, statusUsage, `rdsd: unknown flag: --listn; invalid argument "two" for "--npaths" flag: strconv.ParseInt: parsing "two": invalid syntax; unexpected argument "extra"; ` +
			several + ":1: lissten: unknown key; " + several + ":2: npaths: want a whole number, at most 9223372036854775807; " + several + ":4: tcp.buffers: unknown key; " +
			`listen: no address: give --listen HOST[,HOST...], or listen in the configuration file; xrc.port: 17204 is the port of RDS over TCP; tcp.silence: 10ms is neither 0s nor at least 1s; ` +
			`log.level: "loud" is none of debug, info, warn and error (see rdsd --help)` + "\n"},
		{"no file", []string{"--config", tmp + "/none"}, statusConfig, "rdsd: open " + tmp + "/none: no such file or directory\n"},
		{"bad flag", []string{"--listen", "127.22.4.6", "--drain", "5"}, statusUsage, `rdsd: invalid argument "5" for "--drain" flag: time: missing unit in duration "5" (see rdsd --help)` + "\n"},
		{"argument", []string{"--listen", "127.22.4.7", "127.22.4.6"}, statusUsage, `rdsd: unexpected argument "127.22.4.6" (see rdsd --help)` + "\n"},
		{"address taken", []string{"--listen", "127.22.4.5"}, 1, "rdsd: 127.22.4.5: port 17204 is in use, by another node or the kernel's RDS\n"},
		{"foreign address", []string{"--listen", "192.0.2.1"}, 1, "rdsd: listen: 192.0.2.1: cannot assign requested address: it is not an address of this host, which has "},
		{"group of the control socket", []string{"--config", group}, statusConfig, `rdsd: control_group: no group "no-such-group" on this host` + "\n"},
		{"socket taken", []string{"--listen", "127.22.4.6", "--socket", attach}, 1, "rdsd: another daemon has the socket " + attach + "; choose another with --socket\n"},
		{"metrics taken", []string{"--listen", "127.22.4.6", "--metrics", taken.Addr().String()}, 1, "rdsd: metrics: listen tcp " + taken.Addr().String() + ": bind: address already in use\n"},
		{"control socket taken", []string{"--listen", "127.22.4.6", "--control", ctl}, 1, "rdsd: another node has the control socket " + ctl + "; choose another with --control\n"},
	} {
		args := append([]string{"--port", "17204", "--log-level", "error", "--socket", "none", "--control", filepath.Join(tmp, "other.sock")}, c.args...)
		status, stdout, stderr := clitest.Run(t, bin.Path("rdsd"), args...)
		if _, err := os.Lstat(filepath.Join(tmp, "other.sock")); err == nil {
			t.Errorf("%s: the control socket was left", c.name)
		}
		if status != c.status || stdout != "" || !strings.HasPrefix(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: status %d, %s%s\nwant %d, %s", c.name, status, stdout, stderr, c.status, c.want)
		}
	}
}
