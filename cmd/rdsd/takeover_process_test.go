//go:build live

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// place is what the side's daemon has.
func (u *upgrades) place(s *side) place {
	return place{Listen: []string{s.addr.Addr().String()}, Port: u.port, Wire: u.wire, Socket: s.path}
}

// A takeover that fails leaves the daemon serving: wherever the successor is killed, hangs
// or gives up, traffic goes on as if nothing had been, no message is lost, doubled or
// without Success, and a later takeover succeeds.
func TestFailedTakeovers(t *testing.T) {
	t.Parallel()
	points := []string{failsAsked, failsState, failsMade, failsReady, failsGo, failsError, hangsState, hangsGo}
	rdstest.EachWire(t, func(t *testing.T, wire rds.Wire) {
		u := upgradesOf(t, string(wire))
		u.load()
		u.connecting(u.sides[0])
		u.traffic()
		for i, point := range points {
			s := u.sides[i%2]
			if wire == "tcp" && (point == hangsState || point == hangsGo) {
				continue // takes seconds
			}
			b, err := json.Marshal(failing{point, takeoverPath(s.path, ""), u.place(s)})
			must(t, err)
			failed := clitest.StartEnv(t, []string{successorEnv + "=" + string(b)}, os.Args[0], "-test.run=^$")
			s.daemon.Line(s.daemon.Stderr, "takeover begins")
			line := s.daemon.Line(s.daemon.Stderr, "takeover failed, this daemon goes on")
			if point == failsError && !strings.Contains(line, "no memory") {
				t.Errorf("%s: %s", point, line)
			}
			u.traffic()
			if point == hangsState {
				failed.Signal(syscall.SIGKILL)
			}
			failed.Wait()
			if s := failed.Stderr.String(); s != "" {
				t.Errorf("%s: %s", point, s)
			}
		}
		u.upgrade(u.sides[0])
		u.upgrade(u.sides[1])
		u.judge()
	})
}

// A successor of another version, with other settings or without the right to is refused,
// says why, and the daemon notices nothing.
func TestRefusedTakeovers(t *testing.T) {
	t.Parallel()
	u := upgradesOf(t, "xrc")
	u.load()
	u.traffic()
	s := u.sides[0]
	path := takeoverPath(s.path, "")
	for what, q := range map[string]takeoverAskMessage{
		"another version of the exchange": {Version: takeoverVersion + 1, Legacy: rds.LegacyVersion, Place: u.place(s)},
		"another version of the state":    {Version: takeoverVersion, Legacy: rds.LegacyVersion + 1, Place: u.place(s)},
	} {
		c, err := ipc.Dial(path)
		must(t, err)
		var answer takeoverAnswer
		if err = c.Send(&q); err == nil {
			err = c.Receive(&answer)
		}
		_ = c.Close()
		if err != nil || !strings.Contains(answer.Error, "versions") {
			t.Errorf("%s: %q, %v", what, answer.Error, err)
		}
	}
	args := func(listen string, more ...string) []string {
		return append([]string{"--takeover", "--listen", listen, "--port", fmt.Sprint(u.port), "--wire", u.wire, "--socket", s.path, "--control", "none"}, more...)
	}
	here := s.addr.Addr().String()
	for _, c := range []struct {
		what   string
		args   []string
		status int
		want   string
	}{
		{"bad settings", args(here, "--npaths", "2"), statusConfig, "npaths"},
		{"another address", args("127.22.62.77"), 1, "the running daemon goes on: other settings than this daemon's: listen"},
		{"another wire and port", append(args(here), "--wire", "tcp", "--port", "1"), 1, "other settings than this daemon's: port, wire"},
		{"metrics", args(here, "--metrics", "127.0.0.1:1"), 1, "other settings than this daemon's: metrics"},
		{"nobody there", []string{"--takeover", "--listen", here, "--socket", filepath.Join(u.dir, "none.sock"), "--control", "none"}, 1, "no rdsd to take over from"},
	} {
		status, _, stderr := clitest.Run(t, bin.Path("rdsd"), c.args...)
		if status != c.status || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: status %d, %s", c.what, status, stderr)
		}
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if os.Geteuid() == 0 { // the mode of the file is not the only bar
		must(t, os.Chmod(path, 0o666))
		must(t, os.Chmod(u.dir, 0o755))
		cmd := exec.Command(bin.Path("rdsd"), args(here)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		must(t, os.Chmod(filepath.Dir(bin.Path("rdsd")), 0o755))
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "user 65534 may not take over from user 0") {
			t.Errorf("another user: %v: %s", err, out)
		}
	}
	if strings.Contains(s.daemon.Stderr.String(), "takeover begins") {
		t.Error("a successor that is refused has stopped the traffic")
	}
	u.traffic()
	u.upgrade(s)
	u.judge()
}

