package conformance

import (
	"context"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/rds-go/rds/rds"
)

// The send buffer, and waiting for it.
var bufferCases = []test{
	{"buffer/sizes", func(l *lab) {
		s := l.near()
		l.must(s.SetWriteBuffer(100_000))
		l.must(s.SetReadBuffer(200_000))
		if send, receive := s.Buffers(); send != 100_000 || receive != 200_000 {
			l.Errorf("buffers of %d and %d", send, receive)
		}
		for _, n := range []int{0, -1} {
			l.fails("SetReadBuffer", s.SetReadBuffer(n), rds.ErrInvalid, syscall.EINVAL)
			l.fails("SetWriteBuffer", s.SetWriteBuffer(n), rds.ErrInvalid, syscall.EINVAL)
		}
	}},
	{"buffer/full", func(l *lab) {
		s := l.near()
		l.must(s.SetWriteBuffer(64 << 10))
		limit, _ := s.Buffers()
		const size = 9000
		far := l.far()
		l.send(s, far.LocalAddrPort(), "up")
		l.expect(far, "up")
		l.eventually("room", func() bool { return s.Poll()&rds.PollOut != 0 })
		// The last message may pass the limit, which for a host that is down is half.
		part, writable := limit/2, true
		if l.differs() {
			part, writable = limit, false
		}
		if n, want := l.fill(s, size), (part+size-1)/size; n != want {
			l.Errorf("%d messages of %d bytes in %d, want %d", n, size, part, want)
		}
		if ev := s.Poll(); ev&rds.PollOut != 0 != writable {
			l.Errorf("Poll %#x", ev)
		}
		l.fails("TrySend of nothing", s.TrySend(l.nowhere(), nil), rds.ErrWouldBlock, syscall.EAGAIN)
		if err := s.TrySend(far.LocalAddrPort(), nil); writable {
			l.must(err)
		} else {
			l.fails("to somewhere else", err, syscall.EAGAIN)
		}
		n, err := s.TrySendBatch([]rds.Outgoing{{To: l.nowhere()}, {To: l.nowhere()}})
		l.fails("TrySendBatch", err, syscall.EAGAIN)
		if n != 0 {
			l.Error(n)
		}
		l.fails("Send", s.Send(l.brief(), l.nowhere(), nil), context.DeadlineExceeded)
		// And there is room again as soon as the cancel returns.
		l.must(s.CancelSentTo(l.nowhere()))
		if ev := s.Poll(); ev&rds.PollOut == 0 {
			l.Errorf("Poll %#x after the cancel", ev)
		}
		if n, want := l.fill(s, size), (part+size-1)/size; n != want {
			l.Errorf("%d messages after the cancel, want %d", n, want)
		}
	}},
	{"buffer/batch stops where it is full", func(l *lab) {
		s := l.near()
		l.must(s.SetWriteBuffer(16 << 10))
		limit, _ := s.Buffers()
		out := make([]rds.Outgoing, 100)
		for i := range out {
			out[i] = rds.Outgoing{To: l.nowhere(), Data: make([]byte, 1000)}
		}
		if !l.differs() {
			limit /= 2 // half of the limit is for hosts that are down
		}
		want := (limit + 999) / 1000
		n, err := s.TrySendBatch(out)
		l.fails("TrySendBatch", err, syscall.EAGAIN)
		if n != want {
			l.Errorf("%d of them, want %d", n, want)
		}
		l.must(s.CancelSentTo(l.nowhere()))
		n, err = s.SendBatch(l.brief(), out)
		l.fails("SendBatch", err, context.DeadlineExceeded)
		if n != want {
			l.Errorf("%d of them blocking, want %d", n, want)
		}
	}},
	{"buffer/room wakes a blocked send", func(l *lab) {
		s := l.near()
		l.must(s.SetWriteBuffer(16 << 10))
		l.fill(s, 4000)
		blocked := start(func() error { return s.Send(l.patient(), l.nowhere(), []byte("waits")) })
		l.fails("Send", s.Send(l.brief(), l.nowhere(), nil), context.DeadlineExceeded)
		l.must(s.CancelSentTo(l.nowhere()))
		l.must(l.end("Send", blocked))
	}},
	{"buffer/acknowledgement wakes a blocked send", func(l *lab) {
		a, b := l.pair()
		l.must(a.SetWriteBuffer(8 << 10))
		l.must(b.SetReadBuffer(bigBuffer))
		done := start(func() error { return stream(l.patient(), a, b, 500) })
		for range 500 {
			m := l.recv(b)
			m.Release()
		}
		l.must(l.end("stream", done))
	}},
	{"buffer/a larger one wakes a blocked send", func(l *lab) {
		s := l.near()
		l.must(s.SetWriteBuffer(16 << 10))
		l.fill(s, 4000)
		blocked := start(func() error { return s.Send(l.patient(), l.nowhere(), []byte("waits")) })
		l.fails("Send", s.Send(l.brief(), l.nowhere(), nil), context.DeadlineExceeded)
		l.must(s.SetWriteBuffer(64 << 10))
		l.must(l.end("Send", blocked))
	}},
	{"cancel/exactly there", func(l *lab) {
		s := l.near()
		l.must(s.SetWriteBuffer(16 << 10))
		l.fill(s, 4000)
		other := l.nowhere()
		for _, to := range []struct{ host, port int }{{0, 1}, {1, 0}} {
			a := other
			if to.port == 1 {
				a = addrPort(a.Addr(), a.Port()+1)
			} else {
				a = addrPort(a.Addr().Next(), a.Port())
			}
			l.must(s.CancelSentTo(a))
			l.fails("other "+a.String(), s.TrySend(l.nowhere(), nil), syscall.EAGAIN)
		}
		l.must(s.CancelSentTo(other))
		l.must(s.TrySend(l.nowhere(), nil))
	}},
	{"cancel/multicast", func(l *lab) {
		err := l.near().CancelSentTo(addrPort(multicastAddr, 1))
		if l.differs() {
			l.must(err)
			return
		}
		l.fails("multicast", err, rds.ErrInvalid, syscall.EINVAL)
	}},
	{"cancel/everywhere", func(l *lab) {
		s := l.near()
		l.must(s.SetWriteBuffer(16 << 10))
		l.fill(s, 4000)
		err := s.CancelSentTo(addrPort(noAddr, 0))
		if l.differs() {
			l.fails("all", err, syscall.EINVAL)
			return
		}
		l.must(err)
		l.must(s.TrySend(l.nowhere(), nil))
	}},
	{"cancel/is not delivered", func(l *lab) {
		// What was never sent is never delivered, even once the host is there:
		// the far address is bound only now. Hosts that are there already would
		// have taken it before the cancel.
		s := l.near()
		l.send(s, l.nowhere(), "canceled")
		l.must(s.CancelSentTo(l.nowhere()))
		l.send(s, s.LocalAddrPort(), "kept")
		l.expect(s, "kept")
	}},
}

