package control

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// client speaks HTTP to the server on path.
func client(path string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}
}

func TestModeAndGroup(t *testing.T) {
	for _, mode := range []fs.FileMode{0o600, 0o666, 0} {
		path := socket(t)
		s, err := Config{Path: path, Mode: mode, Group: os.Getgid()}.Serve(constant)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		want := mode
		if want == 0 {
			want = DefaultMode
		}
		if info.Mode().Perm() != want {
			t.Errorf("mode %v, want %v", info.Mode(), want)
		}
	}
}

func TestGroupOfTheFile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to give a file to another group")
	}
	path := socket(t)
	s, err := Config{Path: path, Group: 12345}.Serve(constant)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if gid := info.Sys().(*syscall.Stat_t).Gid; gid != 12345 {
		t.Errorf("group %d, want 12345", gid)
	}
}

// A group that may not be given fails the start and leaves no file.
func TestGroupThatCannotBe(t *testing.T) {
	path := socket(t)
	if os.Geteuid() == 0 {
		t.Skip("needs another user than root, who may give files to any group")
	}
	gid := uint32(math.MaxUint32 - 1) // negative as an int of 32 bits
	if _, err := (Config{Path: path, Group: int(gid)}).Serve(constant); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("group %d: ", int(gid))) {
		t.Errorf("error %v, want one that names the group", err)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
		t.Errorf("files left: %v", left)
	}
}

// A listener that was given is served, closed, and its file left to its owner.
func TestGivenListener(t *testing.T) {
	path := socket(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false) // as one inherited from a service manager
	s, err := Config{Path: "/not/used", Listener: l}.Serve(constant)
	if err != nil {
		t.Fatal(err)
	}
	var got report
	if err := Fetch(limit(t), path, &got); err != nil || got.Count != 7 {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the socket file is gone: %v", err)
	}
	if _, err := net.Dial("unix", path); err == nil {
		t.Error("the listener is still open")
	}
}

func get(t *testing.T, path, target string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(limit(t), http.MethodGet, "http://rds"+target, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client(path).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, strings.TrimSpace(string(body))
}

func TestExtraHandlers(t *testing.T) {
	path := socket(t)
	extra := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "extra "+r.URL.Path) })
	s, err := Config{Path: path, Extra: map[string]http.Handler{"/debug/": extra}}.Serve(constant)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for target, want := range map[string]string{
		"/debug/x": "extra /debug/x",
		"/v1/info": `{"name":"node","count":7}`,
		"/debug":   `{"error":"no such report; there is /v1/info"}`,
	} {
		if _, got := get(t, path, target); got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
}

// deadlined is a listener that keeps the latest deadlines of its connections.
type deadlined struct {
	net.Listener
	mu          sync.Mutex // guards the fields below
	read, write time.Time
}

type deadlinedConn struct {
	net.Conn
	l *deadlined
}

func (l *deadlined) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &deadlinedConn{c, l}, nil
}

func (c *deadlinedConn) SetReadDeadline(t time.Time) error {
	c.l.mu.Lock()
	c.l.read = t
	c.l.mu.Unlock()
	return c.Conn.SetReadDeadline(t)
}

func (c *deadlinedConn) SetWriteDeadline(t time.Time) error {
	c.l.mu.Lock()
	c.l.write = t
	c.l.mu.Unlock()
	return c.Conn.SetWriteDeadline(t)
}

// A profile of a minute was cut to 5 s: when the deadline for reading the
// request passed, net/http ended its context.
func TestExtraHandlerMayTakeLong(t *testing.T) {
	path := socket(t)
	unixListener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l := &deadlined{Listener: unixListener}
	var read, write time.Duration
	extra := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		l.mu.Lock()
		defer l.mu.Unlock()
		read, write = time.Until(l.read), time.Until(l.write)
	})
	s, err := Config{Listener: l, Extra: map[string]http.Handler{"/slow": extra}}.Serve(constant)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	get(t, path, "/slow")
	if read < extraTimeout/2 || write < extraTimeout/2 {
		t.Errorf("a handler may read for %v and write for %v, want about %v", read, write, extraTimeout)
	}
}

// Close ends the context of a handler and waits for it.
func TestCloseEndsExtraHandler(t *testing.T) {
	path := socket(t)
	entered, left := make(chan struct{}), make(chan struct{})
	extra := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
		close(left)
	})
	s, err := Config{Path: path, Extra: map[string]http.Handler{"/": extra}}.Serve(constant)
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if res, err := client(path).Get("http://rds/"); err == nil {
			res.Body.Close()
		}
	}()
	<-entered
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-left:
	default:
		t.Error("Close returned while a handler was running")
	}
	<-answered
}
