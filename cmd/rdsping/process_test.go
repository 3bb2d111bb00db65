//go:build live

package main

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// peer starts a node that answers pings, in this process.
func peer(t *testing.T, addr string, port uint16) {
	t.Helper()
	n, err := rds.NewNode(rds.Config{Addresses: []netip.Addr{netip.MustParseAddr(addr)}, Port: port, Linger: -1})
	rdstest.Must(t, err)
	t.Cleanup(func() { n.Close() })
}

// ping runs rdsping to its end.
func ping(t *testing.T, port uint16, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	return clitest.Run(t, bin.Path("rdsping"), append([]string{"--port", strconv.Itoa(int(port))}, args...)...)
}

func TestPingFromEitherSide(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	peer(t, "127.20.1.5", 17101)
	for _, local := range []string{"127.20.1.4", "127.20.1.6"} {
		status, stdout, stderr := ping(t, 17101, "-c", "10", "-i", "5ms", "-s", "100", "-I", local, "127.20.1.5")
		want := regexp.MustCompile(`^RDS PING 127\.20\.1\.5 \(127\.20\.1\.5\) from ` + regexp.QuoteMeta(local) + `: 100 bytes of data
(  ( \d|10): \d+ usec\n){10}
--- 127\.20\.1\.5 rds ping statistics ---
10 packets transmitted, 10 received, 0% packet loss, time \d+ms
rtt min/avg/max/mdev = [\d.]+/[\d.]+/[\d.]+/[\d.]+ us
$`)
		if status != 0 || !want.MatchString(stdout) || stderr != "" {
			t.Errorf("from %s: status %d, %s%s", local, status, stdout, stderr)
		}
	}
}

// Hosts may be named on both sides.
func TestPingByName(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	peer(t, "127.20.1.9", 17113)
	status, stdout, stderr := ping(t, 17113, "-c", "1", "-I", "localhost", "127.20.1.9")
	if status != 0 || !strings.HasPrefix(stdout, "RDS PING 127.20.1.9 (127.20.1.9) from 127.0.0.1: ") {
		t.Errorf("from localhost: status %d, %s%s", status, stdout, stderr)
	}
	status, stdout, stderr = ping(t, 17113, "-c", "1", "-q", "localhost") // rdsping answers itself
	if !strings.HasPrefix(stdout, "RDS PING localhost (127.0.0.1) from 127.0.0.1: ") {
		t.Errorf("to localhost: status %d, %s%s", status, stdout, stderr)
	}
}

