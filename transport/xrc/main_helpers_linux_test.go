package xrc

import (
	"net/netip"
	"testing"

	"go.uber.org/goleak"

	"github.com/rds-go/rds/transport/transporttest"
)

// gnet starts a worker pool when the program starts; only what comes later is ours.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) }

func newAddr() netip.Addr { return transporttest.NewAddr() }

var testPort = transporttest.Port

func newTransport(t testing.TB, o Options) *Transport {
	t.Helper()
	if o.Port == 0 {
		o.Port = testPort
	}
	if m := networkOf(t); m != nil {
		o.Network = m
	}
	tr, err := New(o)
	must(t, err)
	t.Cleanup(func() { _ = tr.Close() })
	return tr
}

func newEnv(t testing.TB, a, b Options) transporttest.Env {
	t.Helper()
	return transporttest.Env{A: newTransport(t, a), B: newTransport(t, b), AddrA: newAddr(), AddrB: newAddr(), Nobody: newAddr()}
}
