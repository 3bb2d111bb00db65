//go:build !live

package ipc

import (
	"math"
	"reflect"
	"testing"
)

func wholeAbout() About {
	return About{
		Flags: aboutFlags, ID: 1, Dest: 2, Cookie: 3, Offset: 4, Pieces: []Piece{{5, 6}, {math.MaxUint32, math.MaxUint32 - 1}}, Kind: 7,
		AtomicCookie: 8, AtomicOffset: 9, Add: 10, AddMask: 11, Compare: 12, CompareMask: 13, Swap: 14, SwapMask: 1<<64 - 1, Expires: -15,
	}
}

func TestAboutIsLoadedAsItWasAppended(t *testing.T) {
	t.Parallel()
	want := wholeAbout()
	area := make([]byte, 100, 1000)
	area = want.AppendTo(area)
	if got := len(area) - 100; got != AboutSize+8+2*PieceSize {
		t.Errorf("%d bytes", got)
	}
	got := About{Pieces: make([]Piece, 9)}
	if !got.Load(area, 100) || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	want.Flags, want.Expires = AboutDest, 0
	if b := want.AppendTo(nil); len(b) != AboutSize+2*PieceSize || !got.Load(b, 0) || !reflect.DeepEqual(got, want) {
		t.Errorf("without a limit %+v, want %+v", got, want)
	}
	var most About
	most.Pieces = make([]Piece, MaxPieces)
	if !got.Load(most.AppendTo(nil), 0) || len(got.Pieces) != MaxPieces {
		t.Error("not with most pieces")
	}
}

func TestAboutsThatAreNoneAreRefused(t *testing.T) {
	t.Parallel()
	good := wholeAbout()
	b := good.AppendTo(nil)
	for _, x := range []struct {
		name   string
		off    uint32
		change func(b []byte) []byte
	}{
		{"beyond the area", 1, func(b []byte) []byte { return b }},
		{"far beyond", math.MaxUint32, func(b []byte) []byte { return b }},
		{"half a header", 0, func(b []byte) []byte { return b[:AboutSize-1] }},
		{"half a piece", 0, func(b []byte) []byte { return b[:len(b)-1] }},
		{"half a time limit", 0, func(b []byte) []byte { clear(b[offAboutPieces:][:4]); return b[:AboutSize+7] }},
		{"an unknown flag", 0, func(b []byte) []byte { b[1] |= 1; return b }},
		{"too many pieces", 0, func(b []byte) []byte { b[5] = 5; return append(b, make([]byte, 2000*PieceSize)...) }},
		{"a kind of more bits", 0, func(b []byte) []byte { b[offAboutKind+4] = 1; return b }},
	} {
		var a About
		if a.Load(x.change(append([]byte(nil), b...)), x.off) {
			t.Errorf("%s: %+v", x.name, a)
		}
	}
}

// FuzzAbout loads, appends, loads again and compares.
func FuzzAbout(f *testing.F) {
	a := wholeAbout()
	f.Add(a.AppendTo(nil), uint32(0))
	f.Add(a.AppendTo(make([]byte, 7)), uint32(7))
	f.Add(make([]byte, AboutSize), uint32(math.MaxUint32))
	a.Flags, a.Expires = AboutAtomic, 0
	f.Add(a.AppendTo(nil), uint32(0))
	f.Fuzz(func(t *testing.T, area []byte, off uint32) {
		var a, again About
		if !a.Load(area, off) {
			return
		}
		b := a.AppendTo(nil)
		if !again.Load(b, 0) || !reflect.DeepEqual(a, again) {
			t.Fatalf("%+v became %+v", a, again)
		}
		size := AboutSize + PieceSize*len(a.Pieces)
		if a.Flags&AboutExpires != 0 {
			size += 8
		}
		if len(b) != size || string(b) != string(area[off:][:len(b)]) {
			t.Fatalf("%x became %x", area[off:], b)
		}
	})
}