func TestPingSelf(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := ping(t, 17102, "-c", "2", "-i", "0", "-q", "127.0.0.1")
	if status != 0 || !strings.Contains(stdout, "from 127.0.0.1") || !strings.Contains(stdout, "2 packets transmitted, 2 received, 0%") || strings.Contains(stdout, "usec") {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
}

func TestPingIPv6(t *testing.T) {
	t.Parallel()
	probe, err := rds.NewNode(rds.Config{Addresses: []netip.Addr{netip.IPv6Loopback()}, Port: 17103})
	if err != nil {
		t.Skipf("needs the address ::1 on the loopback interface: %v", err)
	}
	probe.Close()
	status, stdout, stderr := ping(t, 17103, "-c", "1", "::1")
	if status != 0 || !strings.HasPrefix(stdout, "RDS PING ::1 (::1) from ::1: ") {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
}

// More pings than sockets, as fast as they are answered, of the largest size.
func TestPingFloodOfLargest(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	peer(t, "127.20.4.5", 17104)
	status, stdout, stderr := ping(t, 17104, "-c", "50", "-i", "0", "-s", "1m", "-q", "-W", "20", "-I", "127.20.4.4", "127.20.4.5")
	if status != 0 || !strings.Contains(stdout, "50 received, 0% packet loss") {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
}

func TestPingJSON(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	peer(t, "127.20.5.5", 17105)
	status, stdout, stderr := ping(t, 17105, "-c", "3", "-i", "0.001", "--json", "-I", "127.20.5.4", "127.20.5.5")
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if status != 0 || len(lines) != 4 {
		t.Fatalf("status %d, %s%s", status, stdout, stderr)
	}
	seen := make(map[uint64]bool) // answers on different sockets may overtake each other
	for _, line := range lines[:3] {
		var r reply
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Type != "reply" || r.Seq < 1 || r.Seq > 3 || seen[r.Seq] || r.From.String() != "127.20.5.5" || r.RTT <= 0 {
			t.Errorf("%s: %+v, %v", line, r, err)
		}
		seen[r.Seq] = true
	}
	var s summary
	rdstest.Must(t, json.Unmarshal([]byte(lines[3]), &s))
	if s.Type != "summary" || s.Transmitted != 3 || s.Received != 3 || s.Loss != 0 || s.RTT == nil || s.RTT.Min > s.RTT.Avg || s.RTT.Avg > s.RTT.Max ||
		s.Host != "127.20.5.5" || s.Local.String() != "127.20.5.4" {
		t.Errorf("summary %s", lines[3])
	}
}

func TestPingWithoutAnswer(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	status, stdout, stderr := ping(t, 17106, "-c", "2", "-i", "10ms", "-W", "100ms", "-I", "127.20.6.4", "127.20.6.5")
	if status != 1 || stderr != "" {
		t.Errorf("status %d, stderr %s", status, stderr)
	}
	for _, want := range []string{"   1: no answer in 100ms\n", "   2: no answer in 100ms\n", "2 packets transmitted, 0 received, 100% packet loss"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "rtt") {
		t.Errorf("round trips without an answer:\n%s", stdout)
	}
}

func TestInterruptPrintsSummary(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	peer(t, "127.20.7.5", 17107)
	for _, c := range []struct {
		host, patience, line string
		status               int
	}{{"127.20.7.5", "20s", " usec", 0}, {"127.20.7.9", "50ms", "   1: no answer", 1}} {
		p := clitest.Start(t, bin.Path("rdsping"), "--port", "17107", "-i", "20ms", "-W", c.patience, "-I", "127.20.7.4", c.host)
		p.Line(p.Stdout, c.line)
		p.Signal(os.Interrupt)
		p.Line(p.Stdout, "--- "+c.host+" rds ping statistics ---")
		p.Line(p.Stdout, "packets transmitted")
		if status := p.Wait(); status != c.status {
			t.Errorf("%s: status %d, want %d", c.host, status, c.status)
		}
	}
}

// A host that comes up late answers the pings sent from then on, and nothing
// that was given up on is taken for an answer.
func TestPingHostThatComesUp(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	p := clitest.Start(t, bin.Path("rdsping"), "--port", "17108", "-i", "20ms", "-W", "200ms", "-I", "127.20.8.4", "127.20.8.5")
	p.Line(p.Stdout, " 9: no answer") // each of the eight sockets was replaced
	peer(t, "127.20.8.5", 17108)
	for range 10 {
		p.Line(p.Stdout, " usec")
	}
	p.Signal(os.Interrupt)
	if status := p.Wait(); status != 0 || strings.Contains(p.Stdout.String(), "DUP!") {
		t.Errorf("status %d, %s", status, p.Stdout)
	}
}

func TestCannotBegin(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	peer(t, "127.20.9.4", 17109)
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"address taken", []string{"-I", "127.20.9.4", "127.20.9.5"}, "rdsping: 127.20.9.4 port 17109 is in use (by rdsd, another node or the kernel); choose another local address with -I, or use --provider rdsd or kernel\n"},
		{"foreign address", []string{"-I", "192.0.2.1", "127.20.9.5"}, "rdsping: 192.0.2.1: cannot assign requested address: it is not an address of this host, which has "},
		{"two families", []string{"-I", "127.20.9.6", "::1"}, "rdsping: ::1 has no address to be used here, only [::1]\n"},
		{"no unicast address", []string{"224.0.0.1"}, "rdsping: 224.0.0.1 has no address to be used here, only [224.0.0.1]\n"},
		{"unknown host", []string{"no host of that name"}, `rdsping: "no host of that name": neither an IP address nor a host name` + "\n"},
		{"too large", []string{"-s", "1025k", "127.20.9.5"}, "rdsping: size 1049600: an RDS message has at most 1048576 bytes (see rdsping --help)\n"},
		{"no time", []string{"-W", "0", "127.20.9.5"}, "rdsping: timeout 0: no answer comes that fast (see rdsping --help)\n"},
		{"no host", nil, "rdsping: accepts 1 arg(s), received 0 (see rdsping --help)\n"},
		{"bad interval", []string{"-i", "x", "127.20.9.5"}, `rdsping: invalid argument "x" for "-i, --interval" flag: want seconds, or a number and ms or us, such as 0.2 or 200ms (see rdsping --help)` + "\n"},
	} {
		status, stdout, stderr := ping(t, 17109, c.args...)
		if status != 2 || stdout != "" || !strings.HasPrefix(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: status %d, %s%s\nwant %s", c.name, status, stdout, stderr, c.want)
		}
	}
}

func TestProviders(t *testing.T) {
	t.Parallel()
	status, _, stderr := ping(t, 17110, "--provider", "tape", "127.0.0.1")
	if status != 2 || !strings.Contains(stderr, `no provider "tape"`) {
		t.Errorf("status %d, %s", status, stderr)
	}
	if _, err := rds.OpenKernel(); err == nil {
		t.Skip("needs a kernel without RDS (rmmod rds)")
	}
	status, _, stderr = ping(t, 17110, "--provider", "kernel", "127.0.0.1")
	if status != 2 || !strings.Contains(stderr, "the kernel has no RDS") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("status %d, %s", status, stderr)
	}
}

