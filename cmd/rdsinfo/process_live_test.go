//go:build live

package main

import (
	"encoding/json"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// node starts a node with a control socket, two sockets, and a message that
// nobody has received.
func node(t *testing.T, addr string, port uint16) (n *rds.Node, ctl string) {
	t.Helper()
	n, ctl = started(t, port, rds.Config{})
	from, to := bind(t, n, addr+":4000"), bind(t, n, addr+":4001")
	rdstest.MustSend(t, from, to.LocalAddrPort(), []byte("hello"))
	if _, _, err := to.ReadMessage(nil, rds.Peek); err != nil { // it has arrived
		t.Fatal(err)
	}
	return n, ctl
}

func TestReportsOfNode(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	_, ctl := node(t, "127.21.1.5", 17401)

	status, stdout, stderr := info(t, "--control", ctl)
	if status != 0 || stderr != "" {
		t.Fatalf("status %d, %s", status, stderr)
	}
	rest := stdout
	for _, title := range []string{"TCP Connections", "Counters", "RDS Sockets", "RDS Connections", "Receive Message Queue", "Send Message Queue", "Retransmit Message Queue", "Applications"} {
		_, after, ok := strings.Cut(rest, "\n"+title+":\n")
		if !ok {
			t.Errorf("no %s, or not in its place:\n%s", title, stdout)
		}
		rest = after
	}

	_, stdout, _ = info(t, "-k", "--control", ctl)
	const want = `
RDS Sockets:
      BoundAddr BPort        ConnAddr CPort     SndBuf     RcvBuf    Inode
     127.21.1.5  4000         0.0.0.0     0    4194304    4194304        0
     127.21.1.5  4001         0.0.0.0     0    4194304    4194304        0
`
	if stdout != want {
		t.Errorf("got %s, want %s", stdout, want)
	}
	if _, stdout, _ = info(t, "-nv", "--control", ctl); !strings.Contains(stdout, "\n    path 0 up ") {
		t.Errorf("no path in\n%s", stdout)
	}
	if _, stdout, _ = info(t, "-r", "--control", ctl); !strings.Contains(stdout, "     127.21.1.5  4001      127.21.1.5  4000    0 ") || !strings.HasSuffix(stdout, " 5\n") {
		t.Errorf("not the received message:\n%s", stdout)
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	_, ctl := node(t, "127.21.2.5", 17402)
	status, stdout, stderr := info(t, "--json", "-ks", "--control", ctl)
	var keys map[string]json.RawMessage
	if err := json.Unmarshal([]byte(stdout), &keys); err != nil || status != 0 {
		t.Fatalf("status %d, %v: %s%s", status, err, stdout, stderr)
	}
	if len(keys) != 4 || keys["time"] == nil || string(keys["provider"]) != `"node"` || keys["sockets"] == nil || string(keys["send_queue"]) != "[]" {
		t.Errorf("got %s", stdout)
	}
}

// Watching goes on while the node is away and shows the one that comes.
func TestWatch(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	n, ctl := node(t, "127.21.3.5", 17403)
	p := clitest.StartEnv(t, []string{"RDS_CONTROL=" + ctl}, bin.Path("rdsinfo"), "-k", "--watch", "10ms")
	for range 3 {
		p.Line(p.Stdout, "RDS Sockets:")
		p.Line(p.Stdout, "127.21.3.5  4000")
	}
	n.Close()
	p.Line(p.Stderr, "no node answers on "+ctl)
	again, err := rds.NewNode(rds.Config{Addresses: []netip.Addr{netip.MustParseAddr("127.21.3.5")}, Port: 17403, Control: ctl})
	rdstest.Must(t, err)
	defer again.Close()
	s, err := again.Bind(netip.MustParseAddrPort("127.21.3.5:4444"))
	rdstest.Must(t, err)
	defer s.Close()
	p.Line(p.Stdout, "127.21.3.5  4444")
	p.Signal(os.Interrupt)
	if status := p.Wait(); status != 0 {
		t.Errorf("status %d, %s", status, p.Stderr)
	}
	if strings.Contains(p.Stdout.String(), "\x1b") {
		t.Error("control characters although the output is no terminal")
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"--control", "/no/such.sock"}, 1, "rdsinfo: no node answers on /no/such.sock: start rdsd, or give the socket of another node with --control\n"},
		{[]string{"--watch", "--control", "/no/such.sock"}, 1, "rdsinfo: no node answers on /no/such.sock: start rdsd, or give the socket of another node with --control\n"},
		{[]string{"-y"}, 2, "rdsinfo: unknown shorthand flag: 'y' in -y (see rdsinfo --help)\n"},
		{[]string{"x"}, 2, `rdsinfo: unexpected argument "x" (see rdsinfo --help)` + "\n"},
		{[]string{"--watch", "x"}, 2, `rdsinfo: invalid argument "x" for --watch: want seconds, or a number and ms or us, such as 0.2 or 200ms (see rdsinfo --help)` + "\n"},
		{[]string{"--watch=0"}, 2, "rdsinfo: the interval of --watch must not be 0 (see rdsinfo --help)\n"},
		{[]string{"--provider", "tape"}, 2, `rdsinfo: no provider "tape" (have rdsd, kernel) (see rdsinfo --help)` + "\n"},
	} {
		status, stdout, stderr := info(t, c.args...)
		if status != c.status || stdout != "" || stderr != c.want {
			t.Errorf("%q: status %d, %s%s\nwant %d, %s", c.args, status, stdout, stderr, c.status, c.want)
		}
	}
}

func TestKernelWithoutRDS(t *testing.T) {
	t.Parallel()
	if _, err := rds.OpenKernel(); err == nil {
		t.Skip("needs a kernel without RDS (rmmod rds)")
	}
	status, stdout, stderr := info(t, "--provider", "kernel")
	if status != 1 || stdout != "" || !strings.Contains(stderr, "the kernel has no RDS") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	if status, stdout, _ := info(t, "--help"); status != 0 || !strings.Contains(stdout, "rdsinfo -c --watch") {
		t.Errorf("status %d, %s", status, stdout)
	}
}
