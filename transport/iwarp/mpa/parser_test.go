package mpa

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// gather feeds pieces and returns copies of what is delivered.
func gather(p *Parser, pieces [][]byte) (got [][]byte, err error) {
	for _, b := range pieces {
		err = p.Feed(b, func(u []byte) error {
			got = append(got, bytes.Clone(u))
			return nil
		})
		if err != nil {
			return got, err
		}
	}
	return got, nil
}

func checkDelivery(t *testing.T, p *Parser, pieces, want [][]byte) {
	t.Helper()
	got, err := gather(p, pieces)
	if err != nil {
		t.Errorf("after %d ULPDUs: %v", len(got), err)
	}
	if err := sameULPDUs(got, want); err != nil {
		t.Error(err)
	}
	if p.Partial() {
		t.Error("something is left")
	}
}

// checkFailure feeds the stream whole and octet by octet.
func checkFailure(t *testing.T, p *Parser, stream []byte, want [][]byte, wantErr error) {
	t.Helper()
	second := *p
	for i, pieces := range [][][]byte{{stream}, split(stream, 1)} {
		p := []*Parser{p, &second}[i]
		got, err := gather(p, pieces)
		if err != wantErr {
			t.Errorf("pieces of %d: error %v, want %v", len(pieces[0]), err, wantErr)
		}
		if err := sameULPDUs(got, want); err != nil {
			t.Errorf("pieces of %d: %v", len(pieces[0]), err)
		}
		if wantErr == nil {
			continue
		}
		if _, err := gather(p, [][]byte{nil, AppendFPDU(nil, send(1, 4), true)}); err != wantErr {
			t.Errorf("fed once more: error %v, want %v", err, wantErr)
		}
	}
}

func sameULPDUs(got, want [][]byte) error {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return fmt.Errorf("%d ULPDUs delivered, want %d", len(got), len(want))
		case i >= len(want):
			return fmt.Errorf("%d ULPDUs delivered, want %d; one too many is %x", len(got), len(want), got[i])
		case !bytes.Equal(got[i], want[i]):
			return fmt.Errorf("ULPDU %d is\n%x, want\n%x", i, got[i], want[i])
		}
	}
	return nil
}

// split cuts b into pieces of n octets.
func split(b []byte, n int) (pieces [][]byte) {
	for len(b) > n {
		pieces = append(pieces, b[:n])
		b = b[n:]
	}
	return append(pieces, b)
}

// messages are ULPDUs of all paddings and of lengths around the markers.
func messages(r *rand.Rand) (out [][]byte) {
	for _, n := range []int{0, 1, 2, 3, 4, 463, 464, 465, 484, 488, 508, 512, 1424, 4096} {
		u := send(byte(len(out)), n)
		for i := range n {
			u[18+i] = byte(r.Uint32())
		}
		out = append(out, u)
	}
	return append(out, []byte{0xc1, 0x40, 13: 0}) // an empty Write
}

func stream(markers, crc bool, ulpdus [][]byte) (out []byte) {
	if markers {
		out, _ = marked(crc, ulpdus...)
		return out
	}
	for _, u := range ulpdus {
		out = AppendFPDU(out, u, crc)
	}
	return out
}

func TestParserTakesAnySplit(t *testing.T) {
	t.Parallel()
	const seed = 7
	for _, markers := range []bool{false, true} {
		for _, crc := range []bool{false, true} {
			t.Run(fmt.Sprintf("markers %v, CRC %v", markers, crc), func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(seed, 1))
				want := messages(r)
				in := stream(markers, crc, want)
				for _, n := range []int{1, 2, 3, 5, 7, 64, 508, 512, 513, 1448, len(in)} {
					checkDelivery(t, &Parser{CRC: crc, Markers: markers}, split(in, n), want)
				}
				for range 50 {
					var pieces [][]byte
					for rest := in; len(rest) > 0; {
						n := 1 + r.IntN(min(len(rest), 600))
						pieces = append(pieces, rest[:n])
						rest = rest[n:]
					}
					checkDelivery(t, &Parser{CRC: crc, Markers: markers}, pieces, want)
				}
			})
		}
	}
}

