//go:build live

package daemon

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/invariants"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
)

// doomed is one place that a process has at a daemon; when that is killed
// another one takes it.
type doomed struct {
	testing.TB
	path        string
	role        string
	at          netip.AddrPort
	targets     []string
	incarnation int

	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *bytes.Buffer
}

func (d *doomed) start() {
	d.Helper()
	d.incarnation++
	args := append([]string{d.path, d.role, d.at.String(), fmt.Sprint(d.incarnation)}, d.targets...)
	d.cmd = rdstest.Process("TestApplicationsAreKilled", "application", args...)
	d.stderr = new(bytes.Buffer)
	d.cmd.Stderr = d.stderr
	d.in, d.out = rdstest.Piped(d, d.cmd)
}

func (d *doomed) ready() {
	d.Helper()
	if line, err := d.out.ReadString('\n'); err != nil || line != "ready\n" {
		d.Fatalf("%s at %v: %q, %v: %s", d.role, d.at, line, err, d.stderr)
	}
}

func (d *doomed) kill() {
	d.Helper()
	_ = d.cmd.Process.Kill()
	if err := d.cmd.Wait(); err == nil || err.Error() != "signal: killed" {
		d.Fatalf("%s at %v ended by itself: %v: %s", d.role, d.at, err, d.stderr)
	}
}

// end lets the process finish, and returns what it says.
func (d *doomed) end(input string) (said string) {
	d.Helper()
	_, _ = io.WriteString(d.in, input)
	_ = d.in.Close()
	b, _ := io.ReadAll(d.out)
	if err := d.cmd.Wait(); err != nil {
		d.Fatalf("%s at %v: %v: %s", d.role, d.at, err, d.stderr)
	}
	return string(b)
}

// usage is what the process has.
type usage struct {
	fds, goroutines, maps int
	rss, shared           int // KiB
}

func used(t testing.TB) (u usage) {
	t.Helper()
	debug.FreeOSMemory()
	u.fds, u.goroutines = fds(t), runtime.NumGoroutine()
	maps, err := os.ReadFile("/proc/self/maps")
	rdstest.Must(t, err)
	u.maps = bytes.Count(maps, []byte("rds-session"))
	status, err := os.ReadFile("/proc/self/status")
	rdstest.Must(t, err)
	for line := range strings.Lines(string(status)) {
		_, _ = fmt.Sscanf(line, "RssAnon: %d", &u.rss)
		_, _ = fmt.Sscanf(line, "RssShmem: %d", &u.shared)
	}
	return u
}

// Applications are killed at any moment while they exchange messages. Others
// lose, double and reorder none, those killed leave nothing behind, and their
// ports can be bound again.
func TestApplicationsAreKilled(t *testing.T) { // not in parallel: it measures the process
	if os.Getenv(rdstest.RoleEnv) == "application" {
		beApplication(strings.Fields(os.Getenv(rdstest.ArgEnv)))
	}
	kills := 200
	if testing.Short() || invariants.Enabled {
		kills = 20
	}
	l := newLab(t)
	cfg := config.Node{Linger: 10 * time.Second, ReconnectMax: 50 * time.Millisecond}
	n1, svc1, p1 := served(t, l, cfg, config.Service{SendArena: 4 << 20, ReceiveArena: 4 << 20})
	n2, svc2, p2 := served(t, l, cfg, config.Service{SendArena: 4 << 20, ReceiveArena: 4 << 20})
	a1, a2 := rdstest.NewAddr(), rdstest.NewAddr()

	survivor := &doomed{TB: t, path: p2, role: "survive", at: rdstest.AddrOf(a2, 100)}
	var targets []string
	var victims, receivers, senders []*doomed
	for i := range uint16(2) {
		at := rdstest.AddrOf(a2, 200+i)
		receivers = append(receivers, &doomed{TB: t, path: p2, role: "receive", at: at})
		targets = append(targets, at.String())
	}
	targets = append(targets, survivor.at.String())
	for i := range uint16(3) {
		senders = append(senders, &doomed{TB: t, path: p1, role: "send", at: rdstest.AddrOf(a1, 300+i), targets: targets})
	}
	victims = append(append(victims, receivers...), senders[1:]...) // the first sender survives

	round := func(kills int) {
		for _, d := range append([]*doomed{survivor}, receivers...) {
			d.start()
			d.ready()
		}
		for _, d := range senders {
			d.start()
		}
		for range kills {
			<-time.After(time.Duration(rand.IntN(60_000)) * time.Microsecond)
			d := victims[rand.IntN(len(victims))]
			d.kill()
			d.start()
		}
		var sent strings.Builder
		for _, d := range senders {
			said := d.end("")
			if _, line, ok := strings.Cut(said, "sent "); ok {
				sent.WriteString(line)
			} else {
				t.Fatalf("the sender at %v said %q", d.at, said)
			}
		}
		for _, d := range receivers {
			d.end("")
		}
		survivor.end(sent.String())
		// The next round's first incarnations follow those of this one, but the
		// survivor is new.
		endOfSessions(t, svc1, svc2)
	}
	round(4) // connections, pools and the table are there from now on
	base := used(t)
	start := time.Now()
	round(kills)
	t.Logf("%d processes killed in %v", kills, time.Since(start))

	var now usage
	if !rdstest.Holds(rdstest.Patience, func() bool {
		now = used(t)
		return now.fds <= base.fds && now.goroutines <= base.goroutines+2 && now.maps <= base.maps+8 && // what settled entries of a connection's log still point to
			now.rss <= base.rss+(24<<10) && now.shared <= base.shared+(1<<10)
	}) {
		t.Errorf("PROMISE: before %+v, afterwards %+v", base, now)
	}
	t.Logf("before %+v, afterwards %+v", base, now)
	wantNothingLeft(t, n1, n2)
}

func endOfSessions(t *testing.T, services ...*Service) {
	t.Helper()
	for _, svc := range services {
		rdstest.Eventually(t, "the end of all sessions", func() bool {
			svc.mu.Lock()
			defer svc.mu.Unlock()
			return svc.live == 0 && len(svc.lingering) == 0 && len(svc.sessions) == 0 && len(svc.users) == 0
		})
	}
}

// wantNothingLeft checks that nodes have nothing of applications that have ended.
func wantNothingLeft(t *testing.T, nodes ...*node.Node) {
	t.Helper()
	for _, n := range nodes {
		if k := len(n.Sockets()); k != 0 {
			t.Errorf("%d sockets are left", k)
		}
		n.EachPeer(func(p *node.Peer) {
			p.Lock()
			defer p.Unlock()
			if k := len(p.Flows); k != 0 {
				t.Errorf("%v: %d flows are left", p.Remote, k)
			}
		})
		if k := len(rdstest.Report(t, n).Retransmit); k != 0 {
			t.Errorf("%d messages are not acknowledged", k)
		}
		rdstest.WantCounter(t, n, "recv_drop_overrun", 0)
		for _, c := range rdstest.Report(t, n).Connections {
			if c.Queued != 0 {
				t.Errorf("%v: %d bytes are queued", c.Remote, c.Queued)
			}
		}
	}
}
