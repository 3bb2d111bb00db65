package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
	"github.com/rds-go/rds/xrc/objects"
)

// echoEnv has this binary be an application: it holds the path of a daemon's socket and the
// address of a socket there, which answers each message with itself.
const echoEnv = "RDS_TEST_ECHO"

func echo(where string) {
	path, at, _ := strings.Cut(where, " ")
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	c, err := rds.Dial(path)
	if err != nil {
		fail(err)
	}
	s, err := c.Bind(netip.MustParseAddrPort(at))
	if err != nil {
		fail(err)
	}
	fmt.Println("bound")
	for {
		m, err := s.Recv(context.Background())
		if err != nil {
			fail(err)
		}
		if err := s.Send(context.Background(), m.From, m.Data); err != nil {
			fail(err)
		}
		m.Release()
	}
}

// told is what rdsinfo -ax says.
type told struct {
	Sessions []rds.SessionInfo `json:"sessions"`
	Objects  *objects.Objects  `json:"xrc_objects"`
}

// awaitObjects asks rdsinfo -ax until ok.
func awaitObjects(t *testing.T, ctl, what string, ok func(*told) bool) *told {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for start := time.Now(); ; <-tick.C {
		status, stdout, stderr := info(t, "-ax", "--json", "--control", ctl)
		got := new(told)
		if err := json.Unmarshal([]byte(stdout), got); err != nil || status != 0 || got.Objects == nil {
			t.Fatalf("status %d, %v: %s%s", status, err, stdout, stderr)
		}
		if ok(got) {
			return got
		}
		if time.Since(start) > patience/3 { // the daemons live for a minute at most
			t.Fatalf("not %s: %s", what, stdout)
		}
	}
}

// sessionOf is the XRC session of the application with this queue, nil if there is none.
func (o *told) sessionOf(queue uint32) *objects.SessionEntry {
	q := slices.IndexFunc(o.Objects.SRQs, func(q objects.SRQEntry) bool { return queue != 0 && q.Ref.Number == queue })
	if q < 0 {
		return nil
	}
	s := slices.IndexFunc(o.Objects.Sessions, func(s objects.SessionEntry) bool { return s.ID == o.Objects.SRQs[q].Session })
	if s < 0 {
		return nil
	}
	return &o.Objects.Sessions[s]
}

// registered are the targets that a session is registered with.
func (o *told) registered(session uint64) (with []objects.Ref) {
	for _, r := range o.Objects.Registrations {
		if r.Session == session {
			with = append(with, r.Target)
		}
	}
	return with
}

// Of two hosts an application on the first is a session with a queue. Its registration with the
// target of the second host's path comes with traffic, and ends with the application. When the
// second daemon is killed the first one's target and initiator are suspended.
func TestObjectsOfTwoDaemons(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	tmp := rdstest.Dir(t)
	path := func(name string) string { return filepath.Join(tmp, name) }
	daemon := func(name, addr string) *clitest.Process {
		p := clitest.Start(t, bin.Path("rdsd"), "--listen", addr, "--port", "17441", "--wire", "xrc", "--socket", path(name+".sock"), "--control", path(name+".ctl"))
		p.Line(p.Stderr, "ready")
		return p
	}
	kill := func(p *clitest.Process) {
		p.Signal(syscall.SIGKILL)
		p.Wait()
	}
	const near, far = "127.21.41.5", "127.21.41.6"
	daemon("near", near)
	peer := daemon("far", far)
	app := clitest.StartEnv(t, []string{echoEnv + "=" + path("near.sock") + " " + near + ":4000"}, "/proc/self/exe")
	app.Line(app.Stdout, "bound")
	s := bind(t, attach(t, path("far.sock")), far+":4000")
	s.SetLinger(0)

	got := awaitObjects(t, path("near.ctl"), "attached", func(o *told) bool { return len(o.Sessions) == 1 })
	queue := got.Sessions[0].Queue
	x := got.sessionOf(queue)
	if got.Sessions[0].PID != app.PID() || x == nil || x.Name != fmt.Sprintf("application %d", got.Sessions[0].ID) || len(got.Objects.Sessions) != 2 {
		t.Fatalf("before traffic: %+v", got)
	}
	if with := got.registered(x.ID); len(with) != 0 {
		t.Errorf("registered before traffic: %v", with)
	}
	for _, q := range got.Objects.SRQs {
		if !q.Sink || q.Domain != got.Objects.Domains[0].Tag {
			t.Errorf("queue %+v, domains %+v", q, got.Objects.Domains)
		}
	}

	rdstest.MustSend(t, s, netip.MustParseAddrPort(near+":4000"), []byte("hello"))
	rdstest.Expect(t, s, "hello")
	got = awaitObjects(t, path("near.ctl"), "registered", func(o *told) bool { return len(o.registered(x.ID)) == 1 })
	theirs := awaitObjects(t, path("far.ctl"), "connected", func(o *told) bool { return len(o.Objects.Initiators) == 1 && o.Objects.Initiators[0].Connected })
	if n := len(got.Objects.Targets) + len(got.Objects.Initiators); n != 2 {
		t.Fatalf("%d queue pairs of a path: %+v", n, got.Objects)
	}
	target, initiator := got.Objects.Targets[0], got.Objects.Initiators[0]
	if target.Ref != got.registered(x.ID)[0] || target.Registered != 2 || !target.Connected || target.Suspended || target.State != objects.StateRTR ||
		target.Peer.Host.String() != far || target.Peer.QP != theirs.Objects.Initiators[0].Ref || target.Peer.Incarnation != theirs.Objects.Incarnation {
		t.Errorf("target %+v\nis not connected to %+v", target, theirs.Objects.Initiators[0])
	}
	if !initiator.Connected || initiator.Suspended || initiator.State != objects.StateRTS || initiator.SessionName != "rds" || initiator.Peer.QP != theirs.Objects.Targets[0].Ref {
		t.Errorf("initiator %+v\nis not connected to %+v", initiator, theirs.Objects.Targets[0])
	}

	kill(app)
	got = awaitObjects(t, path("near.ctl"), "without the application", func(o *told) bool { return len(o.Objects.Sessions) == 1 })
	if got.sessionOf(queue) != nil || len(got.Objects.SRQs) != 1 || len(got.registered(x.ID)) != 0 || len(got.Objects.Registrations) != 1 ||
		got.Objects.Targets[0].Ref != target.Ref || !got.Objects.Targets[0].Connected || got.Objects.Targets[0].Registered != 1 {
		t.Errorf("after the end of the application: %+v", got.Objects)
	}

	killed := time.Now()
	kill(peer)
	got = awaitObjects(t, path("near.ctl"), "suspended", func(o *told) bool {
		return len(o.Objects.Targets) == 1 && o.Objects.Targets[0].Suspended && o.Objects.Initiators[0].Suspended
	})
	for _, q := range []objects.QPEntry{got.Objects.Targets[0].QPEntry, got.Objects.Initiators[0].QPEntry} {
		if q.Connected || q.Ref != target.Ref && q.Ref != initiator.Ref || q.Since.Before(killed) || !q.Deadline.After(q.Since) {
			t.Errorf("%+v", q)
		}
	}
	_, stdout, _ := info(t, "-x", "--control", path("near.ctl"))
	if n := len(regexp.MustCompile(`(?m) suspended +\S+ +`+regexp.QuoteMeta(far)+` `).FindAllString(stdout, -1)); n != 2 {
		t.Errorf("%d lines of suspended queue pairs:\n%s", n, stdout)
	}
	t.Log(stdout)
}
