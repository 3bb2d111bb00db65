//go:build live

package main

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds"
	"github.com/rds-go/rds/xrc/objects"
)

// Whoever may not ask at the control socket is told by the socket of applications what is
// their own, and that the rest is left out. Root, and the group of the control socket, are
// told everything there.
func TestReportsOfTheirOwn(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	if os.Getuid() != 0 {
		t.Skip("needs root to start processes of other users")
	}
	tmp := rdstest.Dir(t)
	for _, dir := range []string{tmp, string(bin)} {
		rdstest.Must(t, os.Chmod(dir, 0o755))
	}
	attach, ctl, file := filepath.Join(tmp, "a.sock"), filepath.Join(tmp, "c.sock"), filepath.Join(tmp, "rdsd.toml")
	rdstest.Must(t, os.WriteFile(file, []byte("listen = ['127.21.31.5']\nport = 17431\ncontrol_group = 12077\n"), 0o600))
	d := clitest.StartEnv(t, []string{"RDS_SOCKET=" + attach, "RDS_CONTROL=" + ctl}, bin.Path("rdsd"), "--config", file)
	d.Line(d.Stderr, "ready")
	c, err := rds.Dial(attach)
	rdstest.Must(t, err)
	defer c.Close()
	if _, err := c.Bind(netip.MustParseAddrPort("127.21.31.5:4000")); err != nil {
		t.Fatal(err)
	}
	env := []string{"RDS_SOCKET=" + attach, "RDS_CONTROL=" + ctl}
	ask := func(uid uint32, groups []uint32, args ...string) (sockets int, leftOut, stderr string) {
		t.Helper()
		attr := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, Groups: groups}}
		p := clitest.StartAs(t, attr, env, bin.Path("rdsinfo"), append(args, "--json", "-kacx")...)
		status := p.Wait()
		var got struct {
			Sockets  []rds.SocketInfo
			Sessions []rds.SessionInfo
			Counters []any
			LeftOut  string           `json:"left_out"`
			Objects  *objects.Objects `json:"xrc_objects"`
		}
		if err := json.Unmarshal([]byte(p.Stdout.String()), &got); status != 0 || err != nil {
			t.Fatalf("status %d, %v: %s%s", status, err, p.Stdout, p.Stderr)
		}
		if len(got.Counters) > 0 != (got.LeftOut == "") || got.LeftOut != "" && (len(got.Sessions) != 1 || got.Sessions[0].UID != uid) {
			t.Errorf("user %d: %s", uid, p.Stdout)
		}
		switch o := got.Objects; {
		case o == nil:
			t.Errorf("user %d: no objects of XRC: %s", uid, p.Stdout)
		case got.LeftOut != "" && (len(o.Sessions) != 1 || len(o.SRQs) != 1 || o.SRQs[0].Ref.Number != got.Sessions[0].Queue):
			t.Errorf("user %d has one session: %+v", uid, o)
		case got.LeftOut == "" && len(o.Sessions) < 2: // those of rdsd and of c
			t.Errorf("user %d is not told of all sessions: %+v", uid, o)
		}
		return len(got.Sockets), got.LeftOut, p.Stderr.String()
	}
	if n, leftOut, stderr := ask(12001, nil); n != 0 || leftOut == "" || !strings.Contains(stderr, "rdsinfo: "+leftOut) {
		t.Errorf("another user is told of %d sockets, %q, %q", n, leftOut, stderr)
	}
	if n, leftOut, _ := ask(12001, []uint32{12077}, "--socket", attach); n != 1 || leftOut != "" {
		t.Errorf("the group of the control socket is told of %d sockets, %q", n, leftOut)
	}
	if n, leftOut, _ := ask(0, nil, "--socket", attach); n != 1 || leftOut != "" {
		t.Errorf("root is told of %d sockets, %q", n, leftOut)
	}
	if n, leftOut, _ := ask(12001, []uint32{12077}); n != 1 || leftOut != "" {
		t.Errorf("by the control socket its group is told of %d sockets, %q", n, leftOut)
	}
	p := clitest.StartAs(t, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12001, Gid: 12001}}, env, bin.Path("rdsinfo"), "--control", ctl)
	if status := p.Wait(); status != 1 || !strings.Contains(p.Stderr.String(), "no permission for "+ctl) {
		t.Errorf("the control socket that was chosen: status %d, %s", status, p.Stderr)
	}
}
