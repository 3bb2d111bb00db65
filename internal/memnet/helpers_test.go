//go:build !live

package memnet

import (
	"net/netip"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/rds-go/rds/internal/gnetloop"
	"github.com/rds-go/rds/internal/streamtest"
)

// gnet starts a worker pool when the program starts; only what comes later is ours.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) }

var (
	host  = netip.MustParseAddr("127.0.0.7")
	other = netip.MustParseAddr("127.0.0.8")
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
	synctest.Test(t, func(t *testing.T) { f(t, newRig(t, o, so)) })
}

func newRig(t *testing.T, o Options, so gnetloop.Options) *rig {
	t.Helper()
	r := &rig{T: t, net: New(o), accepted: make(chan gnetloop.Stream, 100)}
	r.stack = r.open(so)
	ln, err := r.stack.Listen(at(host, 0), func(c gnetloop.Stream) { r.accepted <- c })
	streamtest.Must(t, err)
	r.addr = ln.Addr()
	return r
}

func (r *rig) open(o gnetloop.Options) gnetloop.Stack {
	r.Helper()
	o.Name, o.Network = "test", r.net
	s, err := gnetloop.Open(o)
	streamtest.Must(r, err)
	r.Cleanup(func() { _ = s.Close() })
	return s
}

// peer connects a socket to the stack and starts the connection with a recorder.
func (r *rig) peer() (*Conn, gnetloop.Stream, *streamtest.Recorder) {
	r.Helper()
	p, c := r.fresh()
	h := streamtest.NewRecorder(r.T)
	r.start(c, h)
	return p, c, h
}

// fresh is peer without start.
func (r *rig) fresh() (*Conn, gnetloop.Stream) {
	r.Helper()
	p, err := r.net.Dial(at(other, 0), r.addr)
	streamtest.Must(r, err)
	r.Cleanup(func() { _ = p.Close() })
	return p, <-r.accepted
}

func (r *rig) start(c gnetloop.Stream, h gnetloop.Handler) {
	r.Helper()
	streamtest.Must(r, c.Start(h))
}

func (r *rig) write(p *Conn, b []byte) {
	r.Helper()
	if _, err := p.Write(b); err != nil {
		r.Fatal(err)
	}
}

// got fails unless exactly want has come when everybody waits.
func got(t testing.TB, r *streamtest.Recorder, want []byte) {
	t.Helper()
	synctest.Wait()
	r.WaitStream(t, want)
}
