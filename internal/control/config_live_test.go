//go:build live

package control

import (
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

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

func TestExtraHandlers(t *testing.T) {
	extra := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "extra "+r.URL.Path) })
	inMemory(t, Config{Extra: map[string]http.Handler{"/debug/": extra}}, constant, func(m *memory) {
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
	extra := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(extraTimeout - time.Second): // the time of the bubble
			io.WriteString(w, "done")
		case <-r.Context().Done():
		}
	})
	inMemory(t, Config{Extra: map[string]http.Handler{"/slow": extra}}, constant, func(m *memory) {
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
	extra := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		running.Store(true)
		<-r.Context().Done()
		<-time.After(time.Minute) // the time of the bubble
		running.Store(false)
	})
	inMemory(t, Config{Extra: map[string]http.Handler{"/": extra}}, constant, func(m *memory) { m.closesAfter(&running, "/") })
}

func TestCloseWaitsForSnapshot(t *testing.T) {
	var running atomic.Bool
	snapshot := func() (any, error) {
		running.Store(true)
		<-time.After(time.Minute) // the time of the bubble
		running.Store(false)
		return report{}, nil
	}
	inMemory(t, Config{}, snapshot, func(m *memory) { m.closesAfter(&running, infoPath) })
}
