//go:build live

package client

import (
	"context"
	"errors"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// On the wire: the bit of the port is set in a map sent at once, and cleared.
func TestCongestionMapOnTheWire(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	peer := l.Raw()
	s := l.bindOne(config.Node{})
	port := s.LocalAddrPort().Port()
	rdstest.Must(t, s.SetReadBuffer(10_000))
	r := peer.Dial(s.LocalAddrPort().Addr())
	if m := r.NextMap(); *m != (wire.CongestionMap{}) {
		t.Error("the first map is not empty")
	}
	for range 10 { // equals the limit: not yet
		r.Put(r.Data(1000, port, make([]byte, 1000)))
	}
	rdstest.Eventually(t, "arrival", func() bool { return rdstest.Counter(t, nodeOf(s), "recv_queued") == 10 })
	if halfOf(s).Congested.Load() {
		t.Error("congested at the limit, not above it")
	}
	r.Put(r.Data(1000, port, make([]byte, 1)))
	if m := r.NextMap(); !m.Congested(port) || m[port/8] != 1<<(port%8) {
		t.Errorf("map byte %#x", m[port/8])
	}
	for range 11 {
		m := rdstest.MustRecv(t, s)
		m.Release()
	}
	if m := r.NextMap(); *m != (wire.CongestionMap{}) {
		t.Error("not cleared")
	}
	if got := rdstest.Counter(t, nodeOf(s), "cong_update_queued"); got != 2 {
		t.Errorf("cong_update_queued %d", got)
	}
}

// Turning the monitor off clears the socket's own bit, as Linux does
// (net/rds/af_rds.c, rds_cong_monitor).
func TestMonitorOffClearsOwnBit(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	peer := l.Raw()
	s := l.bindOne(config.Node{ReceiveBuffer: 1000})
	port := s.LocalAddrPort().Port()
	r := peer.Dial(s.LocalAddrPort().Addr())
	r.NextMap()
	r.Put(r.Data(1000, port, make([]byte, 2000)))
	if !r.NextMap().Congested(port) {
		t.Fatal("not congested")
	}
	rdstest.Must(t, errors.Join(s.SetCongestionMonitor(true), s.SetCongestionMonitor(false)))
	if r.NextMap().Congested(port) {
		t.Error("still congested")
	}
}

// A tiny buffer sets and clears its bit all the time. No change may be lost.
func TestCongestionComesAndGoesQuickly(t *testing.T) {
	t.Parallel()
	for _, l := range []*lab{newLab(t), newLoopLab(t)} {
		for _, buffer := range []int{1, 200, 3000} {
			a, b := l.pair(config.Node{ReceiveBuffer: buffer})
			if err := rdstest.Stream(rdstest.Background(t), a, b, 3000, func(i int) int { return 8 + i%5*40 }); err != nil {
				t.Errorf("buffer of %d: %v", buffer, err)
			}
		}
	}
}

// What a refused message was charged is returned, whatever its size.
func TestRefusalCostsNoRoom(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	peer := l.Raw()
	s := l.bindOne(config.Node{})
	r := peer.Dial(s.LocalAddrPort().Addr())
	r.Put(rdstest.Congestion(9))
	to := rdstest.AddrOf(peer.Addr, 9)
	rdstest.Eventually(t, "the map", func() bool { return rdstest.Counter(t, nodeOf(s), "cong_update_received") == 1 })
	for _, size := range []int{0, 100, 16 << 10, 16<<10 + 1, 100_000} {
		rdstest.WantErr(t, "send", s.TrySend(to, make([]byte, size)), datagram.ErrCongested)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		rdstest.WantErr(t, "blocked send", s.Send(ctx, to, make([]byte, size)), context.DeadlineExceeded)
		cancel()
		if b, m := halfOf(s).Account.Bytes(), halfOf(s).Account.Messages(); b != 0 || m != 0 {
			t.Fatalf("%d bytes of %d messages stay charged after one of %d was refused", b, m, size)
		}
	}
}

// A port that is congested counts before a send buffer that is full, as in Linux: a program
// that monitors congestion is to hear of its end. Linux counts such a refusal as congestion,
// not as a full send buffer.
func TestCongestionComesBeforeAFullSendBuffer(t *testing.T) {
	t.Parallel()
	eachSender(t, bubble, config.Node{}, config.Service{}, func(t *testing.T, l *lab, p rdstest.Provider, up *socket.Socket) {
		s := bound(t, p, rdstest.AddrOf(rdstest.NewAddr(), 100))
		rdstest.Flood(t, s, up, 50_000)
		to := up.LocalAddrPort()
		var account *conn.Account
		full := func() uint64 { return clientHalfOf(s).half.Load().cell.Full.Load() }
		if halfOf(s) != nil {
			account = &halfOf(s).Account
			full = func() uint64 { return rdstest.Counter(t, nodeOf(s), "send_queue_full") }
		} else {
			account = &clientHalfOf(s).half.Load().account
		}
		account.Admit(account.Limit())
		defer account.Refund(account.Limit(), 1)
		before := full()
		if err := s.TrySend(to, rdstest.Payload(1, 500)); !errors.Is(err, datagram.ErrCongested) || !errors.Is(err, syscall.ENOBUFS) {
			t.Errorf("to a congested port: %v", err)
		}
		if n := full() - before; n != 0 {
			t.Errorf("the refusal counts as %d of a full send buffer", n)
		}
		if err := s.TrySend(netip.AddrPortFrom(to.Addr(), to.Port()+1), rdstest.Payload(1, 500)); !errors.Is(err, datagram.ErrWouldBlock) {
			t.Errorf("to another port: %v", err)
		}
		if n := full() - before; n != 1 {
			t.Errorf("that counts as %d of a full send buffer", n)
		}
	})
}
