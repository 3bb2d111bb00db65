//go:build !live

package iwarp

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/mpa"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// What is unusual but right, or what the RFCs tell receivers not to look at.
func TestUnusualButRight(t *testing.T) {
	t.Parallel()
	pad := func(p *raw, crc bool, b []byte) []byte {
		copy(b[len(b)-7:len(b)-4], []byte{0x47, 0xce, 0x3b})
		if crc {
			mpa.PutCRC(b[len(b)-4:], mpa.CRC(b[:len(b)-4]))
		} else {
			copy(b[len(b)-4:], "junk")
		}
		return b
	}
	tests := []struct {
		name string
		send func(v *victim, p *raw)
		want string // bytes of the open region then, "": untouched
		recv []int  // lengths of the messages that came
		only string // framings: "crc", "no crc"; "": all
	}{
		{name: "26 padding is not zero", recv: []int{17}, send: func(v *victim, p *raw) {
			if p.markers != nil {
				p.send(p.sendMessage(make([]byte, 17))) // hidden by the markers
				return
			}
			p.write(pad(p, p.crc, p.frame(p.sendMessage(make([]byte, 17)))))
		}},
		{name: "27 wrong CRC where there is none", only: "no crc", recv: []int{5}, send: func(v *victim, p *raw) {
			b := p.frame(p.sendMessage([]byte("12345")))
			b[len(b)-1] ^= 0xff
			p.write(b)
		}},
		{name: "28 nine FPDUs in one segment", recv: []int{0, 1, 2, 3, 4, 5, 6, 7, 8}, send: func(v *victim, p *raw) {
			var all []byte
			for i := range 9 {
				all = append(all, p.frame(p.sendMessage(make([]byte, i)))...)
			}
			p.write(all)
		}},
		{name: "29 ULPDU of 65535 octets", want: "x", send: func(v *victim, p *raw) {
			p.send(write(uint32(v.open.Key()), v.open.Base(), bytes.Repeat([]byte("x"), 65535-ddp.TaggedLen)))
		}},
		{name: "32 reserved bits", recv: []int{4}, want: "yz", send: func(v *victim, p *raw) {
			u, w := p.sendMessage([]byte("wxyz")), write(uint32(v.open.Key()), v.open.Base(), []byte("yz"))
			for _, b := range [][]byte{u, w} {
				b[0] |= 0x3c
				b[1] |= 0x30
			}
			p.send(u, w)
		}},
		{name: "50 read of nothing", send: func(v *victim, p *raw) {
			p.send(p.read(rdmap.ReadRequest{SinkSTag: 0xdeadbeef, SinkTO: ^uint64(0), SourceSTag: 0xbaadf00d, SourceTO: ^uint64(0)}))
			if s := p.segment(rdmap.OpReadResponse); len(s.Payload) > 0 || s.Tagged.STag != 0xdeadbeef || s.Tagged.TO != ^uint64(0) {
				p.t.Errorf("answered by %+v", s)
			}
		}},
		{name: "54 write of nothing", send: func(v *victim, p *raw) {
			p.send(write(0, 0, nil), write(0xffffffff, ^uint64(0), nil), write(uint32(v.foreign.Key()), 0, nil))
		}},
		{name: "write whose last segment is empty", want: "ab", send: func(v *victim, p *raw) {
			p.send(tagged(rdmap.OpWrite, uint32(v.open.Key()), v.open.Base(), false, []byte("ab")), write(0xdead, 77, nil))
			p.send(write(uint32(v.open.Key()), v.open.Base()+1, []byte("b")))
		}},
		{name: "send whose last segment is empty", recv: []int{2}, send: func(v *victim, p *raw) {
			p.send(untagged(rdmap.OpSend, 0, p.nextMSN(0), 0, false, []byte("ab")), untagged(rdmap.OpSend, 0, 1, 2, true, nil))
		}},
		{name: "empty segments in the middle of a send", recv: []int{2}, send: func(v *victim, p *raw) {
			n := p.nextMSN(0)
			p.send(untagged(rdmap.OpSend, 0, n, 0, false, nil), untagged(rdmap.OpSend, 0, n, 0, false, []byte("a")),
				untagged(rdmap.OpSend, 0, n, 1, false, nil), untagged(rdmap.OpSend, 0, n, 1, true, []byte("b")))
		}},
		{name: "write inside a send", recv: []int{2}, want: "w", send: func(v *victim, p *raw) {
			n := p.nextMSN(0)
			p.send(untagged(rdmap.OpSend, 0, n, 0, false, []byte("a")), write(uint32(v.open.Key()), v.open.Base(), []byte("w")),
				untagged(rdmap.OpSend, 0, n, 1, true, []byte("b")))
		}},
		{name: "the last byte of a region", send: func(v *victim, p *raw) {
			p.send(write(uint32(v.open.Key()), v.open.Base()+1<<20-1, []byte{untouched}))
			if b := p.probe(v.open, 1<<20-1, 1); b[0] != untouched {
				p.t.Errorf("%#x", b)
			}
		}},
	}
	for _, test := range tests {
		for _, s := range streams {
			if test.only == "no crc" && s.crc {
				continue
			}
			inBubble(t, s.name+"/"+test.name, func(t *testing.T) {
				v := newVictim(t, Config{EventLoops: 1})
				for i := range 10 {
					v.post(uint64(100+i), v.recv.SGE(0, 4096))
				}
				p := openStream(t, v.end, s)
				test.send(v, p)
				for i, n := range test.recv {
					if c := v.want(uint64(100+i), Success, OpReceive); int(c.Len) != n {
						t.Errorf("message %d of %d bytes, want %d", i, c.Len, n)
					}
				}
				got := p.probe(v.open, 0, len(test.want)+1)
				if string(got[:len(test.want)]) != test.want || got[len(test.want)] != untouched && test.want != "x" {
					t.Errorf("in memory: %q, want %q", got, test.want)
				}
				if v.qp.State() == StateError {
					t.Error(v.qp.Err())
				}
			})
		}
	}
}

