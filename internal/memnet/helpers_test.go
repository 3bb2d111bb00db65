//go:build !live

package memnet

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/rds-go/rds/internal/gnetloop"
)

// gnet starts a worker pool when the program starts; only what comes later is ours.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) }

var (
	host   = netip.MustParseAddr("127.0.0.7")
	other  = netip.MustParseAddr("127.0.0.8")
	errBad = errors.New("bad stream")
)

func at(a netip.Addr, port uint16) netip.AddrPort { return netip.AddrPortFrom(a, port) }

// rig is a network with one stack in a bubble, and what the stack has accepted.
type rig struct {
	*testing.T
	net      *Network
	stack    gnetloop.Stack
	addr     netip.AddrPort
	accepted chan gnetloop.Stream
}

// bubble runs f in a bubble with a rig of its own.
func bubble(t *testing.T, o Options, so gnetloop.Options, f func(*testing.T, *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, net: New(o), accepted: make(chan gnetloop.Stream, 100)}
		r.stack = r.open(so)
		ln, err := r.stack.Listen(at(host, 0), func(c gnetloop.Stream) { r.accepted <- c })
		must(t, err)
		r.addr = ln.Addr()
		f(t, r)
	})
}

func (r *rig) open(o gnetloop.Options) gnetloop.Stack {
	r.Helper()
	o.Name, o.Network = "test", r.net
	s, err := gnetloop.Open(o)
	must(r, err)
	r.Cleanup(func() { _ = s.Close() })
	return s
}

// peer connects a socket to the stack and starts the connection with a recorder.
func (r *rig) peer() (*Conn, gnetloop.Stream, *recorder) {
	r.Helper()
	p, c := r.fresh()
	h := newRecorder(r.T)
	r.start(c, h)
	return p, c, h
}

// fresh is peer without start.
func (r *rig) fresh() (*Conn, gnetloop.Stream) {
	r.Helper()
	p, err := r.net.Dial(at(other, 0), r.addr)
	must(r, err)
	r.Cleanup(func() { _ = p.Close() })
	return p, <-r.accepted
}

func (r *rig) start(c gnetloop.Stream, h gnetloop.Handler) {
	r.Helper()
	must(r, c.Start(h))
}

func (r *rig) write(p *Conn, b []byte) {
	r.Helper()
	if _, err := p.Write(b); err != nil {
		r.Fatal(err)
	}
}

// recorder is a handler that keeps the stream and logs the calls.
type recorder struct {
	t       testing.TB
	onFeed  func([]byte) error
	onSpace func() ([]byte, int)
	onWake  func() error

	mu       sync.Mutex
	inside   bool
	ended    bool
	place    []byte
	stream   []byte
	calls    []string
	writable chan struct{}
	closed   chan error
}

func newRecorder(t testing.TB) *recorder {
	return &recorder{t: t, writable: make(chan struct{}, 10), closed: make(chan error, 1)}
}

func (r *recorder) enter(call string) func() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inside || r.ended || r.place != nil && call != "Filled" {
		r.t.Errorf("%s: inside %v, ended %v, place %d", call, r.inside, r.ended, len(r.place))
	}
	r.inside = true
	return func() { r.mu.Lock(); r.inside = false; r.mu.Unlock() }
}

func (r *recorder) log(b []byte, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stream = append(r.stream, b...)
	r.calls = append(r.calls, fmt.Sprintf(format, args...))
}

func (r *recorder) Feed(b []byte) (err error) {
	defer r.enter("Feed")()
	r.log(b, "Feed %d", len(b))
	if r.onFeed != nil {
		err = r.onFeed(b)
	}
	return err
}

func (r *recorder) Space() (dst []byte, beyond int) {
	defer r.enter("Space")()
	if r.onSpace != nil {
		dst, beyond = r.onSpace()
	}
	r.place = dst
	return dst, beyond
}

func (r *recorder) Filled(n int) {
	defer r.enter("Filled")()
	r.log(r.place[:n], "Filled %d", n)
	r.place = nil
}

func (r *recorder) Wake() (err error) {
	defer r.enter("Wake")()
	r.log(nil, "Wake")
	if r.onWake != nil {
		err = r.onWake()
	}
	return err
}

func (r *recorder) Flush() { defer r.enter("Flush")(); r.log(nil, "Flush") }

func (r *recorder) Writable() {
	r.mu.Lock()
	if r.ended {
		r.t.Error("Writable after Closed")
	}
	r.mu.Unlock()
	r.writable <- struct{}{}
}

func (r *recorder) Closed(cause error) {
	defer r.enter("Closed")()
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.closed <- cause
}

// logged returns the calls when everybody waits.
func (r *recorder) logged() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.calls...)
}

// got fails unless exactly want has come when everybody waits.
func (r *recorder) got(want []byte) {
	r.t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !bytes.Equal(r.stream, want) {
		r.t.Errorf("%d bytes came, expected %d, and not the same", len(r.stream), len(want))
	}
}

// pattern returns n bytes of which no two pieces look alike.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(uint32(i/4) * 2654435761 >> (8 * (3 - i%4)))
	}
	return b
}

// must fails the test on an error.
func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}
