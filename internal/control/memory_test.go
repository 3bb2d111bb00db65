//go:build !live

package control

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// memory is a server whose connections are pipes, in a bubble of testing/synctest. It is the
// listener, too.
type memory struct {
	*testing.T
	io.Closer
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// bubble runs a test of a server.
func bubble(t *testing.T, c Config, snapshot func() (any, error), test func(m *memory)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := &memory{T: t, conns: make(chan net.Conn), closed: make(chan struct{})}
		c.Listener = pipes{m}
		var err error
		if m.Closer, err = c.Serve(snapshot); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		test(m)
	})
}

// pipes is the listener of a memory.
type pipes struct{ *memory }

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p pipes) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }

// dial connects to the server.
func (m *memory) dial() net.Conn {
	ours, theirs := net.Pipe()
	m.conns <- theirs
	return ours
}

// do makes a request, and returns the answer with its body's text.
func (m *memory) do(method, target string) (res *http.Response, body string, err error) {
	m.Helper()
	var content io.Reader
	if method != http.MethodGet {
		content = strings.NewReader("x")
	}
	req, err := http.NewRequest(method, "http://rds"+target, content)
	if err != nil {
		m.Fatal(err)
	}
	res, err = (&http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return m.dial(), nil },
	}).RoundTrip(req)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res, strings.TrimSpace(string(b)), err
}

// get is do of what must work.
func (m *memory) get(target string) (body string) {
	m.Helper()
	_, body, err := m.do(http.MethodGet, target)
	if err != nil {
		m.Fatal(err)
	}
	return body
}

func TestExtraHandlers(t *testing.T) {
	extra := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "extra "+r.URL.Path) })
	bubble(t, Config{Extra: map[string]http.Handler{"/debug/": extra}}, constant, func(m *memory) {
		for target, want := range map[string]string{
			"/debug/x": "extra /debug/x",
			"/v1/info": `{"name":"node","count":7}`,
			"/debug":   `{"error":"no such report; there is /v1/info"}`,
		} {
			if got := m.get(target); got != want {
				m.Errorf("%s: %s, want %s", target, got, want)
			}
		}
	})
}

// A handler may run as long as extraTimeout, in which net/http neither ends its context,
// as it does when the time for reading a request is over, nor its answer.
func TestExtraHandlerMayTakeLong(t *testing.T) {
	bubble(t, Config{Extra: map[string]http.Handler{"/slow": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(extraTimeout - time.Second):
			io.WriteString(w, "done")
		case <-r.Context().Done():
		}
	})}}, constant, func(m *memory) {
		if got := m.get("/slow"); got != "done" {
			m.Errorf("answer %q", got)
		}
	})
}

// closesAfter closes a server while it answers a request. The client is cut off at once, and
// Close returns when what makes the answer has ended.
func (m *memory) closesAfter(running *atomic.Bool, target string) {
	m.Helper()
	answered, closed := make(chan error), make(chan error)
	go func() { _, _, err := m.do(http.MethodGet, target); answered <- err }()
	synctest.Wait()
	if !running.Load() {
		m.Fatal("nothing makes an answer")
	}
	begun := time.Now()
	go func() { closed <- m.Close() }()
	if err := <-answered; err == nil || time.Since(begun) != 0 {
		m.Errorf("Close left a client its connection for %v: %v", time.Since(begun), err)
	}
	if err := <-closed; err != nil || running.Load() {
		m.Errorf("Close returned %v, while an answer is made: %v", err, running.Load())
	}
}

// Close ends the context of a handler and waits for it.
func TestCloseEndsExtraHandler(t *testing.T) {
	var running atomic.Bool
	bubble(t, Config{Extra: map[string]http.Handler{"/": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		running.Store(true)
		<-r.Context().Done()
		<-time.After(time.Minute)
		running.Store(false)
	})}}, constant, func(m *memory) { m.closesAfter(&running, "/") })
}

func TestCloseWaitsForSnapshot(t *testing.T) {
	var running atomic.Bool
	bubble(t, Config{}, func() (any, error) {
		running.Store(true)
		<-time.After(time.Minute)
		running.Store(false)
		return report{}, nil
	}, func(m *memory) { m.closesAfter(&running, infoPath) })
}

func TestRefusesOtherRequests(t *testing.T) {
	bubble(t, Config{}, constant, func(m *memory) {
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
	bubble(t, Config{}, constant, func(m *memory) {
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
	bubble(t, Config{}, func() (any, error) {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		<-time.After(time.Second)
		mu.Lock()
		now--
		mu.Unlock()
		return constant()
	}, func(m *memory) {
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
	bubble(t, Config{}, constant, func(m *memory) {
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
