//go:build !live

package client

import (
	"testing"
	"time"

	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// What waits in the daemon behind a full connection expires there, and the rest keeps its
// order.
func TestExpiresInAFlow(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		n, _, path := served(t, l, rarely(config.Node{PeerBudget: 50_000}), config.Service{})
		s := bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 4000))
		to := rdstest.Nowhere()
		const most = 20
		for i := range uint64(most) {
			o := datagram.Outgoing{To: to, Data: rdstest.Payload(i, []int{1000, 20_000}[i%2]), Notify: true, Token: i}
			switch i % 4 {
			case 1, 2:
				o.Expires = rdstest.After(2*time.Second + time.Duration(i)*5*time.Millisecond)
			case 3:
				o.Expires = rdstest.After(time.Hour)
			}
			rdstest.Must(t, s.SendMessage(rdstest.Background(t), &o))
		}
		rdstest.Eventually(t, "messages to be in a flow", func() bool {
			parked := 0
			n.EachPeer(func(p *node.Peer) {
				p.Lock()
				for _, f := range p.Flows {
					parked += f.Queue.Len()
				}
				p.Unlock()
			})
			return parked > most/2
		})
		for i := range uint64(most) {
			if i%4 == 1 || i%4 == 2 {
				rdstest.WantStatus(t, s, i, datagram.StatusExpired)
			}
		}
		rdstest.Must(t, s.TrySendMessage(&datagram.Outgoing{To: to, Notify: true, Token: 100, Expires: rdstest.After(50 * time.Millisecond)})) // nothing follows it
		rdstest.WantStatus(t, s, 100, datagram.StatusExpired)
		if got := rdstest.Counter(t, n, "send_expired"); got != most/2+1 {
			t.Errorf("send_expired %d", got)
		}
		late := l.bind(l.node(config.Node{}), to)
		rdstest.MustSend(t, late, rdstest.AddrOf(s.LocalAddrPort().Addr(), 9), nil) // connects
		for i := range uint64(most) {
			if i%4 == 1 || i%4 == 2 {
				continue
			}
			rdstest.ExpectNumber(t, late, i)
			rdstest.WantStatus(t, s, i, datagram.StatusSuccess)
		}
	})
}

// The kernel's sockets and daemons of earlier versions know no time limits, and a message
// that has one is not sent without it.
func TestTimeLimitsThatAreNotKnown(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		_, _, path := served(t, l, config.Node{}, config.Service{})
		s, peer := bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 4000)), l.bindOne(config.Node{})
		rdstest.MustSend(t, s, peer.LocalAddrPort(), []byte("up"))
		rdstest.Expect(t, peer, "up")
		clientHalfOf(s).half.Load().att.expires = false
		o := datagram.Outgoing{To: peer.LocalAddrPort(), Expires: rdstest.After(time.Hour)}
		rdstest.WantErr(t, "SendMessage", s.SendMessage(rdstest.Background(t), &o), datagram.ErrNotSupported)
		n, err := s.SendBatch(rdstest.Background(t), []datagram.Outgoing{{To: peer.LocalAddrPort(), Data: []byte("without")}, o})
		if n != 1 {
			t.Errorf("%d were sent in a batch", n)
		}
		rdstest.WantErr(t, "SendBatch", err, datagram.ErrNotSupported)
		rdstest.Expect(t, peer, "without")
	})
}
