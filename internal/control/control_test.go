package control

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

type report struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

func constant() (any, error) { return report{"node", 7}, nil }

// socket returns a path short enough for sockaddr_un.
func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ctl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "c.sock")
}

func serve(t *testing.T, path string, snapshot func() (any, error)) io.Closer {
	t.Helper()
	s, err := Serve(path, snapshot)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func limit(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestFetchReturnsSnapshot(t *testing.T) {
	path := socket(t)
	s := serve(t, path, constant)
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := info.Mode(), fs.ModeSocket|0o660; got != want {
		t.Errorf("mode %v, want %v", got, want)
	}
	var got report
	if err := Fetch(limit(t), path, &got); err != nil {
		t.Fatal(err)
	}
	if want := (report{"node", 7}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	left, _ := os.ReadDir(filepath.Dir(path))
	if len(left) != 0 {
		t.Errorf("files left after Close: %v", left)
	}
	if err := s.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("second Close: %v, want net.ErrClosed", err)
	}
}

// A request may name parts. A server that knows none answers as to any other request.
func TestFetchNamesParts(t *testing.T) {
	path, plain := socket(t), socket(t)
	with := func(parts []string) (any, error) { return report{strings.Join(parts, "+"), len(parts)}, nil }
	s, err := Config{Path: path, With: with}.Serve(constant)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	serve(t, plain, constant)
	for _, c := range []struct {
		path  string
		parts []string
		want  report
	}{
		{path, nil, report{"node", 7}},
		{path, []string{"a"}, report{"a", 1}},
		{path, []string{"a&b=?", "c"}, report{"a&b=?+c", 2}},
		{plain, []string{"a"}, report{"node", 7}},
	} {
		var got report
		if err := Fetch(limit(t), c.path, &got, c.parts...); err != nil || got != c.want {
			t.Errorf("parts %q: %+v, %v, want %+v", c.parts, got, err, c.want)
		}
	}
}

func TestFetchReportsServersError(t *testing.T) {
	path := socket(t)
	serve(t, path, func() (any, error) { return nil, errors.New("no snapshot today") })
	err := Fetch(limit(t), path, new(report))
	if err == nil || !strings.Contains(err.Error(), "no snapshot today") || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v, want the server's text and the path", err)
	}
}

func TestFetchReportsUnencodableSnapshot(t *testing.T) {
	path := socket(t)
	serve(t, path, func() (any, error) { return make(chan int), nil })
	if err := Fetch(limit(t), path, new(report)); err == nil {
		t.Error("no error")
	}
}

func TestFetchWithoutServer(t *testing.T) {
	err := Fetch(limit(t), socket(t), new(report))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want fs.ErrNotExist", err)
	}
}

func TestFetchEndsWithContext(t *testing.T) {
	path := socket(t)
	l, err := net.Listen("unix", path) // accepts in the kernel, never answers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(context.Background())
	fetched, left := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(left)
		c, err := l.Accept()
		cancel()
		if err == nil {
			<-fetched // the end of the connection must not come before that of ctx
			c.Close()
		}
	}()
	if err := Fetch(ctx, path, new(report)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	close(fetched)
	l.Close()
	<-left
}

func TestRefusesOtherRequests(t *testing.T) {
	path := socket(t)
	serve(t, path, constant)
	client := client(path)
	for _, c := range []struct {
		method, target string
		status         int
		body           string
	}{
		{"GET", "/v1/info", 200, `{"name":"node","count":7}`},
		{"POST", "/v1/info", 405, `{"error":"only GET is allowed"}`},
		{"HEAD", "/v1/info", 405, ``},
		{"DELETE", "/v1/info", 405, `{"error":"only GET is allowed"}`},
		{"GET", "/", 404, `{"error":"no such report; there is /v1/info"}`},
		{"GET", "/v1/info/", 404, `{"error":"no such report; there is /v1/info"}`},
		{"GET", "/v2/info", 404, `{"error":"no such report; there is /v1/info"}`},
		{"POST", "/v1/../v1/info", 404, `{"error":"no such report; there is /v1/info"}`},
	} {
		req, err := http.NewRequestWithContext(limit(t), c.method, "http://rds"+c.target, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatalf("%s %s: %v", c.method, c.target, err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if got := strings.TrimSpace(string(body)); res.StatusCode != c.status || got != c.body {
			t.Errorf("%s %s: %d %s, want %d %s", c.method, c.target, res.StatusCode, got, c.status, c.body)
		}
		if ct := res.Header.Get("Content-Type"); ct != "application/json" {
			t.Errorf("%s %s: content type %q", c.method, c.target, ct)
		}
	}
}

// Garbage and oversized requests cost their sender the connection and nobody
// else anything.
func TestGarbageClients(t *testing.T) {
	path := socket(t)
	serve(t, path, constant)
	for _, in := range []string{
		"\x00\x01\x02 garbage\r\n\r\n",
		"GET\r\n\r\n",
		"GET /v1/info HTTP/1.1\r\n\r\n", // no Host
		"GET /v1/info HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("a", 64<<10) + "\r\n\r\n",
	} {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = io.WriteString(c, in) // may fail once the server has had enough
		answer, err := io.ReadAll(c)
		c.Close()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%.20q: connection stays open", in)
		}
		if strings.Contains(string(answer), " 200 ") {
			t.Errorf("%.20q: answered %q", in, answer)
		}
	}
	if err := Fetch(limit(t), path, new(report)); err != nil {
		t.Errorf("after garbage: %v", err)
	}
}

// More clients than the server serves at a time all get their answer.
func TestManyClients(t *testing.T) {
	path := socket(t)
	serve(t, path, constant)
	ctx := limit(t)
	var wg sync.WaitGroup
	for range 4 * maxClients {
		wg.Go(func() {
			var got report
			if err := Fetch(ctx, path, &got); err != nil || got.Count != 7 {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	wg.Wait()
}

// Clients that hold every slot and say nothing are cut off by Close, which
// also wakes an accept that waits for a slot.
func TestCloseCutsClientsOff(t *testing.T) {
	path := socket(t)
	s := serve(t, path, constant)
	var clients []net.Conn
	for range maxClients + 1 {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		clients = append(clients, c)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range clients {
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("read after Close: %v, want the end", err)
		}
	}
}

func TestCloseWaitsForSnapshot(t *testing.T) {
	path := socket(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	s := serve(t, path, func() (any, error) { close(entered); <-leave; return report{}, nil })
	fetched := make(chan error, 1)
	go func() { fetched <- Fetch(limit(t), path, new(report)) }()
	<-entered
	closed := make(chan struct{})
	go func() { s.Close(); close(closed) }()
	if err := <-fetched; err == nil {
		t.Error("a client survived Close")
	}
	select {
	case <-closed:
		t.Error("Close returned while a snapshot was running")
	default:
	}
	close(leave)
	<-closed
}