// Deadlines and contexts.
var waitCases = []test{
	{"wait/read deadline", func(l *lab) {
		s := l.near()
		for _, d := range []time.Duration{-time.Hour, -1, 20 * time.Millisecond} {
			l.must(s.SetReadDeadline(time.Now().Add(d)))
			_, err := s.Recv(l.patient())
			l.fails("Recv", err, os.ErrDeadlineExceeded)
			ne, ok := err.(net.Error)
			if !ok || !ne.Timeout() {
				l.Errorf("%v is no timeout", err)
			}
			n, err := s.RecvBatch(l.patient(), make([]rds.Message, 2))
			l.fails("RecvBatch", err, os.ErrDeadlineExceeded)
			if n != 0 {
				l.Errorf("RecvBatch has %d messages", n)
			}
			_, _, err = s.ReadFrom(make([]byte, 1))
			l.fails("ReadFrom", err, os.ErrDeadlineExceeded)
		}
		l.must(s.SetReadDeadline(time.Time{}))
		_, err := s.Recv(l.brief())
		l.fails("after it is cleared", err, context.DeadlineExceeded)
		l.send(s, s.LocalAddrPort(), "x")
		l.expect(s, "x")
	}},
	{"wait/read deadline moved", func(l *lab) {
		s := l.near()
		l.must(s.SetReadDeadline(time.Now().Add(time.Hour)))
		blocked := start(func() error { _, err := s.Recv(context.Background()); return err })
		l.must(s.SetReadDeadline(time.Unix(1, 0)))
		l.fails("Recv", l.end("Recv", blocked), os.ErrDeadlineExceeded)
	}},
	{"wait/write deadline", func(l *lab) {
		s := l.near()
		l.must(s.SetWriteBuffer(16 << 10))
		l.fill(s, 4000)
		for _, d := range []time.Duration{-time.Hour, 20 * time.Millisecond} {
			l.must(s.SetWriteDeadline(time.Now().Add(d)))
			l.fails("Send", s.Send(l.patient(), l.nowhere(), nil), os.ErrDeadlineExceeded)
			_, err := s.SendBatch(l.patient(), []rds.Outgoing{{To: l.nowhere()}})
			l.fails("SendBatch", err, os.ErrDeadlineExceeded)
			_, err = s.WriteToAddrPort(nil, l.nowhere())
			l.fails("WriteToAddrPort", err, os.ErrDeadlineExceeded)
		}
		l.must(s.SetWriteDeadline(time.Time{}))
		l.fails("after it is cleared", s.Send(l.brief(), l.nowhere(), nil), context.DeadlineExceeded)
		_ = s.SetDeadline(time.Unix(1, 0))
		l.fails("SetDeadline, Send", s.Send(l.patient(), l.nowhere(), nil), os.ErrDeadlineExceeded)
		_, err := s.Recv(l.patient())
		l.fails("SetDeadline, Recv", err, os.ErrDeadlineExceeded)
	}},
	{"wait/past deadlines do not matter to what need not wait", func(l *lab) {
		s := l.near()
		l.send(s, s.LocalAddrPort(), "there")
		l.arrived(s)
		l.must(s.SetDeadline(time.Unix(1, 0)))
		m, err := s.Recv(l.patient())
		l.must(err)
		m.Release()
		l.must(s.Send(l.patient(), l.nowhere(), nil))
	}},
	{"wait/ended contexts do not matter to what need not wait", func(l *lab) {
		s := l.near()
		l.send(s, s.LocalAddrPort(), "there")
		l.arrived(s)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		m, err := s.Recv(ctx)
		l.must(err)
		m.Release()
		l.must(s.Send(ctx, l.nowhere(), nil))
		_, err = s.Recv(ctx)
		l.fails("Recv of nothing", err, context.Canceled)
	}},
	{"wait/context canceled", func(l *lab) {
		s := l.near()
		l.must(s.SetWriteBuffer(16 << 10))
		l.fill(s, 4000)
		ctx, cancel := context.WithCancel(context.Background())
		all := map[string]running{
			"Recv":      start(func() error { _, err := s.Recv(ctx); return err }),
			"RecvBatch": start(func() error { _, err := s.RecvBatch(ctx, make([]rds.Message, 1)); return err }),
			"Send":      start(func() error { return s.Send(ctx, l.nowhere(), nil) }),
			"SendBatch": start(func() error { _, err := s.SendBatch(ctx, []rds.Outgoing{{To: l.nowhere()}}); return err }),
		}
		for range 3 { // some calls that wait beside the others and end first
			_, err := s.Recv(l.brief())
			l.fails("brief Recv", err, context.DeadlineExceeded)
			l.fails("brief Send", s.Send(l.brief(), l.nowhere(), nil), context.DeadlineExceeded)
		}
		cancel()
		for name, r := range all {
			l.fails(name, l.end(name, r), context.Canceled)
		}
		l.send(l.near(), s.LocalAddrPort(), "still works")
		l.expect(s, "still works")
	}},
}
