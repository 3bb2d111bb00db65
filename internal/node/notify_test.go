//go:build !live

package node

import (
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// The fate of messages, as Linux reports it for RDMA operations
// (include/uapi/linux/rds.h, RDS_CMSG_RDMA_STATUS).

func TestCancelSentTo(t *testing.T) {
	bubble(t, newLoopLab, func(t *testing.T, l *lab) {
		n := l.node(config.Node{})
		s := l.bind(n)
		other := l.bind(n, rdstest.AddrOf(s.LocalAddrPort().Addr(), 4001))
		host := rdstest.Nowhere()
		elsewhere := rdstest.Nowhere()
		send := func(s *socket.Socket, port uint16, token uint64) {
			t.Helper()
			o := datagram.Outgoing{To: rdstest.AddrOf(host.Addr(), port), Data: make([]byte, 100), Notify: true, Token: token}
			rdstest.Must(t, s.SendMessage(rdstest.Background(t), &o))
		}
		send(s, 1000, 1)
		send(s, 1001, 2)
		send(other, 1000, 3)
		send(s, 1000, 4)
		rdstest.Must(t, s.TrySendMessage(&datagram.Outgoing{To: elsewhere, Data: make([]byte, 100), Notify: true, Token: 5}))
		rdstest.Must(t, s.CancelSentTo(rdstest.AddrOf(rdstest.Nowhere().Addr(), 1000))) // a host never sent to
		rdstest.Must(t, s.CancelSentTo(rdstest.AddrOf(host.Addr(), 1000)))
		rdstest.WantStatus(t, s, 1, datagram.StatusCanceled)
		rdstest.WantStatus(t, s, 4, datagram.StatusCanceled)
		if got := halfOf(s).Account.Bytes(); got != 200 {
			t.Errorf("%d bytes charged", got)
		}
		if got := halfOf(other).Account.Bytes(); got != 100 {
			t.Errorf("%d bytes of the other socket charged", got)
		}
		rdstest.Must(t, s.CancelSentTo(datagram.Outgoing{}.To)) // all
		m := rdstest.MustRecv(t, s)
		if m.Kind != datagram.KindStatus || m.Status != datagram.StatusCanceled || m.Token != 2 && m.Token != 5 {
			t.Errorf("%v", &m)
		}
		rdstest.WantStatus(t, s, 7-m.Token, datagram.StatusCanceled) // the other one, in any order
		rdstest.WantNothing(t, s)
		rdstest.WantNothing(t, other)
		late := l.bind(l.node(config.Node{}), rdstest.AddrOf(host.Addr(), 1000))
		m = rdstest.MustRecv(t, late)
		if m.From != other.LocalAddrPort() {
			t.Errorf("%v arrived", &m)
		}
		m.Release()
		rdstest.WantStatus(t, other, 3, datagram.StatusSuccess)
	})
}

// What a peer's earlier incarnation was sent and did not acknowledge is not
// repeated to the later one (net/rds/recv.c, rds_recv_hs_exthdrs).
func TestNewGenerationDrops(t *testing.T) {
	bubble(t, newMemLab, func(t *testing.T, l *lab) {
		peer := l.Raw()
		s := l.bindOne(config.Node{TCP: config.TCP{SendBuffer: 256 << 10}})
		dial := func(generation uint32) *rdstest.Raw {
			r := peer.Dial(s.LocalAddrPort().Addr())
			_ = r.SetReadBuffer(4096) // so that most of it cannot be acknowledged
			r.Put(r.Probe(wire.Handshake{HasPaths: true, Paths: 1, Generation: generation}))
			rdstest.Eventually(t, "the handshake", func() bool {
				c := rdstest.Report(t, nodeOf(s)).Connections
				return len(c) == 1 && c[0].Generation == generation
			})
			return r
		}
		r := dial(5)
		o := datagram.Outgoing{To: rdstest.AddrOf(peer.Addr, 1000), Notify: true, Token: 1}
		for range 3 { // far more than the window takes
			o.Data = make([]byte, config.MaxMessage)
			rdstest.Must(t, s.SendMessage(rdstest.Background(t), &o))
			o.Token++
		}
		sent := func() bool { return rdstest.Report(t, nodeOf(s)).Connections[0].Path[0].Written > 32<<10 }
		rdstest.Eventually(t, "a part is written", sent)
		r.Reset()
		rdstest.Eventually(t, "the loss", func() bool { return !rdstest.Report(t, nodeOf(s)).Connections[0].Connected })
		r = dial(6)
		rdstest.Eventually(t, "a part is written again", sent)
		r.Reset()
		rdstest.WantStatus(t, s, 1, datagram.StatusDropped)
		r = peer.Dial(s.LocalAddrPort().Addr())
		r.Put(rdstest.Congestion()) // or nobody knows that it took the link
		for range 2 {
			h, b := r.NextData()
			if h.Retransmitted() || len(b) != config.MaxMessage {
				t.Errorf("%+v", h)
			}
		}
		rdstest.WantStatus(t, s, 2, datagram.StatusSuccess)
		rdstest.WantStatus(t, s, 3, datagram.StatusSuccess)
		rdstest.WantCounter(t, nodeOf(s), "send_drop_generation", 1)
		rdstest.WantCounter(t, nodeOf(s), "peer_generations", 1)
	})
}

// RDS_RECVERR adds the failures of messages that did not ask, and changes
// nothing for those that did, whatever their token.
func TestRecvErrAndNotifyAreIndependent(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		a, b := newLoopLab(t).pair(config.Node{})
		rdstest.Must(t, a.SetRecvErr(true))
		ctx := rdstest.Background(t)
		for _, o := range []datagram.Outgoing{
			{To: b.LocalAddrPort(), Data: []byte("x"), Token: 7},
			{To: b.LocalAddrPort(), Data: []byte("x"), Notify: true},
		} {
			rdstest.Must(t, a.SendMessage(ctx, &o))
		}
		m, err := a.Recv(ctx)
		if err != nil || m.Kind != datagram.KindStatus || m.Token != 0 || m.Status != datagram.StatusSuccess {
			t.Fatalf("%v, %v", &m, err)
		}
		rdstest.WantNothing(t, a)
	})
}
