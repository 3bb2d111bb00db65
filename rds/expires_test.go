package rds

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/conn"
)

// expiring makes a socket of each provider on a node of the lab.
func expiring(t *testing.T, each func(t *testing.T, l *lab, bind func(Config) *Socket)) {
	t.Run("node", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		each(t, l, l.bindOne)
	})
	t.Run("rdsd", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		each(t, l, func(cfg Config) *Socket {
			_, _, path := served(t, l, cfg, ServiceConfig{})
			return bound(t, dialed(t, path), addrOf(newAddr(), 4000))
		})
	})
}

func after(d time.Duration) time.Time { return time.Now().Add(d) }

// rarely has a node do nothing of its own accord for a peer that it has not reached.
func rarely(cfg Config) Config {
	cfg.ReconnectMin, cfg.ReconnectMax = time.Hour, time.Hour
	return cfg
}

// A message for a host that cannot be reached ends with its time limit and not before;
// those without one, or a later one, wait on in their order.
func TestExpiresWhileThePeerIsUnreachable(t *testing.T) {
	t.Parallel()
	expiring(t, func(t *testing.T, l *lab, bind func(Config) *Socket) {
		s := bind(rarely(Config{}))
		to := nowhere()
		limit := after(100 * time.Millisecond)
		for i, size := range []int{0, 10, conn.InlineMax + 1, 300_000} {
			o := Outgoing{To: to, Data: payload(uint64(i), size), Notify: true, Token: uint64(i), Expires: limit}
			if i == 1 {
				o.Expires = after(time.Hour)
			}
			if err := s.SendMessage(background(t), &o); err != nil {
				t.Fatal(err)
			}
			mustSend(t, s, to, payload(uint64(10+i), 10))
		}
		for _, token := range []uint64{0, 2, 3} {
			wantStatus(t, s, token, StatusExpired)
			if time.Now().Before(limit) {
				t.Errorf("message %d expires too early", token)
			}
		}
		if err := s.TrySendMessage(&Outgoing{To: to, Notify: true, Token: 100, Expires: after(50 * time.Millisecond)}); err != nil { // nothing follows it
			t.Fatal(err)
		}
		wantStatus(t, s, 100, StatusExpired)
		late := l.bind(l.node(Config{}), to)
		mustSend(t, late, addrOf(s.LocalAddrPort().Addr(), 9), nil) // connects
		for _, number := range []uint64{10, 1, 11, 12, 13} {
			expectNumber(t, late, number)
		}
		wantStatus(t, s, 1, StatusSuccess)
	})
}

// A message whose limit is over when it is sent never goes, be the peer up or not; nor
// does it hinder others of its batch.
func TestExpiredWhenItIsSent(t *testing.T) {
	t.Parallel()
	expiring(t, func(t *testing.T, l *lab, bind func(Config) *Socket) {
		s, peer := bind(Config{}), l.bindOne(Config{})
		mustSend(t, s, peer.LocalAddrPort(), []byte("up"))
		expect(t, peer, "up")
		var out []Outgoing
		for i := range 300 {
			o := Outgoing{To: peer.LocalAddrPort(), Data: payload(uint64(i), []int{8, 100, 20_000}[i%3]), Notify: true, Token: uint64(i)}
			switch {
			case i%2 == 0:
				o.Expires = after(-time.Duration(i) * time.Hour)
			case i%3 == 0:
				o.Expires = after(100 * 365 * 24 * time.Hour * time.Duration(i%5%3)) // what is over again, or far away
			}
			out = append(out, o)
		}
		wanted := func(i int) bool { return out[i].Expires.IsZero() || out[i].Expires.After(time.Now()) }
		if n, err := s.SendBatch(background(t), out); n != len(out) || err != nil {
			t.Fatal(n, err)
		}
		if err := s.SendMessage(background(t), &Outgoing{To: peer.LocalAddrPort(), Notify: true, Token: 1000, Expires: after(-1)}); err != nil {
			t.Fatal(err)
		}
		if err := s.TrySendMessage(&Outgoing{To: nowhere(), Notify: true, Token: 1001, Expires: after(-1)}); err != nil {
			t.Fatal(err)
		}
		for i := range out {
			if !wanted(i) {
				continue
			}
			expectNumber(t, peer, uint64(i))
		}
		for range len(out) + 2 {
			m := mustRecv(t, s)
			if i := int(m.Token); m.Kind != KindStatus || (m.Status == StatusSuccess) != (i < len(out) && wanted(i)) || m.Status != StatusSuccess && m.Status != StatusExpired {
				t.Errorf("fate %v", &m)
			}
		}
		if m, err := peer.TryRecv(); err == nil {
			t.Errorf("%v came, too", &m)
		}
	})
}

// Messages that wait for a congested port expire, and what has expired is not received.
func TestExpiresAtACongestedPort(t *testing.T) {
	t.Parallel()
	expiring(t, func(t *testing.T, l *lab, bind func(Config) *Socket) {
		s := bind(Config{SendBuffer: 8 << 20, ReconnectMin: time.Millisecond, ReconnectMax: 10 * time.Millisecond})
		to := nowhere()
		const n = 200 // more than the port takes, and no map has come yet
		for i := range uint64(n) {
			o := Outgoing{To: to, Data: payload(i, 8<<10), Notify: true, Token: i, Expires: after(3 * time.Second)}
			if err := s.SendMessage(background(t), &o); err != nil {
				t.Fatal(err)
			}
		}
		peer := l.bind(l.node(Config{ReceiveBuffer: 64 << 10, ReceiveOverrun: 256 << 10}), to)
		ends, expired := make(map[Status]int), make(map[uint64]bool)
		for range n {
			m := mustRecv(t, s)
			ends[m.Status]++
			expired[m.Token] = m.Status == StatusExpired
		}
		if ends[StatusExpired] == 0 || ends[StatusSuccess] == 0 || ends[StatusExpired]+ends[StatusSuccess] != n {
			t.Fatalf("fates %v", ends)
		}
		for i := range uint64(n) {
			if expired[i] {
				continue
			}
			expectNumber(t, peer, i)
		}
		mustSend(t, s, to, []byte("last"))
		expect(t, peer, "last")
	})
}

