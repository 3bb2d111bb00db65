package ddp

import (
	"bytes"
	"testing"
)

func FuzzTagged(f *testing.F) {
	for _, c := range taggedHeaders {
		f.Add(unhex(f, c.wire))
	}
	f.Add(unhex(f, "bd40 00000001 0000000000000000 ff"))
	fuzzHeader[Tagged](f, TaggedLen)
}

func FuzzUntagged(f *testing.F) {
	for _, c := range untaggedHeaders {
		f.Add(unhex(f, c.wire))
	}
	f.Add(unhex(f, "3d43 00000000 00000000 00000001 00000000 ff"))
	fuzzHeader[Untagged](f, UntaggedLen)
}

// fuzzHeader takes headers of n octets apart and puts them together again. RFC 5041 section
// 4.1: bits 2 to 5 of the control octet are zero on the wire and mean nothing to a receiver.
func fuzzHeader[H comparable, P header[H]](f *testing.F, n int) {
	f.Fuzz(func(t *testing.T, b []byte) {
		var h, again H
		if P(&h).Decode(b) != nil {
			return
		}
		wire := P(&h).AppendTo(nil)
		if err := P(&again).Decode(wire); err != nil || again != h {
			t.Fatalf("% x: %+v becomes %+v, %v", b, h, again, err)
		}
		b[0] &^= 0x3c // reserved bits are not kept
		if !bytes.Equal(wire, b[:n]) {
			t.Fatalf("% x comes back as % x", b, wire)
		}
	})
}

// FuzzQueue sends messages cut at random places and, between them, segments with
// wrong numbers. The queue takes the first, none of the second, and is where the
// sender is after each.
func FuzzQueue(f *testing.F) {
	f.Add(uint32(1), []byte{5, 0x85, 0x80, 0, 0, 0x80})
	f.Add(uint32(0xffffffff), []byte{0x81, 0x81, 0x40, 0x20, 0x81, 1, 0x81})
	f.Add(uint32(0), []byte{})
	f.Fuzz(func(t *testing.T, msn uint32, cuts []byte) {
		q := QueueAt(msn)
		mo, open := uint32(0), false
		for _, c := range cuts {
			h := Untagged{MSN: msn, MO: mo, Last: c&0x80 != 0, ULP: 0x43}
			n := int(c & 0x3f)
			if c&0x40 != 0 { // n is a shift instead
				wrong := h
				if c&1 != 0 {
					wrong.MSN += uint32(n) + 1
				} else {
					wrong.MO += uint32(n) + 1
				}
				want := ErrInvalidMO
				if wrong.MSN != msn {
					want = ErrMSNRange
				}
				if err := q.Check(&wrong); err != want {
					t.Fatalf("%+v instead of %+v: %v", wrong, h, err)
				}
				continue
			}
			if err := q.Check(&h); err != nil {
				t.Fatalf("%+v: %v", h, err)
			}
			q.Advance(&h, n)
			mo, open = mo+uint32(n), true
			if h.Last {
				msn, mo, open = msn+1, 0, false
			}
			if q.MSN() != msn || q.Open() != open {
				t.Fatalf("after %+v: MSN %d, open %v; want %d, %v", h, q.MSN(), q.Open(), msn, open)
			}
		}
	})
}

// FuzzRun feeds any sequence of tagged segments: what is taken between two last
// flags lies end to end in one STag.
func FuzzRun(f *testing.F) {
	seed := func(segments ...Tagged) (b []byte) {
		for _, h := range segments {
			b = append(h.AppendTo(b), 5)
		}
		return b
	}
	f.Add(seed(Tagged{STag: 7, TO: 100}, Tagged{STag: 7, TO: 105, Last: true}))
	f.Add(seed(Tagged{STag: 7, TO: 1<<64 - 5}, Tagged{STag: 7, TO: 0, Last: true}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Run
		var first Tagged
		var total uint64
		for open := false; len(b) > TaggedLen; b = b[TaggedLen+1:] {
			var h Tagged
			n := int(b[TaggedLen])
			if h.Decode(b) != nil || r.Check(&h, n) != nil {
				continue
			}
			r.Advance(&h, n)
			switch {
			case h.Last:
				open = false
			case n > 0 && !open:
				first, total, open = h, uint64(n), true
			case n > 0:
				if h.STag != first.STag || h.TO != first.TO+total || h.ULP != first.ULP {
					t.Fatalf("%+v continues %+v at %d", h, first, total)
				}
				total += uint64(n)
			}
			if r.Open() != open {
				t.Fatalf("after %+v: open is %v", h, r.Open())
			}
		}
	})
}