// stale returns an FPDU whose PAD is not zero.
func stale(u []byte, mend bool) []byte {
	b := AppendFPDU(nil, u, true)
	for i := HeaderLen + len(u); i < len(b)-CRCLen; i++ {
		b[i] = 0xa5
	}
	if mend {
		PutCRC(b[len(b)-4:], CRC(b[:len(b)-4]))
	}
	return b
}

func TestParserRefusesAndTolerates(t *testing.T) {
	t.Parallel()
	whole := AppendFPDU(nil, send(1, 16), true)
	flip := func(i int) []byte {
		b := bytes.Clone(whole)
		b[i] ^= 1
		return b
	}
	swapped := bytes.Clone(whole)
	for i, n := 0, len(whole); i < 4; i++ {
		swapped[n-4+i] = whole[n-1-i]
	}
	short := func(first byte, n int) []byte {
		u := make([]byte, n)
		if n > 0 {
			u[0] = first
		}
		return AppendFPDU(nil, u, true)
	}
	longest := append([]byte{0xc1, 0x40}, make([]byte, MaxReceiveULPDU-2)...)
	var nine []byte
	var nineULPDUs [][]byte
	for i := range 9 {
		nineULPDUs = append(nineULPDUs, send(byte(i), i))
		nine = AppendFPDU(nine, nineULPDUs[i], true)
	}
	fine := [][]byte{send(1, 16)}
	for _, c := range []struct {
		name   string
		crc    bool
		stream []byte
		want   [][]byte
		err    error
	}{
		{"row 22, length 0", true, short(0, 0), nil, ErrLength},
		{"row 22, length 1, tagged", true, short(0xc1, 1), nil, ErrLength},
		{"row 22, length 13, tagged", true, short(0xc1, 13), nil, ErrLength},
		{"row 22, length 13, untagged", false, short(0x41, 13), nil, ErrLength},
		{"row 22, length 17, untagged", true, short(0x41, 17), nil, ErrLength},
		{"length 0 and no more than a word", true, []byte{0, 0, 0, 0}, nil, ErrLength},
		{"length 14, tagged", true, short(0xc1, 14), [][]byte{{0xc1, 13: 0}}, nil},
		{"length 17, tagged", true, short(0xc1, 17), [][]byte{{0xc1, 16: 0}}, nil},
		{"length 18, untagged", true, short(0x41, 18), [][]byte{{0x41, 17: 0}}, nil},
		{"row 23, a bit of the CRC", true, flip(len(whole) - 1), nil, ErrCRC},
		{"a bit of the payload", true, flip(25), nil, ErrCRC},
		{"a bit of the header", true, flip(9), nil, ErrCRC},
		{"a bit of the payload, no CRC", false, flip(25), [][]byte{flip(25)[2 : 2+34]}, nil},
		{"row 24, CRC big-endian", true, swapped, nil, ErrCRC},
		{"row 25, PAD altered after the CRC", true, stale(send(1, 17), false), nil, ErrCRC},
		{"row 26, PAD not zero, CRC right", true, stale(send(1, 17), true), [][]byte{send(1, 17)}, nil},
		{"row 26, PAD not zero, no CRC", false, stale(send(1, 17), false), [][]byte{send(1, 17)}, nil},
		{"row 27, wrong CRC though there is none", false, flip(len(whole) - 1), fine, nil},
		{"row 28, octet by octet", true, whole, fine, nil},
		{"row 28, nine at once", true, nine, nineULPDUs, nil},
		{"row 29, the longest", true, AppendFPDU(nil, longest, true), [][]byte{longest}, nil},
		{"the second is bad", true, append(bytes.Clone(whole), flip(25)...), fine, ErrCRC},
		{"nothing", true, nil, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			checkFailure(t, &Parser{CRC: c.crc}, c.stream, c.want, c.err)
		})
	}
	for _, v := range vectors {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			u := unhex(t, v.ulpdu)
			in := append([]byte{0, byte(len(u))}, u...)
			in = append(append(in, unhex(t, v.pad)...), unhex(t, v.crc)...)
			checkFailure(t, &Parser{CRC: true}, in, [][]byte{u}, nil)
		})
	}
}

