package conformance

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/rds-go/rds/rds"
)

// Of a congestion case's messages and buffers.
const (
	congestSize   = 2 << 10
	congestBuffer = 64 << 10
	congestLimit  = 20_000 // messages after which it is time to give up
)

// congest sends to a socket that does not read until its port is congested,
// and returns how many messages are on their way to it. The send buffer may
// still be full: a congested port counts first.
func (l *lab) congest(s, d *rds.Socket) (sent int) {
	l.Helper()
	l.must(d.SetReadBuffer(congestBuffer))
	l.must(s.SetWriteBuffer(4 * congestBuffer))
	data := payload(0, congestSize)
	l.eventually("congestion", func() bool {
		for {
			err := s.TrySend(d.LocalAddrPort(), data)
			switch {
			case errors.Is(err, syscall.ENOBUFS):
				l.fails("TrySend", err, rds.ErrCongested)
				return true
			case errors.Is(err, syscall.EAGAIN):
				return false
			case err != nil:
				l.Fatal(err)
			}
			if sent++; sent > congestLimit {
				l.Fatalf("%d messages and no congestion", sent)
			}
		}
	})
	return sent
}

// drain takes n messages.
func (l *lab) drain(s *rds.Socket, n int) {
	l.Helper()
	for range n {
		m := l.recv(s)
		if len(m.Data) != congestSize {
			l.Fatalf("%v", &m)
		}
		m.Release()
	}
}

