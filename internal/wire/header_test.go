package wire

import (
	"bytes"
	"errors"
	"testing"

	"github.com/rds-go/rds/internal/hexfile"
)

func TestDecodeRefusesShortHeader(t *testing.T) {
	t.Parallel()
	for n := range HeaderSize {
		h := Header{Sequence: 7}
		if err := h.Decode(make([]byte, n)); !errors.Is(err, errShortHeader) {
			t.Errorf("%d bytes: %v", n, err)
		}
		if h != (Header{Sequence: 7}) {
			t.Errorf("%d bytes: a refused header was written to", n)
		}
	}
}

// Each field is read from its own place and no other.
func TestHeaderFieldsDoNotOverlap(t *testing.T) {
	t.Parallel()
	var b [HeaderSize]byte
	for i := range b {
		b[i] = byte(i + 1)
	}
	want := Header{
		Sequence: 0x0102030405060708, Ack: 0x090a0b0c0d0e0f10, Length: 0x11121314,
		Sport: 0x1516, Dport: 0x1718, Flags: 0x19, Credit: 0x1a, Padding: 0x1b1c1d1e, Checksum: 0x1f20,
		Extensions: [ExtensionSize]byte(b[32:]),
	}
	var h Header
	if err := h.Decode(b[:]); err != nil || h != want {
		t.Fatalf("decoded %+v, %v\nwant    %+v", h, err, want)
	}
	if got := h.AppendTo(nil); !bytes.Equal(got, b[:]) {
		t.Errorf("encoded % x", got)
	}
}

// net/rds/tcp_recv.c compares the whole flags byte with CONG_BITMAP.
func TestCongestionNeedsTheWholeFlagsByte(t *testing.T) {
	t.Parallel()
	for f := range 256 {
		h := Header{Flags: uint8(f)}
		if got := h.IsCongestion(); got != (f == 1) {
			t.Errorf("flags %#02x: IsCongestion %v", f, got)
		}
		if got := h.Retransmitted(); got != (f&4 != 0) {
			t.Errorf("flags %#02x: Retransmitted %v", f, got)
		}
	}
}

// The data path must not allocate for a header.
func TestNoAllocations(t *testing.T) {
	b := hexfile.Read(t, "E10")
	out := make([]byte, 0, HeaderSize)
	var h Header
	var m CongestionMap
	for name, f := range map[string]func(){
		"decode":       func() { _ = h.Decode(b) },
		"decode short": func() { _ = h.Decode(b[:1]) },
		"append":       func() { out = h.AppendTo(out[:0]) },
		"put":          func() { h.Put(out[:HeaderSize]) },
		"put data":     func() { PutData(out[:HeaderSize], 1, 2, 3, 4) },
		"mark":         func() { MarkRetransmitted(out[:HeaderSize]) },
		"handshake":    func() { hs := ParseHandshake(&h.Extensions); hs.Put(&h.Extensions) },
		"map":          func() { m.Set(4000); m.Congested(4000); m.Clear(4000) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// Any 48 bytes are a header, and encoding it gives the same bytes again.
func FuzzHeader(f *testing.F) {
	for _, g := range goldens {
		f.Add(hexfile.Read(f, g.name)[:HeaderSize])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var h, again Header
		if err := h.Decode(b); err != nil {
			if len(b) >= HeaderSize {
				t.Fatalf("%d bytes refused: %v", len(b), err)
			}
			return
		}
		enc := h.AppendTo(nil)
		if !bytes.Equal(enc, b[:HeaderSize]) {
			t.Fatalf("decoded % x\nencoded % x", b[:HeaderSize], enc)
		}
		var put [HeaderSize]byte
		if h.Put(put[:]); !bytes.Equal(put[:], enc) {
			t.Fatalf("AppendTo % x\nPut      % x", enc, put)
		}
		if err := again.Decode(enc); err != nil || again != h {
			t.Fatalf("%+v became %+v, %v", h, again, err)
		}
	})
}
