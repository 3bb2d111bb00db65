//go:build live

package client

import (
	"sync/atomic"
	"testing"

	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// An application that changes what the daemon sends for it, while a CRC is taken
// of it, spoils its own data, and not the connection.
func TestMemoryThatChangesCostsNoConnection(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	cfg := config.Node{Wire: config.WireXRC, XRC: config.XRC{CRC: config.CRCOn}}
	n := l.node(cfg)
	_, path := serving(t, n, config.Service{})
	peer := l.bind(l.node(cfg))
	c := dialed(t, path)
	bad, good := bound(t, c, rdstest.AddrOf(rdstest.NewAddr(), 100)), bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 100))
	const size = 256 << 10
	mem, read := lent(t, bad, size), lent(t, peer, size)
	target, source := rdstest.MustGetMR(t, peer, lent(t, peer, size), 0), rdstest.MustGetMR(t, bad, mem, datagram.MRReadOnly)
	body := clientHalfOf(bad).half.Load().att.seg.SendArea()[:size]
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := byte(0); !stop.Load(); i++ {
			for k := 0; k < size; k += 61 {
				mem[k], body[k] = i, i
			}
		}
	}()
	rdstest.MustSend(t, good, peer.LocalAddrPort(), []byte("connect"))
	rdstest.Expect(t, peer, "connect")
	for i := range uint64(50) {
		rdstest.Operate(t, bad, peer, i, datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: target, Local: [][]byte{mem}, Write: true, Silent: true}})
		rdstest.Operate(t, peer, bad, i, datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: source, Local: [][]byte{read}, Silent: true}})
		rdstest.MustSend(t, bad, peer.LocalAddrPort(), make([]byte, size))
		rdstest.WantStatus(t, bad, i, datagram.StatusSuccess)
		for range 2 { // the status and the message, in the order in which they come
			m := rdstest.MustRecv(t, peer)
			if m.Kind == datagram.KindStatus && (m.Token != i || m.Status != datagram.StatusSuccess) {
				t.Fatal(&m)
			}
			m.Release()
		}
		rdstest.MustSend(t, good, peer.LocalAddrPort(), rdstest.Payload(i, 1000))
		m := rdstest.MustRecv(t, peer)
		rdstest.NoError(t, rdstest.Verify(m.Data, i))
		m.Release()
	}
	stop.Store(true)
	<-done
	for _, n := range []*node.Node{n, nodeOf(peer)} {
		rdstest.WantCounter(t, n, "conn_reset", 0)
	}
}