func TestParserSaysWhatAnEndCutsOff(t *testing.T) {
	t.Parallel()
	for _, markers := range []bool{false, true} {
		in := stream(markers, true, [][]byte{send(1, 500), send(2, 7)})
		first := len(stream(markers, true, [][]byte{send(1, 500)}))
		p := Parser{CRC: true, Markers: markers}
		if p.Partial() {
			t.Error("partial before the first octet")
		}
		for i := range in {
			if _, err := gather(&p, [][]byte{in[i : i+1]}); err != nil {
				t.Fatal(err)
			}
			// Markers between FPDUs are inside none.
			want := i+1 != first && i+1 != len(in) && (!markers || i >= MarkerLen)
			if got := p.Partial(); got != want {
				t.Errorf("markers %v: partial %v after %d of %d octets", markers, got, i+1, len(in))
			}
		}
	}
}

// After an error of the one who gets them, no ULPDU of the same octets follows.
func TestParserStopsWhenDeliveryFails(t *testing.T) {
	t.Parallel()
	in := stream(false, true, [][]byte{send(1, 0), send(2, 0), send(3, 0)})
	p := Parser{CRC: true}
	stop := errors.New("stop")
	calls := 0
	deliver := func(u []byte) error {
		if calls++; u[13] == 2 {
			return stop
		}
		return nil
	}
	for range 2 {
		if err := p.Feed(in, deliver); err != stop {
			t.Errorf("error %v", err)
		}
	}
	if calls != 2 {
		t.Errorf("%d deliveries, want 2", calls)
	}
}

// A length is only believed when the octets are there, and one FPDU is all
// that is held. One longer than MaxULPDU is not made by us, but taken: the pointers of its
// markers have the low bits of the distance.
func TestParserMemoryIsBounded(t *testing.T) {
	t.Parallel()
	p := Parser{CRC: true}
	if _, err := gather(&p, [][]byte{{0xff, 0xff, 0x41, 0x43}}); err != nil || cap(p.buf) > 64 {
		t.Errorf("a lying length: %d octets held, error %v", cap(p.buf), err)
	}
	p = Parser{CRC: true, Markers: true}
	in := stream(true, true, [][]byte{send(1, MaxReceiveULPDU-18), send(2, MaxReceiveULPDU-18), send(3, MaxReceiveULPDU-18)})
	checkDelivery(t, &p, split(in, 1448), [][]byte{send(1, MaxReceiveULPDU-18), send(2, MaxReceiveULPDU-18), send(3, MaxReceiveULPDU-18)})
	if cap(p.buf) > 2*MaxFPDU {
		t.Errorf("%d octets held", cap(p.buf))
	}
}

func TestErrorsHaveTheirCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  *Error
		code Code
	}{
		{ErrCRC, 2}, {ErrMarker, 3}, {ErrLength, 3}, {ErrIRD, 6}, {ErrRTR, 7},
		{ErrKey, 0}, {ErrRole, 0}, {ErrRevision, 0}, {ErrPrivate, 0}, {ErrPrefix, 0}, {ErrEnhanced, 0},
		{ErrPipelined, 0}, {ErrMarkers, 0}, {ErrTurn, 0}, {ErrDepth, 0}, {ErrRejected, 0}, {ErrRange, 0},
	} {
		if c.err.Code != c.code {
			t.Errorf("%v: code %d, want %d", c.err, c.err.Code, c.code)
		}
		if c.err.errno == 0 || !errors.Is(fmt.Errorf("wrapped: %w", c.err), c.err.errno) {
			t.Errorf("%v: no errno", c.err)
		}
	}
}