var congestionCases = []test{
	{"congestion/refuses and blocks", func(l *lab) {
		a, b := l.pair()
		other := l.far()
		l.congest(a, b)
		l.send(a, other.LocalAddrPort(), "waits for room")
		l.expect(other, "waits for room")
		n, err := a.TrySendBatch([]rds.Outgoing{{To: other.LocalAddrPort()}, {To: b.LocalAddrPort(), Data: []byte("x")}})
		l.fails("TrySendBatch", err, rds.ErrCongested, syscall.ENOBUFS)
		if n != 1 {
			l.Errorf("%d messages of the batch are sent, want 1", n)
		}
		l.fails("empty message", a.TrySend(b.LocalAddrPort(), nil), syscall.ENOBUFS)
		l.fails("Send", a.Send(l.brief(), b.LocalAddrPort(), []byte("x")), context.DeadlineExceeded)
		l.must(a.SetWriteDeadline(time.Now().Add(20 * time.Millisecond)))
		l.fails("Send until a deadline", a.Send(l.patient(), b.LocalAddrPort(), []byte("x")), os.ErrDeadlineExceeded)
		l.must(a.SetWriteDeadline(time.Time{}))
		if ev := a.Poll(); ev&rds.PollHup != 0 {
			l.Errorf("Poll %#x", ev)
		}
		// It is the port that is congested, not its host.
		l.expect(other, "")
		l.send(a, other.LocalAddrPort(), "other port")
		l.expect(other, "other port")
	}},
	{"congestion/counts before a full send buffer", func(l *lab) {
		a, b := l.pair()
		l.congest(a, b)
		l.fill(a, congestSize)
		l.fails("TrySend", a.TrySend(b.LocalAddrPort(), []byte("x")), rds.ErrCongested, syscall.ENOBUFS)
		n, err := a.TrySendBatch([]rds.Outgoing{{To: b.LocalAddrPort()}, {To: b.LocalAddrPort()}})
		l.fails("TrySendBatch", err, rds.ErrCongested, syscall.ENOBUFS)
		if n != 0 {
			l.Errorf("%d messages of the batch are sent, want 0", n)
		}
	}},
	{"congestion/ends when the receiver reads", func(l *lab) {
		a, b := l.pair()
		for range 3 {
			n := l.congest(a, b)
			blocked := []running{
				start(func() error { return a.Send(l.patient(), b.LocalAddrPort(), payload(0, congestSize)) }),
				start(func() error {
					k, err := a.SendBatch(l.patient(), []rds.Outgoing{{To: b.LocalAddrPort(), Data: payload(0, congestSize)}, {To: b.LocalAddrPort(), Data: payload(0, congestSize)}})
					if err == nil && k != 2 {
						err = errors.New("not all")
					}
					return err
				}),
			}
			l.fails("Send", a.Send(l.brief(), b.LocalAddrPort(), nil), context.DeadlineExceeded)
			l.drain(b, n+3)
			for _, r := range blocked {
				l.must(l.end("blocked send", r))
			}
			// What was held back has congested the port again. That ends soon after the last
			// message is taken: with this one in any case.
			l.must(a.Send(l.patient(), b.LocalAddrPort(), payload(0, congestSize)))
			l.drain(b, 1)
			l.empty(b)
		}
	}},
	{"congestion/ends at half the buffer", func(l *lab) {
		a, b := l.pair()
		n := l.congest(a, b)
		left := congestBuffer / congestSize / 4
		for range n - left { // the rest stays
			m := l.recv(b)
			m.Release()
		}
		l.must(a.Send(l.patient(), b.LocalAddrPort(), payload(0, congestSize)))
		l.drain(b, left+1)
	}},
	{"congestion/ends when messages are dropped by a close", func(l *lab) {
		a, b := l.pair()
		l.congest(a, b)
		l.must(b.Close())
		l.must(a.Send(l.patient(), b.LocalAddrPort(), []byte("to nobody")))
	}},
	{"congestion/a larger buffer ends it", func(l *lab) {
		a, b := l.pair()
		l.congest(a, b)
		l.must(b.SetReadBuffer(bigBuffer))
		err := a.Send(l.brief(), b.LocalAddrPort(), payload(0, congestSize))
		if l.differs() {
			l.fails("Send", err, context.DeadlineExceeded)
			return
		}
		if err != nil {
			l.must(a.Send(l.patient(), b.LocalAddrPort(), payload(0, congestSize)))
		}
	}},
	{"congestion/kept messages do not count", func(l *lab) {
		a, b := l.pair()
		n := l.congest(a, b)
		kept := make([]rds.Message, n)
		for i := range kept {
			kept[i] = l.recv(b)
		}
		l.must(a.Send(l.patient(), b.LocalAddrPort(), []byte("goes on")))
		l.expect(b, "goes on")
		for i := range kept {
			kept[i].Release()
		}
	}},
	{"congestion/empty messages count too", func(l *lab) {
		a, b := l.pair()
		l.must(b.SetReadBuffer(congestBuffer))
		l.eventually("congestion", func() bool {
			for range 1000 {
				if err := a.TrySend(b.LocalAddrPort(), nil); err != nil {
					return errors.Is(err, syscall.ENOBUFS)
				}
			}
			return false
		})
	}},
	{"congestion/own port", func(l *lab) {
		a := l.near()
		n := l.congest(a, a)
		blocked := start(func() error { return a.Send(l.patient(), a.LocalAddrPort(), payload(0, congestSize)) })
		l.drain(a, n+1)
		l.must(l.end("Send", blocked))
	}},
	{"congestion/monitor", func(l *lab) {
		a, b := l.pair()
		l.must(a.SetCongestionMonitor(true))
		for range 2 {
			n := l.congest(a, b)
			// Any map is news: what came before the last refusal is taken first.
			for {
				m, err := a.TryRecv()
				if errors.Is(err, syscall.EAGAIN) {
					break
				}
				l.must(err)
				m.Release()
				err = a.TrySend(b.LocalAddrPort(), nil)
				l.fails("TrySend", err, syscall.ENOBUFS)
			}
			l.drain(b, n)
			l.eventually("news, and room", func() bool { ev := a.Poll(); return ev&rds.PollIn != 0 && ev&rds.PollOut != 0 })
			if ev := a.Poll(); ev&rds.PollWrBand != 0 {
				l.Errorf("Poll %#x with a monitor", ev)
			}
			for {
				m := l.recv(a)
				if m.Kind != rds.KindCongestion || m.Congestion != 1<<(b.LocalAddrPort().Port()%64) || m.From.IsValid() || len(m.Data) != 0 {
					l.Fatalf("%v", &m)
				}
				err := a.TrySend(b.LocalAddrPort(), payload(0, congestSize))
				if err == nil {
					break
				}
				l.fails("TrySend", err, syscall.ENOBUFS) // retry, and expect refusal again
			}
			l.drain(b, 1)
		}
		l.must(a.SetCongestionMonitor(false))
	}},
	{"congestion/monitor off", func(l *lab) {
		a, b := l.pair()
		l.must(a.SetCongestionMonitor(true))
		n := l.congest(a, b)
		l.must(a.SetCongestionMonitor(false))
		l.drain(b, n)
		l.must(a.Send(l.patient(), b.LocalAddrPort(), payload(0, congestSize)))
		l.drain(b, 1)
		l.empty(a) // the news went with the monitor
	}},
	{"congestion/polled", func(l *lab) {
		a, b := l.pair()
		l.congest(a, b)
		l.eventually("news", func() bool {
			ev := a.Poll()
			if ev&rds.PollWrBand == 0 {
				return false
			}
			if ev&rds.PollIn == 0 {
				l.Errorf("Poll %#x", ev)
			}
			return true
		})
		l.empty(a)
	}},
	{"congestion/many senders", func(l *lab) {
		b := l.far()
		l.must(b.SetReadBuffer(congestBuffer))
		const senders, each = 6, 200
		var all []running
		for range senders {
			a := l.near()
			l.must(a.SetWriteBuffer(congestBuffer))
			all = append(all, start(func() error {
				for range each {
					if err := a.Send(l.patient(), b.LocalAddrPort(), payload(0, congestSize)); err != nil {
						return err
					}
				}
				return nil
			}))
		}
		l.drain(b, senders*each)
		for _, r := range all {
			l.must(l.end("sender", r))
		}
		l.empty(b)
	}},
}