// A signal has a daemon start its successor, of the program that is at its path then, with
// the same arguments; the service manager hears which process is the service.
func TestUpgradeBySignal(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	tmp := rdstest.Dir(t)
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(tmp, "n.sock"), Net: "unixgram"})
	must(t, err)
	defer l.Close()
	socket := filepath.Join(tmp, "a.sock")
	log, err := os.Create(filepath.Join(tmp, "log")) // not a pipe, which the successors would keep open
	must(t, err)
	defer log.Close()
	d := exec.Command(bin.Path("rdsd"), "--listen", "127.22.62.5", "--port", "17262", "--socket", socket,
		"--control", filepath.Join(tmp, "c.sock"), "--metrics", "127.22.62.5:17269")
	d.Env, d.Stderr = append(os.Environ(), "NOTIFY_SOCKET="+filepath.Join(tmp, "n.sock")), log
	must(t, d.Start())
	defer func() { _ = d.Process.Kill() }()
	hear := func(want string) string {
		t.Helper()
		b := make([]byte, 256)
		_ = l.SetReadDeadline(time.Now().Add(20 * time.Second))
		for {
			n, err := l.Read(b)
			if err != nil {
				said, _ := os.ReadFile(log.Name())
				t.Fatalf("%s: %v\n%s", want, err, said)
			}
			if strings.HasPrefix(string(b[:n]), want) {
				return string(b[:n])
			}
		}
	}
	hear("READY=1")
	clientOf(t, socket)
	pid := d.Process.Pid
	for range 2 {
		must(t, syscall.Kill(pid, syscall.SIGUSR2))
		if _, err := fmt.Sscanf(hear("MAINPID="), "MAINPID=%d", &pid); err != nil || pid == 0 {
			t.Fatal(err)
		}
	}
	if err := d.Wait(); err != nil {
		t.Error(err)
	}
	defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
	rdstest.Eventually(t, "the application at the last daemon", func() bool {
		info, err := rds.FetchInfo(t.Context(), filepath.Join(tmp, "c.sock"))
		return err == nil && len(info.Sessions) == 1 && info.Sessions[0].PID == os.Getpid()
	})
	scrape, err := net.Dial("tcp", "127.22.62.5:17269")
	must(t, err)
	scrape.Close()
	must(t, syscall.Kill(pid, syscall.SIGTERM))
	for _, name := range []string{"a.sock", "c.sock", "a.takeover"} {
		rdstest.Eventually(t, name+" is removed", func() bool { _, err := os.Lstat(filepath.Join(tmp, name)); return err != nil })
	}
}

// A successor that finds a daemon which does not answer says so, and ends; the daemon goes on when it is awake.
func TestTakeoverFromAStoppedDaemon(t *testing.T) {
	t.Parallel()
	u := upgradesOf(t, "xrc")
	s := u.sides[0]
	s.daemon.Signal(syscall.SIGSTOP)
	began := time.Now()
	status, _, stderr := clitest.Run(t, bin.Path("rdsd"), append(u.args(s), "--takeover")...)
	if took := time.Since(began); status != 1 || !strings.Contains(stderr, "does not answer: it is stopped, or hangs") || took > 2*takeoverAnswerTime {
		t.Errorf("status %d after %v: %s", status, took, stderr)
	}
	s.daemon.Signal(syscall.SIGCONT)
	u.load()
	u.traffic()
	u.upgrade(s)
	u.judge()
}
