package loop

import (
	"net/netip"
	"testing"

	"go.uber.org/goleak"

	"github.com/rds-go/rds/transport/transporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newEnv() transporttest.Env {
	n := NewNetwork()
	return transporttest.Env{
		A: n.Transport(), B: n.Transport(),
		AddrA:  netip.MustParseAddr("10.0.0.1"),
		AddrB:  netip.MustParseAddr("10.0.0.2"),
		Nobody: netip.MustParseAddr("10.0.0.3"),
	}
}
