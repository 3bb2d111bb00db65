//go:build !live

package node

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/transport"
)

// slowListener is a transport whose Listen returns late.
type slowListener struct{ transport.Transport }

func (s slowListener) Listen(a netip.Addr, accept func(transport.Link)) error {
	err := s.Transport.Listen(a, accept)
	<-time.After(time.Minute)
	return err
}

// Who binds the first socket of an address gets what peers have for it already: they may find
// the address before the call returns.
func TestFirstSocketIsBoundBeforeItsAddressListens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLoopLab(t)
		a := rdstest.Bind(t, l.node(config.Node{ReconnectMax: time.Second}))
		to := rdstest.Nowhere()
		rdstest.MustSend(t, a, to, []byte("early"))
		b := rdstest.Bind(t, l.node(config.Node{Transport: slowListener{l.Net.Transport()}}), to)
		rdstest.Expect(t, b, "early")
	})
}
