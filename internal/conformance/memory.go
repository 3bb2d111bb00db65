package conformance

import (
	"bytes"
	"context"
	"syscall"

	"github.com/rds-go/rds/rds"
)

// Sending without a copy.
var memoryCases = []test{
	{"memory/buffers of all sizes", func(l *lab) {
		a, b := l.pair()
		l.must(a.SetWriteBuffer(bigBuffer))
		l.must(b.SetReadBuffer(bigBuffer))
		for i, n := range []int{0, 1, 100, 16 << 10, 16<<10 + 1, 64 << 10, 1 << 20} {
			m := a.AllocMessage(n)
			if len(m.Data) != n {
				l.Fatalf("%d bytes instead of %d", len(m.Data), n)
			}
			copy(m.Data, payload(i, n))
			l.must(a.SendMessage(l.patient(), &rds.Outgoing{To: b.LocalAddrPort(), Buffer: &m}))
			if m.Data != nil {
				l.Error("the message is still the caller's")
			}
			m.Release() // does nothing
			got := l.recv(b)
			if !bytes.Equal(got.Data, payload(i, n)) {
				l.Errorf("%v, want %d bytes", &got, n)
			}
			got.Release()
		}
		m := a.AllocMessage(1000) // not sent
		m.Release()
		m.Release() // does nothing
		second, third := a.AllocMessage(1000), a.AllocMessage(1000)
		second.Data[0], third.Data[0] = 2, 3
		if second.Data[0] != 2 {
			l.Error("a message that was released twice is given out twice")
		}
		second.Release()
		third.Release()
	}},
	{"memory/part of a buffer", func(l *lab) {
		a, b := l.pair()
		l.must(a.SetWriteBuffer(bigBuffer))
		for _, n := range []int{1000, 100_000} {
			for _, cut := range [][2]int{{0, n / 2}, {100, n}, {n / 2, n / 2}, {0, 0}} {
				m := a.AllocMessage(n)
				copy(m.Data, payload(1, n))
				m.Data = m.Data[cut[0]:cut[1]]
				l.must(a.SendMessage(l.patient(), &rds.Outgoing{To: b.LocalAddrPort(), Buffer: &m}))
				got := l.recv(b)
				if !bytes.Equal(got.Data, payload(1, n)[cut[0]:cut[1]]) {
					l.Errorf("%d bytes, %v: %v", n, cut, &got)
				}
				got.Release()
			}
		}
	}},
	{"memory/refused buffers remain", func(l *lab) {
		s := l.near()
		l.must(s.SetWriteBuffer(64 << 10))
		l.fill(s, 30_000)
		for _, n := range []int{100, 40_000} {
			m := s.AllocMessage(n)
			copy(m.Data, payload(3, n))
			o := rds.Outgoing{To: l.nowhere(), Buffer: &m}
			l.fails("TrySendMessage", s.TrySendMessage(&o), syscall.EAGAIN)
			l.fails("SendMessage", s.SendMessage(l.brief(), &o), context.DeadlineExceeded)
			k, err := s.TrySendBatch([]rds.Outgoing{o})
			l.fails("TrySendBatch", err, syscall.EAGAIN)
			if k != 0 || !bytes.Equal(m.Data, payload(3, n)) {
				l.Errorf("%d sent, %v", k, &m)
			}
			l.must(s.CancelSentTo(l.nowhere()))
			b := l.far()
			o.To = b.LocalAddrPort()
			l.must(s.SendMessage(l.patient(), &o))
			got := l.recv(b)
			if !bytes.Equal(got.Data, payload(3, n)) {
				l.Errorf("%v", &got)
			}
			got.Release()
			l.fill(s, 30_000)
		}
	}},
	{"memory/forwarding", func(l *lab) {
		a, b := l.pair()
		c := l.far()
		for _, s := range []*rds.Socket{a, b, c} {
			l.must(s.SetWriteBuffer(bigBuffer))
			l.must(s.SetReadBuffer(bigBuffer))
		}
		for i, n := range []int{0, 10, 8 << 10, 8<<10 + 1, 16<<10 + 1, 300_000, 1 << 20} {
			l.must(a.Send(l.patient(), b.LocalAddrPort(), payload(i, n)))
			m := l.recv(b)
			l.must(b.SendMessage(l.patient(), &rds.Outgoing{To: c.LocalAddrPort(), Buffer: &m}))
			if m.Data != nil {
				l.Error("the message is still the caller's")
			}
			got := l.recv(c)
			if !bytes.Equal(got.Data, payload(i, n)) || got.From != b.LocalAddrPort() {
				l.Errorf("%v, want %d bytes", &got, n)
			}
			got.Data = got.Data[:n/2]
			l.must(c.SendMessage(l.patient(), &rds.Outgoing{To: a.LocalAddrPort(), Buffer: &got}))
			back := l.recv(a)
			if !bytes.Equal(back.Data, payload(i, n)[:n/2]) {
				l.Errorf("%v, want %d bytes", &back, n/2)
			}
			back.Release()
		}
	}},
	{"memory/batches of buffers", func(l *lab) {
		a, b := l.pair()
		l.must(a.SetWriteBuffer(bigBuffer))
		l.must(b.SetReadBuffer(bigBuffer))
		const each = 50
		for round := range 4 {
			bufs := make([]rds.Message, each)
			out := make([]rds.Outgoing, each)
			for i := range out {
				n := []int{50, 20_000, 9000}[i%3]
				bufs[i] = a.AllocMessage(n)
				copy(bufs[i].Data, payload(i+round, n))
				out[i] = rds.Outgoing{To: b.LocalAddrPort(), Buffer: &bufs[i]}
			}
			done := start(func() error { _, err := a.SendBatch(l.patient(), out); return err })
			for i := range out {
				m := l.recv(b)
				if !bytes.Equal(m.Data, payload(i+round, []int{50, 20_000, 9000}[i%3])) {
					l.Fatalf("message %d: %v", i, &m)
				}
				m.Release()
			}
			l.must(l.end("SendBatch", done))
			for i := range bufs {
				if bufs[i].Data != nil {
					l.Errorf("message %d is still the caller's", i)
				}
			}
		}
	}},
	{"memory/sent data may change at once", func(l *lab) {
		a, b := l.pair()
		l.must(a.SetWriteBuffer(bigBuffer))
		l.must(b.SetReadBuffer(bigBuffer))
		const count = 50
		for _, n := range []int{500, 30_000} {
			data := make([]byte, n)
			for i := range count {
				copy(data, payload(i, n))
				l.must(a.Send(l.patient(), b.LocalAddrPort(), data))
			}
			for i := range count {
				m := l.recv(b)
				if !bytes.Equal(m.Data, payload(i, n)) {
					l.Fatalf("message %d of %d bytes has changed", i, n)
				}
				m.Release()
			}
		}
	}},
}
