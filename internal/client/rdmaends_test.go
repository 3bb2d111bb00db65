//go:build !live

package client

import (
	"testing"

	"github.com/rds-go/rds/internal/daemon"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// opLab is a daemon in a network with RDMA, its node, and a client of it.
func opLab(t *testing.T) (l *lab, ops *rdstest.OpNet, n *node.Node, svc *daemon.Service, c *Client) {
	t.Helper()
	ops = rdstest.NewOpNet()
	l = &lab{rdstest.Lab{TB: t, Net: ops.Net}}
	n = l.node(ops.With(t, config.Node{}))
	svc, path := serving(t, n, config.Service{})
	return l, ops, n, svc, dialed(t, path)
}

// What waits when the peer comes back without RDMA fails, and so does what was
// just about to be submitted.
func TestClientPeerComesBackWithoutOperations(t *testing.T) {
	bubble(t, func(t *testing.T, _ *lab) {
		l, n, near, svc, c := opLab(t)
		a := bound(t, c, rdstest.AddrOf(rdstest.NewAddr(), 100))
		b := l.bind(l.node(n.With(t, config.Node{})))
		cookie, own, local := rdstest.MustGetMR(t, b, make([]byte, 8), 0), rdstest.MustGetMR(t, a, lent(t, a, 8), 0), lent(t, a, 8)
		o := datagram.Outgoing{RDMA: &datagram.RDMA{Cookie: cookie, Local: [][]byte{local}, Write: true}}
		rdstest.Operate(t, a, b, 1, o)
		rdstest.Expect(t, b, "")
		rdstest.WantStatus(t, a, 1, datagram.StatusSuccess)

		h := clientHalfOf(a).half.Load()
		_, d, err := clientHalfOf(a).check(rdstest.Background(t), h.att, &datagram.Outgoing{To: b.LocalAddrPort()})
		rdstest.Must(t, err)
		var late []*special
		outs := []datagram.Outgoing{
			{To: b.LocalAddrPort(), Notify: true, Token: 5, RDMA: o.RDMA},
			{To: b.LocalAddrPort(), Notify: true, Token: 6, HasDest: true, Dest: own, Data: rdstest.Payload(6, 40_000)},
		}
		for i := range outs {
			x, err := clientHalfOf(a).special(rdstest.Background(t), h, d, b.LocalAddrPort(), &outs[i], true)
			rdstest.Must(t, err)
			late = append(late, x)
		}
		n.Set(func() { n.Full, n.Plain = true, true })
		rdstest.Operate(t, a, b, 2, o)
		rdstest.CutLinks(near)
		rdstest.WantStatus(t, a, 2, datagram.StatusOtherError)
		o.To = b.LocalAddrPort()
		rdstest.WantErr(t, "then", a.SendMessage(rdstest.Background(t), &o), datagram.ErrNotSupported)
		for i, x := range late {
			rdstest.Must(t, clientHalfOf(a).sendChecked(rdstest.Background(t), h, d, b.LocalAddrPort().Port(), &outs[i], x, true))
			x.accepted(clientHalfOf(a), h, &outs[i])
			rdstest.WantStatus(t, a, uint64(5+i), datagram.StatusOtherError)
		}
		rdstest.MustSend(t, a, b.LocalAddrPort(), []byte("plain"))
		rdstest.Expect(t, b, "plain")
		rdstest.Eventually(t, "all memory back", func() bool {
			h.collect()
			queued := svc.Sessions()[0].SendQueued
			h.memory.mu.Lock()
			defer h.memory.mu.Unlock()
			return queued == 0 && len(h.memory.ops) == 0 && h.account.Bytes() == 0
		})
	})
}

// A completion for an operation that is not known changes nothing.
func TestClientIgnoresUnknownOperations(t *testing.T) {
	bubble(t, func(t *testing.T, _ *lab) {
		_, _, _, _, c := opLab(t)
		a := bound(t, c, rdstest.AddrOf(rdstest.NewAddr(), 100))
		h := clientHalfOf(a).half.Load()
		e := ipc.MakeEntry(ipc.OpDone, ipc.FlagTold, 0, h.id, 0, 0, 1, 2, 99)
		clientHalfOf(a).operated(h.att, &e)
		rdstest.WantNothing(t, a)
	})
}
