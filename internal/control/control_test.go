//go:build live

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
	inMemory(t, Config{}, constant, func(m *memory) {
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
			res, body, err := m.do(c.method, c.target)
			if err != nil || res.StatusCode != c.status || body != c.body || res.Header.Get("Content-Type") != "application/json" {
				m.Errorf("%s %s: %+v %s, %v, want %d %s", c.method, c.target, res, body, err, c.status, c.body)
			}
		}
	})
}

// Garbage, oversized requests and those that do not end cost their sender the connection and
// nobody else anything.
func TestGarbageClients(t *testing.T) {
	inMemory(t, Config{}, constant, func(m *memory) {
		for _, in := range []string{
			"\x00\x01\x02 garbage\r\n\r\n",
			"GET\r\n\r\n",
			"GET /v1/info HTTP/1.1\r\n\r\n", // no Host
			"GET /v1/info HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("a", 64<<10) + "\r\n\r\n",
			"GET /v1/info HTTP/1.1\r\nHost: x\r\n",
		} {
			c := m.dial()
			begun := time.Now()
			go func() { _, _ = io.WriteString(c, in) }() // may fail once the server has had enough
			if answer, err := io.ReadAll(c); err != nil || strings.Contains(string(answer), " 200 ") || time.Since(begun) > readTimeout+time.Second {
				m.Errorf("%.20q: answered %q, %v, after %v", in, answer, err, time.Since(begun))
			}
			c.Close()
		}
		m.get(infoPath)
	})
}

// More clients than the server serves at a time all get their answer.
func TestManyClients(t *testing.T) {
	most, now := 0, 0
	var mu sync.Mutex // guards most and now
	snapshot := func() (any, error) {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		<-time.After(time.Second) // the time of the bubble
		mu.Lock()
		now--
		mu.Unlock()
		return constant()
	}
	inMemory(t, Config{}, snapshot, func(m *memory) {
		var wg sync.WaitGroup
		for range 4 * maxClients {
			wg.Go(func() {
				if _, body, err := m.do(http.MethodGet, infoPath); err != nil || body != `{"name":"node","count":7}` {
					m.Errorf("got %s, %v", body, err)
				}
			})
		}
		wg.Wait()
		if most != maxOfUser {
			m.Errorf("%d requests of a user were served at a time, want %d", most, maxOfUser)
		}
	})
}

// Clients that say nothing are cut off by Close.
func TestCloseCutsClientsOff(t *testing.T) {
	inMemory(t, Config{}, constant, func(m *memory) {
		var clients []net.Conn
		for range maxClients + 1 {
			clients = append(clients, m.dial())
		}
		if err := m.Close(); err != nil {
			m.Fatal(err)
		}
		begun := time.Now()
		for _, c := range clients {
			if _, err := c.Read(make([]byte, 1)); err == nil || time.Since(begun) != 0 {
				m.Fatalf("read after Close: %v after %v, want the end at once", err, time.Since(begun))
			}
		}
	})
}
