package simnet_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/simnet"
	"github.com/rds-go/rds/transport/transporttest"
)

// A network without faults keeps the contract of transports.
func TestNetworkContract(t *testing.T) {
	transporttest.Bubble(t, func(*testing.T) transporttest.Env {
		n := simnet.NewNetwork(1, simnet.Faults{Latency: 10 * time.Microsecond})
		return transporttest.Env{
			A: n.Transport(), B: n.Transport(),
			AddrA:  netip.MustParseAddr("10.0.0.1"),
			AddrB:  netip.MustParseAddr("10.0.0.2"),
			Nobody: netip.MustParseAddr("10.0.0.3"),
		}
	})
}
