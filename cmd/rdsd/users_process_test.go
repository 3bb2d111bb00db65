//go:build live

package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
)

// as has a process be of another user.
func as(uid uint32) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root to start processes of other users")
	}
}

// users is what rdsd says that users have.
func usersOf(t *testing.T, ctl string) []rds.UserInfo {
	t.Helper()
	info, err := rds.FetchInfo(context.Background(), ctl)
	must(t, err)
	return info.Users
}

// Two users take of the daemon what they get. A third one gets what it asks for, and when the
// two are killed nothing is theirs. SIGHUP changes the shares.
func TestGreedyUsers(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	needRoot(t)
	tmp := rdstest.Dir(t)
	must(t, os.Chmod(tmp, 0o755))
	attach, ctl := filepath.Join(tmp, "a.sock"), filepath.Join(tmp, "c.sock")
	text := "listen = ['127.22.61.5']\nport = 17261\nwire = 'tcp'\n[users]\npeers = 6\nsockets = 5\n"
	file := write(t, text)
	d := daemonAt(t, "--config", file, "--socket", attach, "--control", ctl, "--drain", "0s")
	var two []*clitest.Process
	for i, uid := range []uint32{12001, 12002} {
		p := clitest.StartAs(t, as(uid), []string{greedyEnv + "=" + attach + " 127.22.61.5 127.22.3" + strconv.Itoa(2+i) + ".1"}, "/proc/self/exe")
		p.Line(p.Stdout, "sockets 5: rds: bind 127.22.61.5:0: 5 sockets are the share of user "+strconv.Itoa(int(uid)))
		p.Line(p.Stdout, "6 peers are the share of user "+strconv.Itoa(int(uid)))
		two = append(two, p)
	}
	for _, u := range usersOf(t, ctl) {
		if u.Peers != 6 || u.Sockets != 5 || u.Sessions != 1 || u.Memory == 0 {
			t.Errorf("%+v", u)
		}
	}
	must(t, os.WriteFile(file, []byte(strings.Replace(text, "peers = 6", "peers = 7", 1)), 0o600))
	d.Signal(syscall.SIGHUP)
	d.Line(d.Stderr, `reloaded	{"changed": ["users.peers"]}`)
	third := clitest.StartAs(t, as(12003), []string{greedyEnv + "=" + attach + " 127.22.61.5 127.22.34.1"}, "/proc/self/exe")
	third.Line(third.Stdout, "sockets 5")
	third.Line(third.Stdout, "peers 7")
	for _, p := range append(two, third) {
		p.Signal(syscall.SIGKILL)
		p.Wait()
	}
	rdstest.Eventually(t, "users to have nothing", func() bool { return len(usersOf(t, ctl)) == 0 })
	c := clientOf(t, attach) // root is exempt
	for range 9 {
		bind(t, c, "127.22.61.5:0")
	}
}

// Half a Hello, or none, on many connections of one user does not keep another one from
// attaching.
func TestHalfAttachments(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	needRoot(t)
	tmp := rdstest.Dir(t)
	must(t, os.Chmod(tmp, 0o755))
	attach := filepath.Join(tmp, "a.sock")
	daemonAt(t, "--listen", "127.22.35.5", "--port", "17235", "--socket", attach)
	p := clitest.StartAs(t, as(12001), []string{halfEnv + "=" + attach}, "/proc/self/exe")
	p.Line(p.Stdout, "held")
	for range 5 {
		c, err := rds.Dial(attach)
		must(t, err)
		c.Close()
	}
}
