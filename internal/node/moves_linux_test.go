//go:build !live

package node

import (
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// A pair that moves while the socket on the other side is full: what TCP has acknowledged of
// the old link is not read yet. The new link waits until it is, or its messages would come
// first, and those before them be taken for old ones.
func TestMoveWaitsForTheOldLink(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		m := newMover(newMemLab(t), config.Node{ReceiveBuffer: 8 << 10, ReceiveOverrun: 8 << 10, TCP: config.TCP{DrainTimeout: 100 * time.Millisecond}})
		from, full, other := m.bind(m.a, rdstest.AddrOf(m.near, 4000)), m.bind(m.b, rdstest.AddrOf(m.far, 4000)), m.bind(m.b, rdstest.AddrOf(m.far, 5000))
		move := func(to string) {
			t.Helper()
			rdstest.Must(t, m.pair.Move(m.near, m.there, to, "a test"))
		}
		rdstest.MustSend(t, from, other.LocalAddrPort(), []byte("xrc"))
		rdstest.Expect(t, other, "xrc")
		move("tcp")
		rdstest.Eventually(t, "TCP", func() bool { return m.serving() == "tcp" })
		rdstest.MustSend(t, from, other.LocalAddrPort(), []byte("tcp"))
		rdstest.Expect(t, other, "tcp")
		const n = 100
		out := make([]datagram.Outgoing, n) // more than fits, before the congestion map can say so
		for i := range out {
			out[i] = datagram.Outgoing{To: full.LocalAddrPort(), Data: rdstest.Payload(uint64(i), 1000)}
		}
		if k, err := from.SendBatch(rdstest.Background(t), out); k != n {
			t.Fatal(k, err)
		}
		rdstest.Eventually(t, "the pause", func() bool { return rdstest.Counter(t, m.b, "recv_paused") == 1 })
		move("xrc")
		rdstest.MustSend(t, from, other.LocalAddrPort(), []byte("xrc again"))
		p := m.b.Peers[PeerKey{Local: m.far, Remote: m.near}]
		rdstest.Eventually(t, "the new link to wait", func() bool {
			p.Lock()
			defer p.Unlock()
			wire := "none"
			if l := p.Carrying(0); l != nil {
				wire = l.Stats().Transport
			}
			if wire != "tcp" {
				t.Fatalf("%s while messages of the old link are not read", wire)
			}
			return p.Linked() == 2
		})
		rdstest.ExpectNumbers(t, full, n)
		rdstest.Expect(t, other, "xrc again")
	})
}
