package conformance

import (
	"net/netip"
	"syscall"

	"github.com/rds-go/rds/rds"
)

var (
	noAddr        netip.Addr
	multicastAddr = netip.MustParseAddr("224.0.0.1")
)

func addrPort(a netip.Addr, port uint16) netip.AddrPort { return netip.AddrPortFrom(a, port) }

var receiveCases = []test{
	{"receive/nothing there", func(l *lab) {
		s := l.near()
		_, err := s.TryRecv()
		l.fails("TryRecv", err, rds.ErrWouldBlock, syscall.EAGAIN)
		_, err = s.TryRecvBatch(make([]rds.Message, 3))
		l.fails("TryRecvBatch", err, rds.ErrWouldBlock, syscall.EAGAIN)
		_, _, err = s.ReadMessage(nil, rds.DontWait)
		l.fails("ReadMessage", err, rds.ErrWouldBlock, syscall.EAGAIN)
		_, _, err = s.ReadMessage(nil, rds.DontWait|rds.Peek)
		l.fails("Peek", err, rds.ErrWouldBlock, syscall.EAGAIN)
		if n, err := s.RecvBatch(l.patient(), nil); n != 0 || err != nil {
			l.Error(n, err)
		}
	}},
	{"receive/truncation", func(l *lab) {
		a, b := l.pair()
		for range 3 {
			l.send(a, b.LocalAddrPort(), "0123456789")
		}
		room := make([]byte, 4)
		n, m, err := b.ReadMessage(room, 0)
		if n != 4 || err != nil || !m.Truncated || string(room) != "0123" || m.From != a.LocalAddrPort() || m.Data != nil {
			l.Error(n, err, m)
		}
		n, m, err = b.ReadMessage(room[:0], rds.Trunc)
		if n != 10 || err != nil || !m.Truncated {
			l.Error(n, err, m)
		}
		room = make([]byte, 20)
		n, m, err = b.ReadMessage(room, 0) // the cut part of the last message is lost
		if n != 10 || err != nil || m.Truncated || string(room[:n]) != "0123456789" {
			l.Error(n, err, m)
		}
		l.empty(b)
	}},
	{"receive/peek", func(l *lab) {
		a, b := l.pair()
		l.send(a, b.LocalAddrPort(), "first")
		l.send(a, b.LocalAddrPort(), "second")
		room := make([]byte, 3)
		for range 3 {
			n, m, err := b.ReadMessage(room, rds.Peek)
			if n != 3 || err != nil || !m.Truncated || string(room) != "fir" || m.From != a.LocalAddrPort() {
				l.Fatal(n, err, m)
			}
		}
		n, _, err := b.ReadMessage(room, rds.Peek|rds.Trunc|rds.DontWait)
		if n != 5 || err != nil {
			l.Fatal(n, err)
		}
		l.expect(b, "first")
		l.expect(b, "second")
		l.empty(b)
	}},
	{"receive/batch", func(l *lab) {
		a, b := l.pair()
		for _, s := range []string{"1", "2", "3", "4", "5"} {
			l.send(a, b.LocalAddrPort(), s)
		}
		var got string
		ms := make([]rds.Message, 3)
		for len(got) < 5 {
			ms[0].Token = 77 // leftovers must not show
			n, err := b.RecvBatch(l.patient(), ms)
			if n < 1 || err != nil || ms[0].Token != 0 {
				l.Fatal(n, err, ms)
			}
			for i := range ms[:n] {
				if ms[i].From != a.LocalAddrPort() || ms[i].Kind != rds.KindData {
					l.Error(&ms[i])
				}
				got += string(ms[i].Data)
				ms[i].Release()
			}
		}
		if got != "12345" {
			l.Errorf("received %q", got)
		}
	}},
	{"receive/empty message", func(l *lab) {
		a, b := l.pair()
		for range 3 {
			l.send(a, b.LocalAddrPort(), "")
			n, m, err := b.ReadMessage(make([]byte, 1), rds.Trunc)
			if n != 0 || err != nil || m.From != a.LocalAddrPort() || m.Truncated {
				l.Error(n, err, m)
			}
		}
		l.empty(b)
	}},
	{"receive/release twice", func(l *lab) {
		a, b := l.pair()
		for _, n := range []int{100, 100, 50_000} {
			l.must(a.Send(l.patient(), b.LocalAddrPort(), payload(1, n)))
		}
		for range 3 {
			m := l.recv(b)
			m.Release()
			m.Release()
			if m.Data != nil {
				l.Error("the data is still there")
			}
		}
		var m rds.Message
		m.Release()
	}},
	{"receive/kept messages do not change", func(l *lab) {
		a, b := l.pair()
		l.must(b.SetReadBuffer(bigBuffer))
		var kept []rds.Message
		for i := range 200 {
			l.must(a.Send(l.patient(), b.LocalAddrPort(), payload(i, 10+i*50)))
			kept = append(kept, l.recv(b))
		}
		for i := range kept {
			if string(kept[i].Data) != string(payload(i, 10+i*50)) {
				l.Fatalf("message %d has changed: %v", i, &kept[i])
			}
			kept[i].Release()
		}
	}},
	{"poll/bits", func(l *lab) {
		a, b := l.pair()
		if ev := b.Poll(); ev != rds.PollOut {
			l.Errorf("a new socket: %#x", ev)
		}
		l.send(a, b.LocalAddrPort(), "x")
		l.arrived(b)
		if ev := b.Poll(); ev != rds.PollIn|rds.PollOut {
			l.Errorf("with a message: %#x", ev)
		}
		l.expect(b, "x")
		if ev := b.Poll(); ev&^rds.PollWrBand&^rds.PollIn != rds.PollOut || ev&(rds.PollWrBand|rds.PollIn) == rds.PollIn {
			l.Errorf("after it was taken: %#x", ev)
		}
		l.must(b.Close())
		if ev := b.Poll(); ev != rds.PollHup {
			l.Errorf("closed: %#x", ev)
		}
	}},
}
