//go:build !live

package node

import (
	"net/netip"
	"testing"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// A congestion map is news once for every socket, whatever connection it came
// on, and none for sockets made later.
func TestEveryMapIsNewsOnce(t *testing.T) {
	bubble(t, newMemLab, func(t *testing.T, l *lab) {
		n := l.node(config.Node{})
		peer := l.Raw()
		s1, s2 := l.bind(n), l.bind(n)
		r := peer.Dial(s1.LocalAddrPort().Addr())
		maps := uint64(0)
		send := func() {
			maps++
			r.Put(rdstest.Congestion())
			rdstest.Eventually(t, "the news of the map", func() bool { return n.mapGen.Load() == maps })
		}
		send()
		for _, s := range []*socket.Socket{s1, s2} {
			if ev := s.Poll(); ev != datagram.PollOut|datagram.PollIn|datagram.PollWrBand {
				t.Errorf("after a map: %#x", ev)
			}
			if ev := s.Poll(); ev != datagram.PollOut {
				t.Errorf("second look: %#x", ev)
			}
		}
		send()
		send()
		if ev := s1.Poll(); ev != datagram.PollOut|datagram.PollIn|datagram.PollWrBand {
			t.Errorf("after two maps: %#x", ev)
		}
		if ev := s1.Poll(); ev != datagram.PollOut {
			t.Errorf("second look: %#x", ev)
		}
		late := l.bind(n)
		if ev := late.Poll(); ev != datagram.PollOut {
			t.Errorf("late socket: %#x", ev)
		}
	})
}

// With the monitor on a socket hears of the ports it was refused for, in words
// of port mod 64, and no longer of every map (net/rds/cong.c,
// rds_cong_map_updated; net/rds/send.c, rds_cong_wait).
func TestCongestionMonitor(t *testing.T) {
	bubble(t, newMemLab, func(t *testing.T, l *lab) {
		n := l.node(config.Node{})
		peer := l.Raw()
		s, plain := l.bind(n), l.bind(n)
		r := peer.Dial(s.LocalAddrPort().Addr())
		to := func(port uint16) netip.AddrPort { return netip.AddrPortFrom(peer.Addr, port) }
		maps := uint64(0)
		send := func(ports ...uint16) {
			maps++
			r.Put(rdstest.Congestion(ports...))
			rdstest.Eventually(t, "the news of the map", func() bool { return n.mapGen.Load() == maps })
		}
		refused := func(port uint16) {
			t.Helper()
			rdstest.WantErr(t, "send", s.TrySend(to(port), []byte("x")), datagram.ErrCongested)
		}
		news := func() uint64 {
			t.Helper()
			m, err := s.TryRecv()
			if err != nil {
				return 0
			}
			if m.Kind != datagram.KindCongestion || m.Congestion == 0 || m.Data != nil || m.From.IsValid() {
				t.Errorf("%+v", m)
			}
			m.Release()
			return m.Congestion
		}

		send(5000, 5001, 64, 128)
		refused(5000) // before the monitor: not remembered
		rdstest.Must(t, s.SetCongestionMonitor(true))
		send(5000, 5001, 64, 128)
		if got := news(); got != 0 || s.Poll() != datagram.PollOut {
			t.Errorf("news %#x without a refusal", got)
		}
		refused(5001)
		refused(64)
		if got := news(); got != 0 {
			t.Errorf("news %#x without a map", got)
		}
		send(5000)
		rdstest.Eventually(t, "POLLIN", func() bool { return s.Poll() == datagram.PollOut|datagram.PollIn })
		if got, want := news(), uint64(1<<(5001%64)|1<<0); got != want {
			t.Errorf("news %#x, want %#x", got, want)
		}
		if got := news(); got != 0 || s.Poll() != datagram.PollOut {
			t.Errorf("news %#x twice", got)
		}
		if ev := plain.Poll(); ev != datagram.PollOut|datagram.PollIn|datagram.PollWrBand {
			t.Errorf("a socket without monitor: %#x", ev)
		}

		// Off clears what was remembered.
		refused(5000)
		rdstest.Must(t, s.SetCongestionMonitor(false))
		rdstest.Must(t, s.SetCongestionMonitor(true))
		send()
		if got := news(); got != 0 {
			t.Errorf("news %#x after off and on", got)
		}
		rdstest.WantCounter(t, n, "cong_send_error", 4)
	})
}

// A receiver that waits hears of congestion news, and peeking leaves them.
func TestCongestionNewsWakeReceivers(t *testing.T) {
	bubble(t, newMemLab, func(t *testing.T, l *lab) {
		n := l.node(config.Node{})
		peer := l.Raw()
		s := l.bind(n)
		r := peer.Dial(s.LocalAddrPort().Addr())
		rdstest.Must(t, s.SetCongestionMonitor(true))
		r.Put(rdstest.Congestion(7))
		rdstest.Eventually(t, "the news of the map", func() bool { return n.mapGen.Load() == 1 })
		rdstest.WantErr(t, "send", s.TrySend(netip.AddrPortFrom(peer.Addr, 7), nil), datagram.ErrCongested)
		got := make(chan datagram.Message)
		go func() { got <- rdstest.MustRecv(t, s) }()
		rdstest.Eventually(t, "it waits", func() bool { return halfOf(s).Readers.N.Load() == 1 })
		r.Put(rdstest.Congestion())
		if m := <-got; m.Kind != datagram.KindCongestion || m.Congestion != 1<<7 {
			t.Errorf("%+v", m)
		}
		r.Put(rdstest.Congestion(7))
		rdstest.Eventually(t, "the map", func() bool { return rdstest.Counter(t, n, "cong_update_received") == 3 })
		rdstest.WantErr(t, "send", s.TrySend(netip.AddrPortFrom(peer.Addr, 7), nil), datagram.ErrCongested)
		r.Put(rdstest.Congestion())
		for range 2 {
			if n, m, err := s.ReadMessage(nil, datagram.Peek); n != 0 || err != nil || m.Kind != datagram.KindCongestion {
				t.Errorf("peek: %d %+v %v", n, m, err)
			}
		}
		ms := make([]datagram.Message, 4)
		if k, err := s.TryRecvBatch(ms); k != 1 || err != nil || ms[0].Congestion != 1<<7 {
			t.Errorf("batch: %d %v %v", k, &ms[0], err)
		}
	})
}

// A map that frees the port of a refused send before the socket has noted the refusal is
// news all the same.
func TestCongestionNewsBeforeTheRefusalIsNoted(t *testing.T) {
	bubble(t, newLoopLab, func(t *testing.T, l *lab) {
		s, far := l.bindOne(config.Node{}), l.bindOne(config.Node{})
		rdstest.MustSend(t, s, far.LocalAddrPort(), []byte("x"))
		rdstest.Eventually(t, "the peer's map", func() bool { return nodeOf(s).mapGen.Load() == 1 })
		rdstest.Must(t, s.SetCongestionMonitor(true))
		port := far.LocalAddrPort().Port()
		if err := halfOf(s).pause(rdstest.Background(t), halfOf(s).last.Load(), &conn.Message{Dport: port}, conn.ErrCongested, false, nil); err != datagram.ErrCongested {
			t.Error(err)
		}
		m, err := s.TryRecv()
		if err != nil || m.Kind != datagram.KindCongestion || m.Congestion != 1<<(port&63) {
			t.Errorf("%v, %v", &m, err)
		}
	})
}
