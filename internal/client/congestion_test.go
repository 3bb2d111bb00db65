//go:build !live

package client

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/transport"
)

// A receiver past its buffer marks its port, which refuses or blocks its
// senders until less than half is left (net/rds/recv.c, rds_recv_rcvbuf_delta).
// Others on the same connection go on meanwhile.
func TestSlowReceiverStopsItsSendersOnly(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		a, b := l.pair(config.Node{SendBuffer: 1 << 20})
		a2 := l.bind(nodeOf(a), rdstest.AddrOf(a.LocalAddrPort().Addr(), 4001))
		b2 := l.bind(nodeOf(b), rdstest.AddrOf(b.LocalAddrPort().Addr(), 4001))
		const buffer, size = 64 << 10, 4 << 10
		rdstest.Must(t, b.SetReadBuffer(buffer))
		n := rdstest.Flood(t, a, b, size)
		if n < buffer/size {
			t.Errorf("congested after %d messages", n)
		}
		if a.Poll()&datagram.PollOut == 0 && halfOf(a).Account.Bytes() < 1<<20 {
			t.Error("POLLOUT has to do with congestion")
		}
		info, _ := nodeOf(b).Info()
		for _, s := range info.Sockets {
			if want := s.Bound == b.LocalAddrPort(); s.Congested != want {
				t.Errorf("%v congested: %v", s.Bound, s.Congested)
			}
		}

		blocked := make(chan error, 1)
		go func() { blocked <- a.Send(context.Background(), b.LocalAddrPort(), rdstest.Payload(uint64(n), size)) }()
		batched := make(chan error, 1)
		go func() {
			_, err := a2.SendBatch(context.Background(), []datagram.Outgoing{{To: b.LocalAddrPort(), Data: rdstest.Payload(0, size)}})
			batched <- err
		}()
		ctx := rdstest.Background(t)
		for _, c := range [][2]*socket.Socket{{a2, b2}, {b2, a2}, {b, a}} {
			if err := rdstest.Stream(ctx, c[0], c[1], 300, rdstest.Fixed(1000)); err != nil {
				t.Errorf("%v to %v: %v", c[0].LocalAddr(), c[1].LocalAddr(), err)
			}
		}
		if err := rdstest.Stream(ctx, a, b2, 300, rdstest.Fixed(1000)); err != nil {
			t.Errorf("the refused sender, elsewhere: %v", err)
		}
		rdstest.Eventually(t, "both wait", func() bool { return rdstest.Counter(t, nodeOf(a), "cong_send_blocked") >= 2 })
		if err := errors.Join(rdstest.FirstOf(blocked), rdstest.FirstOf(batched)); err != nil || len(blocked)+len(batched) > 0 {
			t.Errorf("a blocked sender returned %v", err)
		}

		left := halfOf(b).Queue.Bytes.Load()
		got := make(map[netip.AddrPort]int)
		take := func() {
			m := rdstest.MustRecv(t, b)
			rdstest.Must(t, rdstest.Verify(m.Data, uint64(got[m.From])))
			got[m.From]++
			m.Release()
		}
		for taken := int64(0); left-taken > buffer/2+buffer/4; taken += size {
			take()
		}
		if !halfOf(b).Congested.Load() {
			t.Error("uncongested with more than half of the buffer queued")
		}
		for got[a.LocalAddrPort()] < n+1 || got[a2.LocalAddrPort()] < 1 { // the blocked ones come too
			take()
		}
		rdstest.NoError(t, errors.Join(<-blocked, <-batched))
		if err := rdstest.Stream(ctx, a, b, 300, rdstest.Fixed(100)); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// When the last link to a peer is lost its congestion map is forgotten, and applications
// that wait for a port hear of it: where they have nothing else queued nobody would ask
// for the link that brings the next map.
func TestApplicationsHearThatAMapIsForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		near := l.node(config.Node{})
		_, path := serving(t, near, config.Service{})
		a := bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 100))
		far := &rdstest.Interceptor{Transport: l.Net.Transport(), Links: make(chan transport.Link, 100)}
		b := l.bind(l.node(config.Node{Transport: far}))
		rdstest.Must(t, b.SetReadBuffer(1000))
		rdstest.MustSend(t, a, b.LocalAddrPort(), nil)
		far.Accept(<-far.Links) // and no other
		rdstest.Eventually(t, "congestion", func() bool {
			return errors.Is(a.TrySend(b.LocalAddrPort(), make([]byte, 1000)), datagram.ErrCongested)
		})
		sent := make(chan error, 1)
		go func() { sent <- a.Send(rdstest.Background(t), b.LocalAddrPort(), nil) }()
		rdstest.Eventually(t, "a sender that waits", func() bool { return clientHalfOf(a).half.Load().att.maps.N.Load() == 1 })
		rdstest.CutLinks(near)
		rdstest.NoError(t, <-sent)
	})
}
