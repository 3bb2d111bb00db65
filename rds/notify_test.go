package rds

import (
	"errors"
	"net"
	"testing"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/wire"
)

// The fate of messages, as Linux reports it for RDMA operations
// (include/uapi/linux/rds.h, RDS_CMSG_RDMA_STATUS).

func wantStatus(t testing.TB, s *Socket, token uint64, status Status) {
	t.Helper()
	m := mustRecv(t, s)
	if m.Kind != KindStatus || m.Token != token || m.Status != status || m.Data != nil || m.From.IsValid() {
		t.Errorf("%+v, want status %d of %#x", m, status, token)
	}
	m.Release()
}

func TestNotifySuccess(t *testing.T) {
	t.Parallel()
	for _, l := range []*lab{newLab(t), newLoopLab(t)} {
		a, b := l.pair(Config{})
		for i, size := range []int{0, 10, 100_000} {
			o := Outgoing{To: b.LocalAddrPort(), Data: make([]byte, size), Notify: true, Token: uint64(i) << 40}
			if err := a.SendMessage(background(t), &o); err != nil {
				t.Fatal(err)
			}
			m := mustRecv(t, b)
			m.Release()
			wantStatus(t, a, uint64(i)<<40, StatusSuccess)
		}
		// Of a message for a port that nobody is bound to the fate is another one.
		o := Outgoing{To: addrOf(b.LocalAddrPort().Addr(), 9), Notify: true, Token: 5}
		if err := a.SendMessage(background(t), &o); err != nil {
			t.Fatal(err)
		}
		wantStatus(t, a, 5, StatusRefused)
		mustSend(t, a, b.LocalAddrPort(), []byte("unasked"))
		expect(t, b, "unasked")
		eventually(t, "the acknowledgement", func() bool { return halfOf(a).account.Messages() == 0 })
		if _, err := a.TryRecv(); !errors.Is(err, ErrWouldBlock) {
			t.Error("a fate nobody asked for")
		}
	}
}

func TestCancelSentTo(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	n := l.node(Config{})
	s := l.bind(n)
	other := l.bind(n, addrOf(s.LocalAddrPort().Addr(), 4001))
	host := nowhere()
	elsewhere := nowhere()
	send := func(s *Socket, port uint16, token uint64) {
		t.Helper()
		o := Outgoing{To: addrOf(host.Addr(), port), Data: make([]byte, 100), Notify: true, Token: token}
		if err := s.SendMessage(background(t), &o); err != nil {
			t.Fatal(err)
		}
	}
	send(s, 1000, 1)
	send(s, 1001, 2)
	send(other, 1000, 3)
	send(s, 1000, 4)
	if err := s.TrySendMessage(&Outgoing{To: elsewhere, Data: make([]byte, 100), Notify: true, Token: 5}); err != nil {
		t.Fatal(err)
	}
	if err := s.CancelSentTo(addrOf(nowhere().Addr(), 1000)); err != nil { // a host never sent to
		t.Fatal(err)
	}
	if err := s.CancelSentTo(addrOf(host.Addr(), 1000)); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, s, 1, StatusCanceled)
	wantStatus(t, s, 4, StatusCanceled)
	if got := halfOf(s).account.Bytes(); got != 200 {
		t.Errorf("%d bytes charged", got)
	}
	if got := halfOf(other).account.Bytes(); got != 100 {
		t.Errorf("%d bytes of the other socket charged", got)
	}
	if err := s.CancelSentTo(Outgoing{}.To); err != nil { // all
		t.Fatal(err)
	}
	m := mustRecv(t, s)
	if m.Kind != KindStatus || m.Status != StatusCanceled || m.Token != 2 && m.Token != 5 {
		t.Errorf("%v", &m)
	}
	wantStatus(t, s, 7-m.Token, StatusCanceled) // the other one, in any order
	if _, err := s.TryRecv(); !errors.Is(err, ErrWouldBlock) {
		t.Error("more fates than messages")
	}
	if _, err := other.TryRecv(); !errors.Is(err, ErrWouldBlock) {
		t.Error("a fate of another socket's message")
	}
	late := l.bind(l.node(Config{}), addrOf(host.Addr(), 1000))
	m = mustRecv(t, late)
	if m.From != other.LocalAddrPort() {
		t.Errorf("%v arrived", &m)
	}
	m.Release()
	wantStatus(t, other, 3, StatusSuccess)
}

// RDS_RECVERR: messages that did not ask report failure, and only that.
func TestRecvErr(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	s := l.bindOne(Config{})
	d := l.bindOne(Config{})
	if s.RecvErr() {
		t.Error("on by default")
	}
	if err := s.SetRecvErr(true); err != nil || !s.RecvErr() {
		t.Fatal(err)
	}
	mustSend(t, s, d.LocalAddrPort(), []byte("x"))
	expect(t, d, "x")
	lost := nowhere()
	mustSend(t, s, lost, []byte("y"))
	if err := s.CancelSentTo(lost); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, s, 0, StatusCanceled)
	if _, err := s.TryRecv(); !errors.Is(err, ErrWouldBlock) {
		t.Error("success reported")
	}
	o := Outgoing{To: d.LocalAddrPort(), Notify: true, Token: 7} // who asks is told, RECVERR or not
	if err := s.SendMessage(background(t), &o); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, s, 7, StatusSuccess)
	if err := s.SetRecvErr(false); err != nil {
		t.Fatal(err)
	}
	mustSend(t, s, lost, []byte("z"))
	if err := s.CancelSentTo(lost); err != nil {
		t.Fatal(err)
	}
	if _, err := s.TryRecv(); !errors.Is(err, ErrWouldBlock) {
		t.Error("reported while off")
	}
}

