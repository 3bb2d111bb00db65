package conformance

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/rds-go/rds/rds"
)

var closeCases = []test{
	{"close/calls after it", func(l *lab) {
		s := l.near()
		to := s.LocalAddrPort()
		l.must(s.Close())
		ctx := l.patient()
		for _, c := range []struct {
			name string
			call func() error
		}{
			{"Send", func() error { return s.Send(ctx, to, nil) }},
			{"TrySend", func() error { return s.TrySend(to, []byte("x")) }},
			{"SendMessage", func() error { return s.SendMessage(ctx, &rds.Outgoing{To: to}) }},
			{"SendBatch", func() error { _, err := s.SendBatch(ctx, []rds.Outgoing{{To: to}}); return err }},
			{"TrySendBatch", func() error { _, err := s.TrySendBatch([]rds.Outgoing{{To: to}}); return err }},
			{"WriteToAddrPort", func() error { _, err := s.WriteToAddrPort(nil, to); return err }},
			{"Recv", func() error { _, err := s.Recv(ctx); return err }},
			{"TryRecv", func() error { _, err := s.TryRecv(); return err }},
			{"RecvBatch", func() error { _, err := s.RecvBatch(ctx, make([]rds.Message, 1)); return err }},
			{"TryRecvBatch", func() error { _, err := s.TryRecvBatch(make([]rds.Message, 1)); return err }},
			{"ReadMessage", func() error { _, _, err := s.ReadMessage(nil, rds.Peek); return err }},
			{"Connect", func() error { return s.Connect(to) }},
			{"CancelSentTo", func() error { return s.CancelSentTo(to) }},
			{"SetReadBuffer", func() error { return s.SetReadBuffer(100_000) }},
			{"SetWriteBuffer", func() error { return s.SetWriteBuffer(100_000) }},
			{"SetCongestionMonitor", func() error { return s.SetCongestionMonitor(true) }},
			{"SetRecvErr", func() error { return s.SetRecvErr(true) }},
			{"SetTOS", func() error { return s.SetTOS(1) }},
			{"Close", s.Close},
		} {
			l.fails(c.name, c.call(), net.ErrClosed)
		}
		if ev := s.Poll(); ev != rds.PollHup {
			l.Errorf("Poll %#x", ev)
		}
		if got := s.LocalAddrPort(); got != to {
			l.Errorf("LocalAddrPort %v", got)
		}
	}},
	{"close/wakes who is blocked", func(l *lab) {
		full, receiver := l.near(), l.near()
		l.must(full.SetWriteBuffer(16 << 10))
		l.fill(full, 4000)
		a, b := l.pair()
		l.congest(a, b)
		ctx := context.Background()
		all := map[string]running{
			"Recv":           start(func() error { _, err := receiver.Recv(ctx); return err }),
			"RecvBatch":      start(func() error { _, err := receiver.RecvBatch(ctx, make([]rds.Message, 1)); return err }),
			"ReadFrom":       start(func() error { _, _, err := receiver.ReadFrom(nil); return err }),
			"Send":           start(func() error { return full.Send(ctx, l.nowhere(), nil) }),
			"SendBatch":      start(func() error { _, err := full.SendBatch(ctx, []rds.Outgoing{{To: l.nowhere()}}); return err }),
			"congested Send": start(func() error { return a.Send(ctx, b.LocalAddrPort(), nil) }),
		}
		l.fails("brief Send", full.Send(l.brief(), l.nowhere(), nil), context.DeadlineExceeded)
		for _, s := range []*rds.Socket{full, receiver, a} {
			s.SetLinger(0)
			var d *rds.DroppedError
			if err := s.Close(); err != nil && !errors.As(err, &d) {
				l.Error(err)
			}
		}
		for name, r := range all {
			l.fails(name, l.end(name, r), net.ErrClosed)
		}
	}},
	{"close/waits for acknowledgements", func(l *lab) {
		a, b := l.pair()
		l.must(a.SetWriteBuffer(bigBuffer))
		l.must(b.SetReadBuffer(bigBuffer))
		a.SetLinger(patience)
		const count = 200
		for i := range count {
			l.must(a.Send(l.patient(), b.LocalAddrPort(), payload(i, 5000)))
		}
		l.must(a.Close())
		for range count {
			m := l.recv(b)
			m.Release()
		}
	}},
	{"close/reports what it dropped", func(l *lab) {
		for _, linger := range []time.Duration{-1, 0, 20 * time.Millisecond} {
			s := l.near()
			for range 3 {
				l.send(s, l.nowhere(), "1234567")
			}
			l.must(s.Send(l.patient(), addrPort(l.Nowhere.Next(), 5), payload(0, 30_000)))
			s.SetLinger(linger)
			err := s.Close()
			var d *rds.DroppedError
			if l.differs() && linger <= 0 {
				l.must(err)
				continue
			}
			if !errors.As(err, &d) || d.Messages != 4 || d.Bytes != 30_021 {
				l.Errorf("linger %v: %v", linger, err)
			}
			var oe *rds.OpError
			if !errors.As(err, &oe) || oe.Local != s.LocalAddrPort() {
				l.Errorf("%v", err)
			}
		}
	}},
	{"close/frees the port while it lingers", func(l *lab) {
		s := l.near()
		l.send(s, l.nowhere(), "waits")
		s.SetLinger(patience)
		done := start(s.Close)
		var next *rds.Socket
		l.eventually("the port is free", func() bool {
			var err error
			next, err = l.Near.Bind(s.LocalAddrPort())
			return err == nil
		})
		// What the old socket has sent is not the new one's.
		l.must(next.SetWriteBuffer(16 << 10))
		limit, _ := next.Buffers()
		n := l.fill(next, 1000)
		if want := (limit/2 + 999) / 1000; n != want { // half: the host is down
			l.Errorf("%d messages, want %d", n, want)
		}
		next.SetLinger(0)
		_ = next.Close()
		l.must(l.Near.Close())
		_ = l.end("Close", done)
	}},
	{"close/while it is used", func(l *lab) {
		for range 20 {
			a, b := l.pair()
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() {
					for {
						if err := a.Send(context.Background(), b.LocalAddrPort(), payload(0, 3000)); err != nil {
							l.fails("Send", err, net.ErrClosed)
							return
						}
					}
				})
				wg.Go(func() {
					for {
						m, err := b.Recv(context.Background())
						if err != nil {
							l.fails("Recv", err, net.ErrClosed)
							return
						}
						m.Release()
					}
				})
			}
			m := l.recv(b)
			m.Release()
			for _, s := range []*rds.Socket{a, b} {
				s.SetLinger(0)
				var d *rds.DroppedError
				if err := s.Close(); err != nil && !errors.As(err, &d) {
					l.Error(err)
				}
			}
			wg.Wait()
		}
	}},
	{"info/names what is there", func(l *lab) {
		s := l.near()
		l.send(s, l.nowhere(), "queued")
		info, err := l.Near.Info()
		l.must(err)
		found := false
		for _, x := range info.Sockets {
			found = found || x.Bound == s.LocalAddrPort()
		}
		if !found || len(info.Counters) == 0 {
			l.Errorf("socket %v of %v, %d counters", s.LocalAddrPort(), info.Sockets, len(info.Counters))
		}
		found = false
		for _, x := range info.Connections {
			found = found || x.Remote == l.Nowhere
		}
		if !found {
			l.Errorf("connections %v", info.Connections)
		}
	}},
}