// A read of nothing completes with any answer: siw sends the bytes of another
// request. They are dropped.
func TestAnswerToReadOfNothing(t *testing.T) {
	t.Parallel()
	for _, s := range streams {
		for name, sizes := range map[string][]int{"58 empty": {0}, "58 junk": {100}, "58 long junk": {10_000}, "58 junk in segments": {16, 9000, 0, 4}} {
			inBubble(t, s.name+"/"+name, func(t *testing.T) {
				v, p := streamVictim(t, s)
				p.send(emptyWrite())
				v.send(WorkRequest{ID: 1, Op: OpRead, Flags: Signaled},
					WorkRequest{ID: 2, Op: OpRead, Flags: Signaled, SGE: []SGE{v.sink.SGE(0, 0)}},
					WorkRequest{ID: 3, Op: OpRead, Flags: Signaled, SGE: []SGE{v.sink.SGE(0, 2)}, RemoteKey: 1})
				for id := range uint64(2) {
					p.segment(rdmap.OpReadRequest)
					for i, n := range sizes {
						p.send(tagged(rdmap.OpReadResponse, uint32(v.open.Key()), v.open.Base(), i == len(sizes)-1, make([]byte, n)))
					}
					if c := v.want(id+1, Success, OpRead); c.Len != 0 {
						t.Errorf("length %d", c.Len)
					}
				}
				p.send(answer(p.segment(rdmap.OpReadRequest), []byte("ok")))
				v.want(3, Success, OpRead)
				if string(v.sink.Bytes()[:2]) != "ok" {
					t.Errorf("read %q", v.sink.Bytes()[:2])
				}
				if b := p.probe(v.open, 0, 64); !bytes.Equal(b, bytes.Repeat([]byte{untouched}, 64)) {
					t.Errorf("junk was placed: %q", b)
				}
			})
		}
	}
}

// Work requests of nothing go out as one empty segment each and complete.
func TestNothingIsSentAsOneEmptySegment(t *testing.T) {
	t.Parallel()
	for _, s := range streams {
		inBubble(t, s.name, func(t *testing.T) {
			v, p := streamVictim(t, s)
			p.send(emptyWrite())
			v.send(WorkRequest{ID: 1, Flags: Signaled}, WorkRequest{ID: 2, Op: OpWrite, Flags: Signaled}, WorkRequest{ID: 3, Op: OpSend, Flags: Signaled, SGE: []SGE{{Key: 0xdead}, {}}},
				WorkRequest{ID: 4, Op: OpWrite, Flags: Signaled, SGE: []SGE{{Key: 0xdead}}})
			for i, op := range []rdmap.Op{rdmap.OpSend, rdmap.OpWrite, rdmap.OpSend, rdmap.OpWrite} {
				if g := p.segment(op); len(g.Payload) > 0 || !g.Last() {
					t.Errorf("request %d: %+v", i, g)
				}
				v.want(uint64(i+1), Success, []Op{OpSend, OpWrite}[i%2])
			}
			v.post(100) // room for an empty message
			p.send(p.sendMessage(nil))
			v.want(100, Success, OpReceive)
		})
	}
}

// Atomics are answered once, in turn with reads, with what was there.
func TestAtomicsOfRawPeer(t *testing.T) {
	t.Parallel()
	for _, s := range streams {
		inBubble(t, s.name, func(t *testing.T) {
			v, p := streamVictim(t, s)
			old := binary.NativeEndian.Uint64(bytes.Repeat([]byte{untouched}, 8))
			for i := range uint64(5) {
				r := rdmap.AtomicRequest{Op: rdmap.FetchAdd, ID: uint32(70 + i), STag: uint32(v.open.Key()), TO: v.open.Base() + 8, Add: 3, CompareMask: ^uint64(0)}
				p.send(untagged(rdmap.OpAtomicRequest, 1, p.nextMSN(1), 0, true, r.AppendTo(nil)))
				g := p.segment(rdmap.OpAtomicResponse)
				var a rdmap.AtomicResponse
				if err := a.Decode(g.Payload); err != nil || a.ID != r.ID || a.Value != old+3*i || g.Untagged.MSN != uint32(i+1) {
					t.Errorf("answer %d: %+v, %+v, %v", i, g.Untagged, a, err)
				}
				if b := p.probe(v.open, 8, 8); binary.NativeEndian.Uint64(b) != old+3*i+3 {
					t.Errorf("left %x", b)
				}
			}
		})
	}
}
