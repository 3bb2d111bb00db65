//go:build live

package node

import (
	"bytes"
	"net/netip"
	"runtime"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/rds/config"
)

// Memory under peers that ignore every rule. These tests measure the heap and
// so do not run beside others.

// A sender that ignores the congestion map, as a Linux peer does with what it has queued,
// costs the receive buffer and the overrun, and what was read with the first message
// too many; its connection is not read until there is room, and nothing is dropped. Other
// peers are not touched.
func TestOverrunPausesTheConnection(t *testing.T) {
	const buffer, overrun = 256 << 10, 2 << 20
	for _, c := range []struct {
		name  string
		size  int
		total int // bytes sent, headers not counted unless there is nothing else
		slack int64
	}{
		{"large", 100_000, 16 << 20, 5 << 20},
		{"64 KiB and a byte", 64<<10 + 1, 16 << 20, 5 << 20},
		{"medium", 9000, 16 << 20, 5 << 20},
		{"small", 60, 8 << 20, 6 << 20},
		{"a byte", 1, 200_000, 6 << 20},
		{"empty", 0, 200_000, 6 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t)
			peer, another := l.Raw(), l.Raw()
			n := l.node(config.Node{ReceiveBuffer: buffer, ReceiveOverrun: overrun})
			s := l.bind(n)
			other := l.bind(n, rdstest.AddrOf(s.LocalAddrPort().Addr(), 5000))
			r, o := peer.Dial(s.LocalAddrPort().Addr()), another.Dial(s.LocalAddrPort().Addr())
			go func() { _ = r.Discard() }()
			go func() { _ = o.Discard() }()
			count := uint64(c.total / max(1, c.size))
			var stream []byte // made before the heap is looked at: what the sender allocates is not the node's
			body := make([]byte, c.size)
			for range count {
				stream = append(stream, r.Data(6000, s.LocalAddrPort().Port(), body)...)
			}
			stream = append(stream, r.Data(6000, 5000, []byte("behind"))...)
			before := rdstest.Heap()
			written := make(chan error, 1)
			go func() {
				_, err := r.Conn.Write(stream)
				written <- err
			}()
			rdstest.Eventually(t, "the pause", func() bool { return rdstest.Counter(t, n, "recv_paused") == 1 })
			o.Put(o.Data(6000, 5000, []byte("other")))
			rdstest.Expect(t, other, "other")
			if got := halfOf(s).Queue.Bytes.Load(); got > buffer+overrun {
				t.Errorf("%d bytes queued", got)
			}
			if grown, most := rdstest.Heap()-before, 2*int64(buffer+overrun)+c.slack; grown > most {
				t.Errorf("heap grew by %d KiB, more than %d", grown>>10, most>>10)
			}
			runtime.KeepAlive(stream)
			for range count {
				m := rdstest.MustRecv(t, s)
				if len(m.Data) != c.size {
					t.Fatalf("%d bytes", len(m.Data))
				}
				m.Release()
			}
			rdstest.Expect(t, other, "behind")
			rdstest.NoError(t, <-written)
			rdstest.WantCounter(t, n, "recv_drop_overrun", 0)
		})
	}
}

// Messages to ports nobody has cost a counter.
func TestUnboundPortFlood(t *testing.T) {
	l := newLab(t)
	peer := l.Raw()
	s := l.bindOne(config.Node{})
	r := peer.Dial(s.LocalAddrPort().Addr())
	go func() { _ = r.Discard() }()
	before := rdstest.Heap()
	const bursts, each = 100, 1000
	for i := range bursts {
		var b []byte
		for j := range each {
			b = append(b, r.Data(1, uint16(5000+(i*each+j)%50_000), make([]byte, 100))...)
		}
		r.Put(b)
	}
	r.Put(r.Data(9, s.LocalAddrPort().Port(), []byte("end")))
	rdstest.Expect(t, s, "end")
	rdstest.Eventually(t, "the count", func() bool { return rdstest.Counter(t, nodeOf(s), "recv_drop_no_sock") == bursts*each })
	if grown := rdstest.Heap() - before; grown > 2<<20 {
		t.Errorf("heap grew by %d KiB", grown>>10)
	}
}

// Pings from a peer that reads no answers are answered up to a number.
func TestPingFlood(t *testing.T) {
	l := newLab(t)
	peer := l.Raw()
	s := l.bindOne(config.Node{})
	r := peer.Dial(s.LocalAddrPort().Addr())
	before := rdstest.Heap()
	const bursts, each = 200, 1000
	for range bursts {
		var b []byte
		for range each {
			b = append(b, r.Data(77, wire.PortHost, nil)...)
		}
		r.Put(b)
	}
	r.Put(r.Data(9, s.LocalAddrPort().Port(), []byte("end")))
	rdstest.Expect(t, s, "end")
	rdstest.WantCounter(t, nodeOf(s), "recv_ping", bursts*each)
	if pong, drop := rdstest.Counter(t, nodeOf(s), "send_pong"), rdstest.Counter(t, nodeOf(s), "send_pong_dropped"); pong+drop < bursts*each {
		t.Errorf("%d answered, %d not", pong, drop)
	}
	if grown := rdstest.Heap() - before; grown > 4<<20 {
		t.Errorf("heap grew by %d KiB", grown>>10)
	}
}

// A peer that stalls in the middle of large messages, on as many connections
// as it likes, holds little more than it has sent.
func TestStalledMessagesAreBounded(t *testing.T) {
	l := newLab(t)
	var peers []*rdstest.RawPeer
	for range 100 {
		peers = append(peers, l.Raw())
	}
	s := l.bindOne(config.Node{Paths: 8})
	before := rdstest.Heap()
	head := rdstest.Message(wire.Header{Sequence: 1, Sport: 1000, Dport: 4000, Length: config.MaxMessage}, []byte("the start"))
	var conns []*rdstest.Raw
	for _, p := range peers {
		r := p.Dial(s.LocalAddrPort().Addr())
		r.Put(head)
		conns = append(conns, r)
	}
	for _, r := range conns {
		if _, _, err := r.Next(); err != nil { // the map: it was accepted
			t.Fatal(err)
		}
	}
	rdstest.Eventually(t, "the starts", func() bool {
		info, _ := nodeOf(s).Info()
		n := 0
		for _, c := range info.TCP {
			if c.PayloadRemaining == config.MaxMessage-9 {
				n++
			}
		}
		return n == len(peers)
	})
	if grown := rdstest.Heap() - before; grown > 100*(160<<10) {
		t.Errorf("heap grew by %d KiB", grown>>10)
	}
	rest := bytes.Repeat([]byte("r"), config.MaxMessage-9)
	conns[7].Put(rest) // it was only slow
	m := rdstest.MustRecv(t, s)
	if len(m.Data) != config.MaxMessage || m.From != netip.AddrPortFrom(peers[7].Addr, 1000) {
		t.Errorf("%v", &m)
	}
	m.Release()
}
