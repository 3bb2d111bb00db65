//go:build !live

package daemon

import (
	"net/netip"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/datagram"
)

// A socket with a refusal has one operation under way until one succeeds; others of its host, and
// its own towards other peers, go on.
func TestOneOperationAfterARefusal(t *testing.T) {
	bubble(t, func(t *testing.T, _ *lab) {
		l, n := newOpLab(t)
		a, b := n.pair(l)
		c := rdstest.MustGetMR(t, b, make([]byte, 100), 0)
		other := l.bind(nodeOf(a), netip.AddrPortFrom(a.LocalAddrPort().Addr(), 0))
		write := func(c datagram.Cookie) datagram.Outgoing {
			return datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: c, Local: [][]byte{{1}}, Write: true, Silent: true}}
		}
		rdstest.Operate(t, a, b, 1, write(c^1))
		rdstest.WantStatus(t, a, 1, datagram.StatusRemoteError)
		n.Set(func() { n.Hold = true })
		for i := range uint64(3) {
			rdstest.Operate(t, a, b, 10+i, write(c))
		}
		rdstest.Operate(t, other, b, 20, write(c))
		rdstest.Operate(t, other, b, 21, write(c))
		n.WaitHeld(t, 3)
		rdstest.WantStatus(t, a, 11, datagram.StatusAgain)
		rdstest.WantStatus(t, a, 12, datagram.StatusAgain)
		n.Release()
		rdstest.WantStatus(t, a, 10, datagram.StatusSuccess)
		rdstest.WantStatus(t, other, 20, datagram.StatusSuccess)
		rdstest.WantStatus(t, other, 21, datagram.StatusSuccess)
		n.Set(func() { n.Hold = true })
		for i := range uint64(3) {
			rdstest.Operate(t, a, b, 30+i, write(c))
		}
		n.WaitHeld(t, 3)
		n.Release()
		for i := range uint64(3) {
			rdstest.WantStatus(t, a, 30+i, datagram.StatusSuccess)
		}
	})
}
