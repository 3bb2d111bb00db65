package rds

import (
	"net/netip"
	"testing"

	"github.com/rds-go/rds/conn"
)

// poll(2) of Linux RDS (net/rds/af_rds.c, rds_poll).
func TestPollBits(t *testing.T) {
	t.Parallel()
	a, b := newLoopLab(t).pair(Config{})
	if ev := b.Poll(); ev != PollOut {
		t.Errorf("fresh: %#x", ev)
	}
	mustSend(t, a, b.LocalAddrPort(), []byte("x"))
	eventually(t, "the peer's maps", func() bool { return counter(t, nodeOf(b), "cong_update_received") > 0 })
	eventually(t, "arrival", func() bool { return counter(t, nodeOf(b), "recv_queued") == 1 })
	b.Poll()
	if ev := b.Poll(); ev != PollOut|PollIn {
		t.Errorf("with a message: %#x", ev)
	}
	expect(t, b, "x")
	if ev := b.Poll(); ev != PollOut {
		t.Errorf("after it: %#x", ev)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if ev := b.Poll(); ev != PollHup {
		t.Errorf("closed: %#x", ev)
	}
}

// A congestion map is news once for every socket, whatever connection it came
// on, and none for sockets made later.
func TestEveryMapIsNewsOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.node(Config{})
	peer := l.raw()
	s1, s2 := l.bind(n), l.bind(n)
	r := peer.dial(s1.LocalAddrPort().Addr())
	maps := uint64(0)
	send := func() {
		maps++
		r.write(congestion())
		eventually(t, "the news of the map", func() bool { return n.mapGen.Load() == maps })
	}
	send()
	for _, s := range []*Socket{s1, s2} {
		if ev := s.Poll(); ev != PollOut|PollIn|PollWrBand {
			t.Errorf("after a map: %#x", ev)
		}
		if ev := s.Poll(); ev != PollOut {
			t.Errorf("second look: %#x", ev)
		}
	}
	send()
	send()
	if ev := s1.Poll(); ev != PollOut|PollIn|PollWrBand {
		t.Errorf("after two maps: %#x", ev)
	}
	if ev := s1.Poll(); ev != PollOut {
		t.Errorf("second look: %#x", ev)
	}
	late := l.bind(n)
	if ev := late.Poll(); ev != PollOut {
		t.Errorf("late socket: %#x", ev)
	}
}

// With the monitor on a socket hears of the ports it was refused for, in words
// of port mod 64, and no longer of every map (net/rds/cong.c,
// rds_cong_map_updated; net/rds/send.c, rds_cong_wait).
func TestCongestionMonitor(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.node(Config{})
	peer := l.raw()
	s, plain := l.bind(n), l.bind(n)
	r := peer.dial(s.LocalAddrPort().Addr())
	to := func(port uint16) netip.AddrPort { return netip.AddrPortFrom(peer.addr, port) }
	maps := uint64(0)
	send := func(ports ...uint16) {
		maps++
		r.write(congestion(ports...))
		eventually(t, "the news of the map", func() bool { return n.mapGen.Load() == maps })
	}
	refused := func(port uint16) {
		t.Helper()
		wantErr(t, "send", s.TrySend(to(port), []byte("x")), ErrCongested)
	}
	news := func() uint64 {
		t.Helper()
		m, err := s.TryRecv()
		if err != nil {
			return 0
		}
		if m.Kind != KindCongestion || m.Congestion == 0 || m.Data != nil || m.From.IsValid() {
			t.Errorf("%+v", m)
		}
		m.Release()
		return m.Congestion
	}

	send(5000, 5001, 64, 128)
	refused(5000) // before the monitor: not remembered
	if err := s.SetCongestionMonitor(true); err != nil {
		t.Fatal(err)
	}
	send(5000, 5001, 64, 128)
	if got := news(); got != 0 || s.Poll() != PollOut {
		t.Errorf("news %#x without a refusal", got)
	}
	refused(5001)
	refused(64)
	if got := news(); got != 0 {
		t.Errorf("news %#x without a map", got)
	}
	send(5000)
	eventually(t, "POLLIN", func() bool { return s.Poll() == PollOut|PollIn })
	if got, want := news(), uint64(1<<(5001%64)|1<<0); got != want {
		t.Errorf("news %#x, want %#x", got, want)
	}
	if got := news(); got != 0 || s.Poll() != PollOut {
		t.Errorf("news %#x twice", got)
	}
	if ev := plain.Poll(); ev != PollOut|PollIn|PollWrBand {
		t.Errorf("a socket without monitor: %#x", ev)
	}

	// Off clears what was remembered.
	refused(5000)
	if err := s.SetCongestionMonitor(false); err != nil {
		t.Fatal(err)
	}
	if err := s.SetCongestionMonitor(true); err != nil {
		t.Fatal(err)
	}
	send()
	if got := news(); got != 0 {
		t.Errorf("news %#x after off and on", got)
	}
	if got := counter(t, n, "cong_send_error"); got != 4 {
		t.Errorf("cong_send_error %d", got)
	}
}

// A receiver that waits hears of congestion news, and peeking leaves them.
func TestCongestionNewsWakeReceivers(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.node(Config{})
	peer := l.raw()
	s := l.bind(n)
	r := peer.dial(s.LocalAddrPort().Addr())
	if err := s.SetCongestionMonitor(true); err != nil {
		t.Fatal(err)
	}
	r.write(congestion(7))
	eventually(t, "the news of the map", func() bool { return n.mapGen.Load() == 1 })
	wantErr(t, "send", s.TrySend(netip.AddrPortFrom(peer.addr, 7), nil), ErrCongested)
	got := make(chan Message)
	go func() { got <- mustRecv(t, s) }()
	eventually(t, "it waits", func() bool { return halfOf(s).readers.n.Load() == 1 })
	r.write(congestion())
	if m := <-got; m.Kind != KindCongestion || m.Congestion != 1<<7 {
		t.Errorf("%+v", m)
	}
	r.write(congestion(7))
	eventually(t, "the map", func() bool { return counter(t, n, "cong_update_received") == 3 })
	wantErr(t, "send", s.TrySend(netip.AddrPortFrom(peer.addr, 7), nil), ErrCongested)
	r.write(congestion())
	for range 2 {
		if n, m, err := s.ReadMessage(nil, Peek); n != 0 || err != nil || m.Kind != KindCongestion {
			t.Errorf("peek: %d %+v %v", n, m, err)
		}
	}
	ms := make([]Message, 4)
	if k, err := s.TryRecvBatch(ms); k != 1 || err != nil || ms[0].Congestion != 1<<7 {
		t.Errorf("batch: %d %v %v", k, &ms[0], err)
	}
}

// A map that frees the port of a refused send before the socket has noted the refusal is
// news all the same.
func TestCongestionNewsBeforeTheRefusalIsNoted(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	s, far := l.bindOne(Config{}), l.bindOne(Config{})
	mustSend(t, s, far.LocalAddrPort(), []byte("x"))
	eventually(t, "the peer's map", func() bool { return nodeOf(s).mapGen.Load() == 1 })
	mustSet(t, s.SetCongestionMonitor(true))
	port := far.LocalAddrPort().Port()
	if err := halfOf(s).pause(background(t), halfOf(s).last.Load(), &conn.Message{Dport: port}, conn.ErrCongested, false, nil); err != ErrCongested {
		t.Error(err)
	}
	m, err := s.TryRecv()
	if err != nil || m.Kind != KindCongestion || m.Congestion != 1<<(port&63) {
		t.Errorf("%v, %v", &m, err)
	}
}