// What a peer's earlier incarnation was sent and did not acknowledge is not
// repeated to the later one (net/rds/recv.c, rds_recv_hs_exthdrs).
func TestNewGenerationDrops(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	peer := l.raw()
	s := l.bindOne(Config{TCP: TCPConfig{SendBuffer: 256 << 10}})
	dial := func(generation uint32) *raw {
		r := peer.dial(s.LocalAddrPort().Addr())
		_ = r.Conn.(*net.TCPConn).SetReadBuffer(4096) // so that most of it cannot be acknowledged
		r.write(r.probe(wire.Handshake{HasPaths: true, Paths: 1, Generation: generation}))
		eventually(t, "the handshake", func() bool {
			c := connections(t, nodeOf(s))
			return len(c) == 1 && c[0].Generation == generation
		})
		return r
	}
	r := dial(5)
	o := Outgoing{To: addrOf(peer.addr, 1000), Notify: true, Token: 1}
	for range 3 { // far more than the window takes
		o.Data = make([]byte, MaxMessage)
		if err := s.SendMessage(background(t), &o); err != nil {
			t.Fatal(err)
		}
		o.Token++
	}
	sent := func() bool { return connections(t, nodeOf(s))[0].Path[0].Written > 32<<10 }
	eventually(t, "a part is written", sent)
	r.reset()
	eventually(t, "the loss", func() bool { return !connections(t, nodeOf(s))[0].Connected })
	r = dial(6)
	eventually(t, "a part is written again", sent)
	r.reset()
	wantStatus(t, s, 1, StatusDropped)
	r = peer.dial(s.LocalAddrPort().Addr())
	r.write(congestion()) // or nobody knows that it took the link
	for token := uint64(2); token <= 3; token++ {
		h, b := r.nextData()
		if h.Retransmitted() || len(b) != MaxMessage {
			t.Errorf("%+v", h)
		}
		wantStatus(t, s, token, StatusSuccess)
	}
	if got := counter(t, nodeOf(s), "send_drop_generation"); got != 1 {
		t.Errorf("send_drop_generation %d", got)
	}
	if got := counter(t, nodeOf(s), "peer_generations"); got != 1 {
		t.Errorf("peer_generations %d", got)
	}
}

// RDS_RECVERR adds the failures of messages that did not ask, and changes
// nothing for those that did, whatever their token.
func TestRecvErrAndNotifyAreIndependent(t *testing.T) {
	t.Parallel()
	a, b := newLoopLab(t).pair(Config{})
	if err := a.SetRecvErr(true); err != nil {
		t.Fatal(err)
	}
	ctx := background(t)
	for _, o := range []Outgoing{
		{To: b.LocalAddrPort(), Data: []byte("x"), Token: 7},
		{To: b.LocalAddrPort(), Data: []byte("x"), Notify: true},
	} {
		if err := a.SendMessage(ctx, &o); err != nil {
			t.Fatal(err)
		}
	}
	m, err := a.Recv(ctx)
	if err != nil || m.Kind != KindStatus || m.Token != 0 || m.Status != StatusSuccess {
		t.Fatalf("%v, %v", &m, err)
	}
	if m, err := a.TryRecv(); err == nil {
		t.Errorf("one more: %v", &m)
	}
}

// Fates come before data that was there first, and a socket that does not
// read them is refused more.
func TestFatesComeFirstAndAreBounded(t *testing.T) {
	t.Parallel()
	a, b := newLoopLab(t).pair(Config{})
	ctx := background(t)
	mustSend(t, b, a.LocalAddrPort(), []byte("data"))
	eventually(t, "data", func() bool { return counter(t, nodeOf(a), "recv_queued") == 1 })
	o := Outgoing{To: b.LocalAddrPort(), Notify: true, Token: 1}
	if err := a.SendMessage(ctx, &o); err != nil {
		t.Fatal(err)
	}
	eventually(t, "fate", func() bool { return halfOf(a).fates.n.Load() == 1 })
	for i, want := range []Kind{KindStatus, KindData} {
		m, err := a.Recv(ctx)
		if err != nil || m.Kind != want {
			t.Fatalf("message %d: %v, %v", i, &m, err)
		}
		m.Release()
	}
	// Empty messages fill a receive buffer too: without a reader, congestion
	// would block the sender first.
	go discard(ctx, b)
	for range maxFates + 10000 {
		if err := a.SendMessage(ctx, &o); err != nil {
			wantErr(t, "unread fates", err, ErrWouldBlock)
			return
		}
	}
	eventually(t, "all fates", func() bool { return halfOf(a).fates.full() })
	wantErr(t, "unread fates", a.SendMessage(ctx, &o), ErrWouldBlock)
}

// Fates of which there always is one to be read take no more memory than what waits.
func TestFatesThatAreNeverAllReadDoNotGrow(t *testing.T) {
	t.Parallel()
	const waiting, fates = 3000, 1 << 17
	var q fateQueue
	for i := range uint64(fates) {
		q.queue.Push(conn.Fate{Token: i})
		q.n.Add(1)
		if i < waiting {
			continue
		}
		var f conn.Fate
		if !q.take(&f, false) || f.Token != i-waiting {
			t.Fatalf("fate %d comes, not %d", f.Token, i-waiting)
		}
		if n := cap(q.queue.All()); n > 8*waiting {
			t.Fatalf("memory for %d fates, of which %d wait", n, waiting)
		}
	}
}
