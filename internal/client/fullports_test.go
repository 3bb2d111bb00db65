//go:build !live

package client

import (
	"net/netip"
	"testing"

	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// What a daemon takes from an application for a port that is full by then is held back: the
// application hears of that without anything else happening.
func TestApplicationHearsOfMessagesHeldBack(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		near := l.node(config.Node{})
		_, path := serving(t, near, config.Service{})
		s := bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 100))
		s.SetLinger(0)
		far := l.bindOne(config.Node{})
		rdstest.Promptly(t, s, far, nil)
		var p *node.Peer
		near.EachPeer(func(q *node.Peer) { p = q })
		const size, port = 1000, 5000
		p.Lock()
		sent := make(chan error)
		go func() { // the application holds no locks of the daemon
			sent <- s.Send(rdstest.Background(t), netip.AddrPortFrom(far.LocalAddrPort().Addr(), port), make([]byte, size))
		}()
		err := <-sent
		p.Core.Hold([]uint16{port}, true)
		p.Commit()
		rdstest.Must(t, err)
		h := clientHalfOf(s).half.Load()
		rdstest.Eventually(t, "the bytes held back", func() bool { return h.heldBytes() == size })

		// A session whose budget and a half is held back submits nothing: the daemon would not take it.
		b := &h.att.budget
		n := b.account.Limit() + b.account.Limit()/2
		b.account.Admit(n)
		defer b.account.Refund(n, 1)
		h.att.seg.Held().Store(uint64(2 * n))
		rdstest.WantErr(t, "with the budget held back", s.TrySend(far.LocalAddrPort(), nil), datagram.ErrWouldBlock)
		if s.Poll()&datagram.PollOut != 0 {
			t.Error("POLLOUT with the budget held back")
		}
	})
}
