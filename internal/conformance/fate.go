package conformance

import (
	"context"
	"syscall"
	"time"

	"github.com/rds-go/rds/rds"
)

// fate receives the fate of a message.
func (l *lab) fate(s *rds.Socket, token uint64, status rds.Status) {
	l.Helper()
	m := l.recv(s)
	if m.Kind != rds.KindStatus || m.Token != token || m.Status != status || m.From.IsValid() || len(m.Data) != 0 {
		l.Errorf("%v, want status %d of %#x", &m, status, token)
	}
	m.Release()
}

var fateCases = []test{
	{"fate/delivered", func(l *lab) {
		a, b := l.pair()
		l.must(a.SetWriteBuffer(bigBuffer))
		sizes := []int{0, 10, 16 << 10, 16<<10 + 1, 1 << 20}
		for i, n := range sizes {
			err := a.SendMessage(l.patient(), &rds.Outgoing{To: b.LocalAddrPort(), Data: payload(i, n), Notify: true, Token: uint64(i) | 1<<63})
			l.must(err)
			m := l.recv(b)
			m.Release()
			l.fate(a, uint64(i)|1<<63, rds.StatusSuccess)
		}
		// In a batch; those without Notify have none.
		n, err := a.SendBatch(l.patient(), []rds.Outgoing{
			{To: b.LocalAddrPort(), Notify: true, Token: 1}, {To: b.LocalAddrPort()}, {To: b.LocalAddrPort(), Notify: true, Token: 1},
		})
		if n != 3 || err != nil {
			l.Fatal(n, err)
		}
		l.fate(a, 1, rds.StatusSuccess) // tokens need not differ
		l.fate(a, 1, rds.StatusSuccess)
		l.empty(a)
	}},
	{"fate/canceled", func(l *lab) {
		s := l.near()
		for i := range 3 {
			l.must(s.TrySendMessage(&rds.Outgoing{To: l.nowhere(), Data: payload(0, i*20_000), Notify: true, Token: uint64(i)}))
			l.must(s.TrySend(l.nowhere(), []byte("silent")))
		}
		l.must(s.CancelSentTo(l.nowhere()))
		for i := range 3 {
			l.fate(s, uint64(i), rds.StatusCanceled)
		}
		l.empty(s)
	}},
	{"fate/comes before data", func(l *lab) {
		s := l.near()
		l.send(s, s.LocalAddrPort(), "data")
		l.arrived(s)
		l.must(s.TrySendMessage(&rds.Outgoing{To: l.nowhere(), Notify: true, Token: 7}))
		l.must(s.CancelSentTo(l.nowhere()))
		l.must(s.TrySendMessage(&rds.Outgoing{To: l.nowhere(), Notify: true, Token: 8}))
		l.must(s.CancelSentTo(l.nowhere()))
		for token := range uint64(2) { // fates from rdsd come a moment later
			l.eventually("fate", func() bool {
				_, m, err := s.ReadMessage(nil, rds.Peek|rds.DontWait)
				l.must(err)
				return m.Kind == rds.KindStatus && m.Token == 7+token
			})
			if token == 0 {
				l.fate(s, 7, rds.StatusCanceled)
			}
		}
		ms := make([]rds.Message, 5)
		n, err := s.RecvBatch(l.patient(), ms)
		if n != 2 || err != nil || ms[0].Token != 8 || string(ms[1].Data) != "data" {
			l.Fatal(n, err, ms)
		}
		ms[1].Release()
	}},
	{"fate/of all that fail", func(l *lab) {
		s := l.near()
		if s.RecvErr() {
			l.Error("RECVERR is on")
		}
		l.must(s.SetRecvErr(true))
		if !s.RecvErr() {
			l.Error("RECVERR is off")
		}
		l.send(s, s.LocalAddrPort(), "delivered: no fate")
		l.expect(s, "delivered: no fate")
		l.must(s.TrySend(l.nowhere(), []byte("x")))
		l.must(s.CancelSentTo(l.nowhere()))
		if l.differs() {
			l.empty(s)
			return
		}
		l.fate(s, 0, rds.StatusCanceled)
		l.must(s.SetRecvErr(false))
		l.must(s.TrySend(l.nowhere(), []byte("x")))
		l.must(s.CancelSentTo(l.nowhere()))
		l.empty(s)
	}},
	{"fate/refused", func(l *lab) {
		a, b := l.pair()
		to := b.LocalAddrPort()
		nobody := addrPort(l.FarAddr, 2)
		for i, n := range []int{0, 10, 100_000} {
			l.must(a.SendMessage(l.patient(), &rds.Outgoing{To: nobody, Data: payload(i, n), Notify: true, Token: uint64(i)}))
			l.fate(a, uint64(i), rds.StatusRefused)
		}
		l.must(a.SetRecvErr(true)) // a refusal is a failure
		l.send(a, nobody, "refused")
		l.send(a, to, "delivered")
		l.expect(b, "delivered")
		l.fate(a, 0, rds.StatusRefused)
		l.must(b.Close())
		l.must(a.SendMessage(l.patient(), &rds.Outgoing{To: to, Notify: true, Token: 9})) // b's port was bound before
		l.fate(a, 9, rds.StatusRefused)
		l.empty(a)
	}},
	{"fate/expired", func(l *lab) {
		s := l.near()
		over := rds.Outgoing{To: l.nowhere(), Expires: time.Now().Add(-time.Hour)}
		if l.differs() {
			l.fails("a send with a time limit", s.TrySendMessage(&over), rds.ErrNotSupported, syscall.EOPNOTSUPP)
			return
		}
		l.must(s.SetRecvErr(true)) // an expired message is a failure
		l.must(s.TrySendMessage(&over))
		l.fate(s, 0, rds.StatusExpired)
		limit := time.Now().Add(50 * time.Millisecond)
		for i, n := range []int{0, 10, 100_000} {
			l.must(s.SendMessage(l.patient(), &rds.Outgoing{To: l.nowhere(), Data: payload(i, n), Notify: true, Token: uint64(i), Expires: limit}))
		}
		for i := range uint64(3) {
			l.fate(s, i, rds.StatusExpired)
		}
		if time.Now().Before(limit) {
			l.Error("expired too early")
		}
		b := l.far()
		l.must(s.SendMessage(l.patient(), &rds.Outgoing{To: b.LocalAddrPort(), Data: []byte("in time"), Notify: true, Token: 9, Expires: time.Now().Add(patience)}))
		l.fate(s, 9, rds.StatusSuccess)
		l.expect(b, "in time")
		full := l.near()
		l.must(full.SetWriteBuffer(100_000))
		l.fill(full, 10_000)
		err := full.SendMessage(l.patient(), &rds.Outgoing{To: l.nowhere(), Data: payload(0, 10_000), Expires: time.Now().Add(30 * time.Millisecond)})
		l.fails("a send that waits for room", err, context.DeadlineExceeded)
		l.empty(s)
	}},
	{"fate/too many unread", func(l *lab) {
		const most = 64 << 10
		s := l.near()
		l.far() // makes the far address reachable
		for i := range most {
			l.must(s.SendMessage(l.patient(), &rds.Outgoing{To: addrPort(l.FarAddr, 2), Notify: true, Token: uint64(i)}))
		}
		l.eventually("refusal", func() bool { // the refusal of a message that waits for all others
			err := s.SendMessage(l.patient(), &rds.Outgoing{To: addrPort(l.FarAddr, 2), Notify: true})
			if err == nil {
				return false
			}
			l.fails("SendMessage", err, rds.ErrWouldBlock, syscall.EAGAIN)
			return true
		})
		l.must(s.Send(l.patient(), addrPort(l.FarAddr, 2), nil)) // a message without Notify is accepted
		l.fate(s, 0, rds.StatusRefused)
	}},
}
