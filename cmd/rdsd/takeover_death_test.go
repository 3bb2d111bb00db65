//go:build live

package main

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// deathRelay is between a daemon and its successor, at the path where successors ask. It
// passes their messages on, and kills one of the two at a point.
type deathRelay struct {
	*testing.T
	path  string
	point deathPoint
	cut   bool // the two lose sight of each other at the point, and nobody is killed
	l     *net.UnixListener
	done  chan struct{}
}

// deathPoint is the message of an exchange at which a relay kills.
type deathPoint int

// The points, in the order of the exchange.
const (
	diesAsked   deathPoint = iota // the daemon, with the answer ready; the successor gets nothing
	diesPassed                    // the daemon, when the successor has all
	diesReady                     // the daemon, when the successor is ready
	diesGo                        // the daemon, when it has said go
	diesServing                   // the successor, when it has said that it serves
)

// relayAt begins to relay for the next successor of a daemon.
func relayAt(t *testing.T, s *side, point deathPoint, cut bool) *deathRelay {
	t.Helper()
	r := &deathRelay{T: t, cut: cut, path: takeoverPath(s.path, ""), point: point, done: make(chan struct{})}
	must(t, os.Rename(r.path, r.real()))
	var err error
	if r.l, err = net.ListenUnix(ipc.Network, &net.UnixAddr{Name: r.path, Net: ipc.Network}); err != nil {
		t.Fatal(err)
	}
	r.l.SetUnlinkOnClose(false)
	daemon := s.daemon // the caller starts another one
	go func() {
		defer close(r.done)
		defer r.l.Close()
		r.run(daemon)
	}()
	return r
}

// real is where the daemon's socket is meanwhile.
func (r *deathRelay) real() string { return r.path + ".real" }

// restore waits for the end of the relay, and puts the daemon's socket back.
func (r *deathRelay) restore() {
	r.Helper()
	<-r.done
	if err := os.Rename(r.real(), r.path); err != nil {
		r.Error(err)
	}
}

func (r *deathRelay) run(daemon *clitest.Process) {
	u, err := r.l.AcceptUnix()
	if err != nil {
		r.Error(err)
		return
	}
	heir := ipc.NewConn(u)
	defer heir.Close()
	cred, err := heir.Peer()
	if err != nil {
		r.Error(err)
		return
	}
	old, err := ipc.Dial(r.real())
	if err != nil {
		r.Error(err)
		return
	}
	defer old.Close()
	for _, c := range []*ipc.Conn{heir, old} {
		_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	}
	// pass passes a message on, and tells whether it has: at the point dies is killed first,
	// and the message arrives only if last is set.
	pass := func(from, to *ipc.Conn, point deathPoint, dies int, last bool, v any, want int) bool {
		var m json.RawMessage
		files, err := from.ReceiveFiles(&m, want)
		defer ipc.CloseFiles(files)
		if err == nil && v != nil {
			err = json.Unmarshal(m, v)
		}
		if err != nil {
			r.Errorf("before point %d: %v", point, err)
			return false
		}
		if point == r.point && r.cut {
			return false
		}
		if point == r.point {
			_ = syscall.Kill(dies, syscall.SIGKILL)
			if !ended(dies) {
				r.Errorf("process %d lives", dies)
			}
			if !last {
				return false
			}
		}
		if err := to.Send(m, files...); err != nil {
			r.Errorf("point %d: %v", point, err)
			return false
		}
		return point != r.point
	}
	const none = deathPoint(-1)
	var answer takeoverAnswer
	if !pass(heir, old, none, 0, true, nil, 0) || !pass(old, heir, diesAsked, daemon.PID(), false, &answer, 0) {
		return
	}
	for left := answer.Files; left > 0; left -= takeoverFDs {
		point := none
		if left <= takeoverFDs {
			point = diesPassed
		}
		if !pass(old, heir, point, daemon.PID(), true, nil, min(left, takeoverFDs)) {
			return
		}
	}
	_ = pass(heir, old, diesReady, daemon.PID(), false, nil, 0) &&
		pass(old, heir, diesGo, daemon.PID(), true, nil, 0) &&
		pass(heir, old, diesServing, cred.PID, true, nil, 0)
}

