//go:build live

package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/cli/clitest"
	"github.com/rds-go/rds/internal/control"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/rdstest"
)

// Profiles and metrics are where they were asked for and nowhere else.
func TestDaemonShowsProfilesAndMetrics(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	ctl := filepath.Join(rdstest.Dir(t), "c.sock")
	d := daemonAt(t, "--listen", "127.22.6.5", "--port", "17206", "--control", ctl, "--pprof", "--metrics", "127.22.6.5:0")
	_, rest, _ := strings.Cut(d.Stderr.String(), `metrics	{"address": "`)
	addr, _, _ := strings.Cut(rest, `"`)
	overControl := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", ctl)
		},
	}}
	for _, c := range []struct {
		client *http.Client
		url    string
		status int
		want   string
	}{
		{overControl, "http://rds/debug/pprof/goroutine?debug=1", 200, "goroutine profile: total"},
		{overControl, "http://rds/debug/pprof/", 200, "/debug/pprof/"},
		{overControl, "http://rds/metrics", 404, "no such report"},
		{http.DefaultClient, "http://" + addr + "/metrics", 200, "\nrds_sessions 0\n"},
		{http.DefaultClient, "http://" + addr + "/debug/pprof/", 404, "not found"},
	} {
		res, err := c.client.Get(c.url)
		must(t, err)
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != c.status || !strings.Contains(string(body), c.want) {
			t.Errorf("%s: status %d, %.200s", c.url, res.StatusCode, body)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	terminate(t, d)
}

// A daemon that inherits its sockets serves them, ends, and leaves their files
// to who made them.
func TestDaemonInheritsSockets(t *testing.T) {
	t.Parallel()
	clitest.NeedLoopback(t)
	tmp := rdstest.Dir(t)
	listen := func(network, name string) (string, *os.File) {
		path := filepath.Join(tmp, name)
		l, err := net.ListenUnix(network, &net.UnixAddr{Name: path, Net: network})
		must(t, err)
		l.SetUnlinkOnClose(false)
		defer l.Close()
		f, err := l.File()
		must(t, err)
		return path, f
	}
	ctl, ctlFile := listen("unix", "ctl")
	attach, attachFile := listen(ipc.Network, "attach")
	defer ctlFile.Close()
	defer attachFile.Close()

	// LISTEN_PID is the process's own, which the shell knows before it becomes rdsd.
	cmd := exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, bin.Path("rdsd"),
		"--listen", "127.22.7.5", "--port", "17207", "--socket", "/no/such/dir/a.sock", "--control", "/no/such/dir/c.sock")
	cmd.Env = append(os.Environ(), "LISTEN_FDS=2", "LISTEN_FDNAMES=control:attach")
	cmd.ExtraFiles = []*os.File{ctlFile, attachFile}
	log, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	var seen strings.Builder
	b := make([]byte, 4096)
	for !strings.Contains(seen.String(), "ready") {
		n, err := log.Read(b)
		if err != nil {
			t.Fatalf("%v before it was ready:\n%s", err, &seen)
		}
		seen.Write(b[:n])
	}
	for _, want := range []string{`"socket": "` + attach + `"`, `"control": "` + ctl + `"`} {
		if !strings.Contains(seen.String(), want) {
			t.Errorf("no %s in %s", want, &seen)
		}
	}
	var info struct{ Provider string }
	if err := control.Fetch(context.Background(), ctl, &info); err != nil || info.Provider != "node" {
		t.Errorf("control socket: %+v, %v", info, err)
	}
	clientOf(t, attach)
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	rest, _ := io.ReadAll(log)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, rest)
	}
	for _, path := range []string{ctl, attach} {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("the socket of the service manager is gone: %v", err)
		}
	}
}
