//go:build live

package control

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
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

// inMemory runs a test of a server.
func inMemory(t *testing.T, c Config, snapshot func() (any, error), test func(m *memory)) {
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