// A daemon that is killed when its successor has all that there is ends as one that was
// taken over: the successor serves, no message is lost, doubled or without Success,
// applications keep their sessions, and a later takeover succeeds.
func TestPredecessorDies(t *testing.T) {
	t.Parallel()
	rdstest.EachWire(t, func(t *testing.T, wire rds.Wire) {
		u := upgradesOf(t, string(wire))
		u.load()
		u.connecting(u.sides[0])
		u.traffic()
		for i, point := range []deathPoint{diesPassed, diesReady, diesGo} {
			s := u.sides[i%2]
			was, relay := s.daemon, relayAt(t, s, point, false)
			u.startWith(s, "--takeover")
			relay.restore()
			if status := was.Wait(); status != -1 {
				t.Errorf("point %d: the predecessor's status is %d", point, status)
			}
			u.traffic()
		}
		u.upgrade(u.sides[0])
		u.upgrade(u.sides[1])
		u.judge()
	})
}

// Where no daemon is left, because the old one is killed before it has passed anything on, or
// the new one as soon as it serves, applications hear of that as of a daemon that is
// killed: each message has one fate, none that has ended with Success is lost, none is
// doubled, and the applications go on with the next daemon.
func TestNobodyTakesOver(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	points := []deathPoint{diesAsked, diesServing}
	r := restarts{times: len(points), down: 200 * time.Millisecond, hold: 300 * time.Millisecond, kill: true}
	r.end = func(r *restarts, s *side, nth int) {
		t, was := r.T, s.daemon
		relay := relayAt(t, s, points[nth], false)
		failed := clitest.StartEnv(t, []string{"RDS_SOCKET=none", "RDS_CONTROL=none"}, bin.Path("rdsd"), append(r.args(s), "--takeover")...)
		relay.restore()
		want := [2]int{0, -1} // exit statuses of the old daemon and of the new one
		if points[nth] == diesAsked {
			want = [2]int{-1, 1}
		}
		if got := [2]int{was.Wait(), failed.Wait()}; got != want {
			t.Errorf("point %d: status %d, want %d\n%s\n%s", points[nth], got, want, was.Stderr, failed.Stderr)
		}
	}
	r.each(t, []string{"xrc", "tcp"}, []int{1000})
}

// A daemon and its successor, in a PID namespace of its own, lose sight of each other: one of
// them serves, the one that has the lock, and the other one ends or goes on as before. No message is
// lost, doubled or without Success, and a later takeover succeeds.
func TestOneOfTwoServes(t *testing.T) {
	t.Parallel()
	needRoot(t)
	rdstest.EachWire(t, func(t *testing.T, wire rds.Wire) {
		u := upgradesOf(t, string(wire))
		u.load()
		u.connecting(u.sides[0])
		u.traffic()
		for i, point := range []deathPoint{diesPassed, diesReady, diesGo, diesServing} {
			s := u.sides[i%2]
			relay, before := relayAt(t, s, point, true), len(s.daemon.Stderr.String())
			next := clitest.StartCommand(t, func(cmd *exec.Cmd) {
				cmd.Env = append(cmd.Env, "RDS_SOCKET=none", "RDS_CONTROL=none")
				cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
			}, bin.Path("rdsd"), append(u.args(s), "--takeover")...)
			var taken bool
			rdstest.Eventually(t, "the daemon to go on or to leave", func() bool {
				log := s.daemon.Stderr.String()[before:]
				taken = strings.Contains(log, "taken over")
				return taken || strings.Contains(log, "takeover failed, this daemon goes on")
			})
			if point != diesGo && taken != (point == diesServing) { // at go either may have the lock
				t.Fatalf("point %d: taken over: %v", point, taken)
			}
			if taken {
				next.Line(next.Stderr, "ready")
				if status := s.daemon.Wait(); status != 0 {
					t.Errorf("the daemon without the lock ends with %d", status)
				}
				s.daemon = next
			} else {
				if status := next.Wait(); status != 1 || !strings.Contains(next.Stderr.String(), "takeover: ") {
					t.Errorf("point %d: the successor's status is %d: %s", point, status, next.Stderr)
				}
			}
			relay.restore()
			u.traffic()
		}
		u.upgrade(u.sides[0])
		u.upgrade(u.sides[1])
		u.judge()
	})
}