// Through a daemon the local address is one of the daemon's, found without -I
// where it is an ordinary address of this host.
func TestPingThroughDaemon(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	dir := rdstest.Dir(t)
	for i, c := range []struct {
		daemon, peer string
		args         []string
		env          string
		status       int
		want         string
	}{
		{"127.0.0.1", "127.20.11.1", []string{"--socket", "@"}, "", 0, "from 127.0.0.1: "},
		{"127.0.0.1", "127.20.11.2", nil, "RDS_SOCKET=@", 0, "from 127.0.0.1: "},
		{"127.20.11.3", "127.20.11.4", []string{"--socket", "@", "-I", "127.20.11.3"}, "", 0, "from 127.20.11.3: "},
		{"127.20.11.5", "127.20.11.6", []string{"--provider", "rdsd", "--socket", "@"}, "", 0, "from 127.20.11.5: "},
		{"127.20.11.12", "::1", []string{"--socket", "@"}, "", 2, "rdsping: rdsd has no address to reach ::1 from\n"},
		{"127.20.11.7", "127.20.11.8", []string{"--socket", "@", "-I", "127.20.11.9"}, "", 2, "rdsping: 127.20.11.9: cannot assign requested address: it is not an address of rdsd, which has 127.20.11.7; -I names another\n"},
		{"127.20.11.10", "127.20.11.11", []string{"--socket", "@", "--provider", "kernel"}, "", 2, "rdsping: --socket is of the rdsd provider, not of kernel (see rdsping --help)\n"},
	} {
		port := uint16(17120 + 2*i) // XRC has the one beside it
		socket := filepath.Join(dir, strconv.Itoa(i))
		peer(t, c.peer, port)
		d := clitest.Start(t, bin.Path("rdsd"), "--listen", c.daemon, "--port", strconv.Itoa(int(port)), "--socket", socket, "--control", "none")
		d.Line(d.Stderr, "ready")
		args := []string{"-c", "2", "-i", "1ms"}
		for _, a := range append(c.args, c.peer) {
			args = append(args, strings.Replace(a, "@", socket, 1))
		}
		p := clitest.StartEnv(t, []string{"RDS_PROVIDER=", strings.Replace(c.env, "@", socket, 1)}, bin.Path("rdsping"), args...)
		if status := p.Wait(); status != c.status || !strings.Contains(p.Stdout.String()+p.Stderr.String(), c.want) {
			t.Errorf("%q: status %d, %s%s%s", args, status, p.Stdout, p.Stderr, d.Stderr)
		}
	}
}

// A socket nobody listens on is an error, not a reason to take another provider.
func TestPingWithoutDaemon(t *testing.T) {
	t.Parallel()
	status, _, stderr := clitest.Run(t, bin.Path("rdsping"), "--socket", filepath.Join(t.TempDir(), "s"), "127.0.0.1")
	if status != 2 || !strings.Contains(stderr, "no rdsd") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("status %d, %s", status, stderr)
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := clitest.Run(t, bin.Path("rdsping"), "--help")
	if status != 0 || !strings.Contains(stdout, "rdsping -c 5 -i 200ms node2") || stderr != "" {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
}
