package conformance

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/rds-go/rds/rds"
)

// bigBuffer has room for messages of all sizes.
const bigBuffer = 4 << 20

// Errors are ours, and Linux's numbers.
var (
	invalid      = []error{rds.ErrInvalid, syscall.EINVAL}
	notConnected = []error{rds.ErrNotConnected, syscall.ENOTCONN}
	notSupported = []error{rds.ErrNotSupported, syscall.EOPNOTSUPP}
	tooLong      = []error{rds.ErrMessageTooLong, syscall.EMSGSIZE}
)

var sendCases = []test{
	{"send/refusals", func(l *lab) {
		s, small := l.near(), l.near()
		l.must(s.SetWriteBuffer(bigBuffer))
		l.must(small.SetWriteBuffer(16 << 10))
		limit, _ := small.Buffers()
		other := l.far().LocalAddrPort()
		big := make([]byte, rds.MaxMessage+1)
		for _, c := range []struct {
			name string
			s    *rds.Socket
			to   netip.AddrPort
			data []byte
			want []error
		}{
			{"no destination", s, netip.AddrPort{}, nil, notConnected},
			{"wildcard", s, netip.MustParseAddrPort("0.0.0.0:4000"), nil, invalid},
			{"multicast", s, netip.MustParseAddrPort("239.1.1.1:4000"), nil, invalid},
			{"broadcast", s, netip.MustParseAddrPort("255.255.255.255:4000"), nil, invalid},
			{"IPv6 from IPv4", s, netip.MustParseAddrPort("[fd00::2]:4000"), nil, notSupported},
			{"longer than 1 MiB", s, other, big, tooLong},
			{"longer than the send buffer", small, other, big[:limit+1], tooLong},
			{"wrong address and length", s, netip.MustParseAddrPort("239.1.1.1:4000"), big, invalid},
		} {
			l.fails(c.name+", Send", c.s.Send(l.patient(), c.to, c.data), c.want...)
			l.fails(c.name+", TrySend", c.s.TrySend(c.to, c.data), c.want...)
			_, err := c.s.WriteToAddrPort(c.data, c.to)
			l.fails(c.name+", WriteToAddrPort", err, c.want...)
			l.fails(c.name+", SendMessage", c.s.SendMessage(l.patient(), &rds.Outgoing{To: c.to, Data: c.data}), c.want...)
			n, err := c.s.SendBatch(l.patient(), []rds.Outgoing{{To: c.to, Data: c.data}})
			l.fails(c.name+", SendBatch", err, c.want...)
			if n != 0 {
				l.Errorf("%s: SendBatch accepted %d", c.name, n)
			}
		}
		l.must(small.TrySend(l.nowhere(), big[:limit])) // a refusal has cost no room
	}},
	{"send/sizes", func(l *lab) {
		a, b := l.pair()
		sizes := []int{0, 1, 63, 64, 1000, 4096, 8 << 10, 8<<10 + 1, 16 << 10, 16<<10 + 1, 64 << 10, 300_000, 1<<20 - 1, 1 << 20}
		for _, way := range [][2]*rds.Socket{{a, b}, {b, a}, {a, a}} {
			l.must(way[0].SetWriteBuffer(bigBuffer))
			l.must(way[1].SetReadBuffer(bigBuffer))
			done := start(func() error {
				for i, n := range sizes {
					if err := way[0].Send(l.patient(), way[1].LocalAddrPort(), payload(i, n)); err != nil {
						return err
					}
				}
				return nil
			})
			for i, n := range sizes {
				m := l.recv(way[1])
				if m.From != way[0].LocalAddrPort() || m.Kind != rds.KindData || m.Truncated || !bytes.Equal(m.Data, payload(i, n)) {
					l.Errorf("%v: %v, want %d bytes", way[1].LocalAddrPort(), &m, n)
				}
				m.Release()
			}
			l.must(l.end("sender", done))
		}
	}},
	{"send/order of many sockets", func(l *lab) {
		const pairs, count = 16, 150
		ctx := l.patient()
		var all []running
		for i := range pairs {
			a, b := l.pair()
			if i%2 == 1 {
				a, b = b, a
			}
			l.must(a.SetWriteBuffer(256 << 10))
			all = append(all, start(func() error { return stream(ctx, a, b, count) }))
			all = append(all, start(func() error {
				for i := range count {
					m, err := b.Recv(ctx)
					if err == nil && !bytes.Equal(m.Data, payload(i, i*37%3000)) {
						err = fmt.Errorf("message %d: %v", i, &m)
					}
					if err != nil {
						return err
					}
					m.Release()
				}
				return nil
			}))
		}
		for _, r := range all {
			l.must(l.end("stream", r))
		}
	}},
	{"send/nobody is bound there", func(l *lab) {
		a, b := l.pair()
		port := l.far()
		l.must(port.Close())
		l.send(a, port.LocalAddrPort(), "lost")
		l.send(a, b.LocalAddrPort(), "after it")
		l.expect(b, "after it")
	}},
	{"send/to itself", func(l *lab) {
		a := l.near()
		b := l.near() // another socket of the same address
		for range 20 {
			l.send(a, a.LocalAddrPort(), "self")
			l.expect(a, "self")
			l.send(a, b.LocalAddrPort(), "other")
			l.expect(b, "other")
		}
	}},
	{"send/ping", func(l *lab) {
		a := l.near()
		l.far() // makes the far address reachable
		for _, host := range []netip.Addr{l.FarAddr, l.NearAddr} {
			for range 3 {
				l.send(a, netip.AddrPortFrom(host, 0), "not echoed")
				m := l.recv(a)
				if m.Kind != rds.KindData || m.From != netip.AddrPortFrom(host, 0) || len(m.Data) != 0 {
					l.Errorf("%v", &m)
				}
				m.Release()
			}
		}
	}},
	{"send/batch", func(l *lab) {
		a, b := l.pair()
		l.must(a.SetWriteBuffer(bigBuffer))
		to := b.LocalAddrPort()
		good := func(s string) rds.Outgoing { return rds.Outgoing{To: to, Data: []byte(s)} }
		multicast := rds.Outgoing{To: netip.MustParseAddrPort("224.0.0.1:1")}
		for _, c := range []struct {
			name string
			out  []rds.Outgoing
			n    int
			want []error
		}{
			{"nothing", nil, 0, nil},
			{"all", []rds.Outgoing{good("a"), good("b")}, 2, nil},
			{"the second is bad", []rds.Outgoing{good("a"), multicast, good("b")}, 1, invalid},
			{"the first is bad", []rds.Outgoing{multicast, good("a")}, 0, invalid},
			{"the last is too long", []rds.Outgoing{good("a"), good("b"), {To: to, Data: make([]byte, rds.MaxMessage+1)}}, 2, tooLong},
			{"the second has no destination", []rds.Outgoing{good("a"), {}}, 1, notConnected},
		} {
			for _, send := range []func([]rds.Outgoing) (int, error){
				a.TrySendBatch, func(out []rds.Outgoing) (int, error) { return a.SendBatch(l.patient(), out) },
			} {
				n, err := send(c.out)
				if n != c.n {
					l.Errorf("%s: %d, %v", c.name, n, err)
				}
				if c.want == nil {
					l.must(err)
				} else {
					l.fails(c.name, err, c.want...)
				}
				var oe *rds.OpError
				if errors.As(err, &oe) && oe.Peer != c.out[n].To {
					l.Errorf("%s: the error is about %v", c.name, oe.Peer)
				}
				for i := range n {
					l.expect(b, string(c.out[i].Data))
				}
			}
		}
		l.empty(b)
	}},
	{"send/batch to several hosts", func(l *lab) {
		src := l.near()
		l.must(src.SetWriteBuffer(bigBuffer))
		dst := []*rds.Socket{l.far(), l.near(), l.far(), src}
		const each = 40
		var out []rds.Outgoing
		for i := range each * len(dst) {
			size := []int{8, 100, 20_000, 3000, 9}[i%5]
			out = append(out, rds.Outgoing{To: dst[i%len(dst)].LocalAddrPort(), Data: payload(i, size)})
		}
		for _, d := range dst {
			l.must(d.SetReadBuffer(bigBuffer))
		}
		if n, err := src.SendBatch(l.patient(), out); n != len(out) || err != nil {
			l.Fatal(n, err)
		}
		for i := range out {
			m := l.recv(dst[i%len(dst)])
			if !bytes.Equal(m.Data, out[i].Data) {
				l.Fatalf("message %d: %v", i, &m)
			}
			m.Release()
		}
	}},
	{"send/as net.PacketConn", func(l *lab) {
		a, b := l.pair()
		var c net.PacketConn = a
		_, err := c.WriteTo(nil, nil)
		l.fails("WriteTo nil", err, syscall.ENOTCONN)
		_, err = c.WriteTo(nil, &net.UnixAddr{Name: "x"})
		l.fails("WriteTo a file", err, syscall.EINVAL)
		for _, to := range []net.Addr{b.LocalAddr(), net.UDPAddrFromAddrPort(b.LocalAddrPort())} {
			if n, err := c.WriteTo([]byte("packet"), to); n != 6 || err != nil {
				l.Fatal(n, err)
			}
			room := make([]byte, 10)
			n, from, err := b.ReadFrom(room)
			if n != 6 || err != nil || from != a.LocalAddr() || string(room[:n]) != "packet" {
				l.Fatal(n, from, err)
			}
		}
		l.send(b, a.LocalAddrPort(), "back")
		room := make([]byte, 10)
		if n, err := a.Read(room); err != nil || string(room[:n]) != "back" {
			l.Fatal(n, err)
		}
	}},
	{"send/from many goroutines", func(l *lab) {
		const senders, each = 8, 100
		a, b := l.pair()
		ctx := l.patient()
		var all []running
		for i := range senders {
			all = append(all, start(func() error {
				for j := range each {
					if err := a.Send(ctx, b.LocalAddrPort(), payload(i<<16|j, 100)); err != nil {
						return err
					}
				}
				return nil
			}))
		}
		got := make(chan uint64, senders*each)
		for range 4 {
			all = append(all, start(func() error {
				for range senders * each / 4 {
					m, err := b.Recv(ctx)
					if err != nil {
						return err
					}
					got <- binary.BigEndian.Uint64(m.Data)
					m.Release()
				}
				return nil
			}))
		}
		for _, r := range all {
			l.must(l.end("goroutine", r))
		}
		seen := make(map[uint64]bool)
		for range senders * each {
			n := <-got
			if seen[n] {
				l.Errorf("message %#x came twice", n)
			}
			seen[n] = true
		}
		l.empty(b)
	}},
	{"send/type of service", func(l *lab) {
		a, b := l.pair()
		l.must(a.SetTOS(3))
		if l.differs() {
			if a.TOS() != 0 {
				l.Error(a.TOS())
			}
			return
		}
		if a.TOS() != 3 || b.TOS() != 0 {
			l.Error(a.TOS(), b.TOS())
		}
		l.fails("second", a.SetTOS(4), rds.ErrInvalid, syscall.EINVAL)
		l.send(a, b.LocalAddrPort(), "x")
		l.expect(b, "x")
		l.send(b, a.LocalAddrPort(), "y")
		l.fails("after a send", b.SetTOS(1), rds.ErrInvalid, syscall.EINVAL)
	}},
}

// payload is a message that names its number and can be verified.
func payload(number, size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(number + i*7)
	}
	if size >= 8 {
		binary.BigEndian.PutUint64(b, uint64(number))
	}
	return b
}

func stream(ctx context.Context, from, to *rds.Socket, count int) error {
	for i := range count {
		if err := from.Send(ctx, to.LocalAddrPort(), payload(i, i*37%3000)); err != nil {
			return err
		}
	}
	return nil
}