// A send that blocks waits for room no longer than its message may.
func TestBlockedSendEndsWithItsMessage(t *testing.T) {
	t.Parallel()
	expiring(t, func(t *testing.T, l *lab, bind func(Config) *Socket) {
		s := bind(Config{SendBuffer: 100_000})
		to := nowhere()
		for s.TrySend(to, make([]byte, 10_000)) == nil {
		}
		for _, limit := range []time.Duration{-time.Second, 50 * time.Millisecond} {
			o := Outgoing{To: to, Data: make([]byte, 10_000), Notify: true, Expires: after(limit)}
			wantErr(t, "SendMessage", s.SendMessage(background(t), &o), context.DeadlineExceeded)
			n, err := s.SendBatch(background(t), []Outgoing{o})
			if n != 0 {
				t.Error("sent in a batch")
			}
			wantErr(t, "SendBatch", err, context.DeadlineExceeded)
		}
		if m, err := s.TryRecv(); err == nil {
			t.Errorf("%v of a message that was not accepted", &m)
		}
	})
}

// What has expired for a host that is down leaves the host its part of the send buffer,
// while another one that is down has as much as it may: each message is alone.
func TestExpiredMessagesLeaveRoom(t *testing.T) {
	t.Parallel()
	expiring(t, func(t *testing.T, l *lab, bind func(Config) *Socket) {
		s := bind(Config{SendBuffer: 100_000})
		other, to := nowhere(), nowhere()
		for s.TrySend(other, make([]byte, 1000)) == nil {
		}
		for i := range uint64(40) {
			o := Outgoing{To: to, Data: make([]byte, 4000), Notify: true, Token: i, Expires: after(10 * time.Millisecond)}
			if i%2 == 0 {
				if n, err := s.SendBatch(background(t), []Outgoing{o}); n != 1 {
					t.Fatal(i, err)
				}
			} else if err := s.SendMessage(background(t), &o); err != nil {
				t.Fatal(i, err)
			}
			wantStatus(t, s, i, StatusExpired)
		}
	})
}

// What waits in the daemon behind a full connection expires there, and the rest keeps its
// order.
func TestExpiresInAFlow(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	n, _, path := served(t, l, rarely(Config{PeerBudget: 50_000}), ServiceConfig{})
	s := bound(t, dialed(t, path), addrOf(newAddr(), 4000))
	to := nowhere()
	const most = 20
	for i := range uint64(most) {
		o := Outgoing{To: to, Data: payload(i, []int{1000, 20_000}[i%2]), Notify: true, Token: i}
		switch i % 4 {
		case 1, 2:
			o.Expires = after(2*time.Second + time.Duration(i)*5*time.Millisecond)
		case 3:
			o.Expires = after(time.Hour)
		}
		if err := s.SendMessage(background(t), &o); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "messages to be in a flow", func() bool {
		parked := 0
		n.eachPeer(func(p *peer) {
			p.Lock()
			for _, f := range p.flows {
				parked += f.queue.Len()
			}
			p.Unlock()
		})
		return parked > most/2
	})
	for i := range uint64(most) {
		if i%4 == 1 || i%4 == 2 {
			wantStatus(t, s, i, StatusExpired)
		}
	}
	if err := s.TrySendMessage(&Outgoing{To: to, Notify: true, Token: 100, Expires: after(50 * time.Millisecond)}); err != nil { // nothing follows it
		t.Fatal(err)
	}
	wantStatus(t, s, 100, StatusExpired)
	if got := counter(t, n, "send_expired"); got != most/2+1 {
		t.Errorf("send_expired %d", got)
	}
	late := l.bind(l.node(Config{}), to)
	mustSend(t, late, addrOf(s.LocalAddrPort().Addr(), 9), nil) // connects
	for i := range uint64(most) {
		if i%4 == 1 || i%4 == 2 {
			continue
		}
		expectNumber(t, late, i)
		wantStatus(t, s, i, StatusSuccess)
	}
}

// The kernel's sockets and daemons of earlier versions know no time limits, and a message
// that has one is not sent without it.
func TestTimeLimitsThatAreNotKnown(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	_, _, path := served(t, l, Config{}, ServiceConfig{})
	s, peer := bound(t, dialed(t, path), addrOf(newAddr(), 4000)), l.bindOne(Config{})
	mustSend(t, s, peer.LocalAddrPort(), []byte("up"))
	expect(t, peer, "up")
	clientHalfOf(s).half.Load().t.expires = false
	o := Outgoing{To: peer.LocalAddrPort(), Expires: after(time.Hour)}
	wantErr(t, "SendMessage", s.SendMessage(background(t), &o), ErrNotSupported)
	n, err := s.SendBatch(background(t), []Outgoing{{To: peer.LocalAddrPort(), Data: []byte("without")}, o})
	if n != 1 {
		t.Errorf("%d were sent in a batch", n)
	}
	wantErr(t, "SendBatch", err, ErrNotSupported)
	expect(t, peer, "without")
	wantErr(t, "kernel", newSocket(new(kernelSocket)).TrySendMessage(&o), ErrNotSupported, syscall.EOPNOTSUPP)
}
