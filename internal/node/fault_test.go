//go:build !live

package node

import (
	"bytes"
	"errors"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// Bytes that no RDS speaker sends end the connection, and that one only; the
// peer may come back and behave.
func TestBrokenStreamsEnd(t *testing.T) {
	t.Parallel()
	huge := wire.Header{Sequence: 1, Sport: 1000, Dport: 4000, Length: config.MaxMessage + 1}
	padded := wire.Header{Sequence: 1, Sport: 1000, Dport: 4000, Length: 1, Padding: 1}
	good := rdstest.Message(wire.Header{Sequence: 1, Sport: 1, Dport: 2}, nil)
	limit := wire.Header{Sequence: 1, Sport: 1000, Dport: 4000, Length: 1<<32 - 1}
	for _, c := range []struct {
		name  string
		bytes []byte
	}{
		{"ones", bytes.Repeat([]byte{0xff}, 200)},
		{"another protocol", []byte("GET /index.html HTTP/1.1\r\nHost: example.com\r\nUser-Agent: curl/8.0\r\n\r\n")},
		{"a message over the bound", rdstest.Message(huge, nil)},
		{"the largest length", rdstest.Message(limit, nil)},
		{"padding", rdstest.Message(padded, []byte("x"))},
		{"a good message before", append(bytes.Clone(good), bytes.Repeat([]byte{0x7f}, 48)...)},
	} {
		t.Run(c.name+" from the smaller address", func(t *testing.T) {
			bubble(t, newVictim, func(t *testing.T, v *victim) {
				r := v.small.Dial(v.host)
				r.Put(c.bytes)
				r.WaitEnd()
				r = v.small.Dial(v.host)
				r.Put(v.data(r, "better"))
				rdstest.Expect(t, v.s, "better")
			})
		})
		t.Run(c.name+" from the larger address", func(t *testing.T) {
			bubble(t, newVictim, func(t *testing.T, v *victim) {
				ln := v.high.Listen()
				rdstest.MustSend(t, v.s, rdstest.AddrOf(v.high.Addr, 1000), []byte("hello"))
				r := ln.Accept()
				r.Put(c.bytes)
				r.WaitEnd()
				_ = r.Conn.Close()
				r = ln.Accept() // the victim connects again by itself
				// A peer that has said nothing right has not taken anything either.
				if !bytes.HasPrefix(c.bytes, good) {
					if h, b := r.NextData(); string(b) != "hello" {
						t.Errorf("%+v", h)
					}
				}
				r.Put(v.data(r, "better"))
				rdstest.Expect(t, v.s, "better")
			})
		})
	}
}

// What only looks odd is delivered, as Linux does (net/rds/recv.c,
// rds_recv_incoming checks nothing).
func TestOddMessagesAreDelivered(t *testing.T) {
	bubble(t, newVictim, func(t *testing.T, v *victim) {
		r := v.small.Dial(v.host)
		send := func(h wire.Header, text string) {
			t.Helper()
			h.Sport, h.Dport = 1000, 4000
			if h.Sequence == 0 {
				h.Sequence = r.Seq
				r.Seq++
			}
			r.Put(rdstest.Message(h, []byte(text)))
			rdstest.Expect(t, v.s, text)
		}
		send(wire.Header{Flags: 0xf8}, "unknown flags")
		send(wire.Header{Flags: 0xff}, "all flags") // with RETRANSMITTED, but new
		send(wire.Header{Flags: 0x03}, "a map's flag and another")
		send(wire.Header{Flags: wire.FlagAckRequired}, "acknowledgement wanted")
		send(wire.Header{Ack: 1 << 60, Credit: 77, Checksum: 0x1234}, "fields of InfiniBand")
		for _, ext := range [][wire.ExtensionSize]byte{
			{15, 14, 13, 12, 11, 10, 9, 16}, {255, 255}, {wire.ExtPaths, 0, 3}, {3, 1, 2, 3, 4, 5, 6, 7, 8, 3}, {wire.ExtVersion, 9, 9, 9, 9, wire.ExtGeneration},
			{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 6},
		} {
			send(wire.Header{Extensions: ext}, "extensions")
		}
		send(wire.Header{Sequence: 1 << 63}, "a jump ahead")
		send(wire.Header{Sequence: 1<<64 - 1}, "the last number")
		send(wire.Header{Sequence: 5}, "back without a flag")
		if c := rdstest.Report(t, v.node).Connections; c[0].Remote == v.small.Addr && c[0].Paths == 3 {
			t.Error("extensions of a datagram were taken for a handshake")
		}
	})
}

// A congestion map of another length is read and thrown away
// (net/rds/tcp_recv.c, rds_tcp_cong_recv).
func TestOddMapsAreIgnored(t *testing.T) {
	bubble(t, newVictim, func(t *testing.T, v *victim) {
		r := v.small.Dial(v.host)
		r.Put(rdstest.Congestion(1000))
		to := rdstest.AddrOf(v.small.Addr, 1000)
		rdstest.Eventually(t, "the map", func() bool { return errors.Is(v.s.TrySend(to, nil), datagram.ErrCongested) })
		for _, n := range []int{0, 1, 100, 8191, 8193, config.MaxMessage} {
			r.Put(rdstest.Message(wire.Header{Flags: wire.FlagCongestion}, make([]byte, n)))
		}
		r.Put(v.data(r, "then"))
		rdstest.Expect(t, v.s, "then")
		rdstest.WantErr(t, "send", v.s.TrySend(to, nil), datagram.ErrCongested)
	})
}

// An acknowledgement frame of InfiniBand is ignored but for its sequence
// number, as in Linux.
func TestAckFrame(t *testing.T) {
	bubble(t, newVictim, func(t *testing.T, v *victim) {
		r := v.small.Dial(v.host)
		r.Seq = 1000
		r.Put(v.data(r, "before"))
		r.Put(rdstest.Message(wire.Header{Ack: 99}, nil))
		r.Put(rdstest.Message(wire.Header{Sequence: 1, Sport: 1000, Dport: 4000, Flags: wire.FlagRetransmitted}, []byte("after the rewind")))
		rdstest.Expect(t, v.s, "before")
		rdstest.Expect(t, v.s, "after the rewind")
		rdstest.WantCounter(t, v.node, "recv_drop_no_sock", 0)
	})
}

// The sequence rule (net/rds/recv.c): flagged and below the next number means
// delivered before; anything else is taken.
func TestDuplicates(t *testing.T) {
	bubble(t, newVictim, func(t *testing.T, v *victim) {
		r := v.small.Dial(v.host)
		send := func(seq uint64, flags uint8, text string) {
			r.Put(rdstest.Message(wire.Header{Sequence: seq, Sport: 1000, Dport: 4000, Flags: flags}, []byte(text)))
		}
		send(10, 0, "10")
		send(10, wire.FlagRetransmitted, "10 again")
		send(9, wire.FlagRetransmitted, "9 again")
		send(9, 0x84, "9 again, with an unknown flag")
		send(11, wire.FlagRetransmitted, "11")
		rdstest.Expect(t, v.s, "10")
		rdstest.Expect(t, v.s, "11")
		r.Reset() // the numbers outlive the link
		r = v.small.Dial(v.host)
		send(11, wire.FlagRetransmitted, "11 again")
		send(12, wire.FlagRetransmitted, "12")
		send(3, 0, "3, a restart")
		send(3, 0, "3, twice without a flag")
		rdstest.Expect(t, v.s, "12")
		rdstest.Expect(t, v.s, "3, a restart")
		rdstest.Expect(t, v.s, "3, twice without a flag")
		rdstest.Eventually(t, "the count", func() bool { return rdstest.Counter(t, v.node, "recv_drop_old_seq") == 4 })
	})
}
