package mpa

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"testing"
)

// marked appends the FPDUs of ulpdus to one stream with markers.
func marked(crc bool, ulpdus ...[]byte) (stream []byte, fpdus [][]byte) {
	var w MarkerWriter
	for _, u := range ulpdus {
		start := len(stream)
		stream = w.Append(stream, AppendContent(nil, u), crc)
		fpdus = append(fpdus, stream[start:])
	}
	return stream, fpdus
}

// The first case begins with figure 5 of RFC 5044; figure 6 is the golden fpdu-marker.
func TestMarkerPlaces(t *testing.T) {
	t.Parallel()
	var twelve [][]byte
	for msn := byte(1); msn <= 12; msn++ {
		twelve = append(twelve, send(msn, 24))
	}
	for _, c := range []struct {
		name    string
		ulpdus  [][]byte
		length  int
		markers map[int]string // by position
		crcs    map[int]string // by FPDU, from 0
		starts  map[int]int    // positions of ULPDU_Length, by FPDU
	}{
		{"within an FPDU", twelve, 584,
			map[int]string{0: "00000000", 512: "0000001c"},
			map[int]string{0: "52239983", 9: "d616e579", 10: "2517a62a", 11: "ea41e542"}, map[int]int{0: 4, 10: 484}},
		{"between PAD and CRC", [][]byte{send(1, 488), send(2, 24)}, 568,
			map[int]string{0: "00000000", 512: "000001fc"},
			map[int]string{0: "38cf64e8", 1: "290fbede"}, map[int]int{0: 4, 1: 520}},
		{"between FPDUs", [][]byte{send(1, 484), send(2, 24)}, 564,
			map[int]string{0: "00000000", 512: "00000000"},
			map[int]string{0: "a09bb55b", 1: "cc08199e"}, map[int]int{0: 4, 1: 516}},
		{"three in one FPDU", [][]byte{send(1, 1400)}, 1436,
			map[int]string{0: "00000000", 512: "000001fc", 1024: "000003fc"},
			map[int]string{0: "7a3eb8a5"}, map[int]int{0: 4}},
		{"behind one in front", [][]byte{send(1, 484), send(2, 1400), send(3, 0)}, 1972,
			map[int]string{512: "00000000", 1024: "000001fc", 1536: "000003fc"}, nil, map[int]int{1: 516}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			stream, fpdus := marked(true, c.ulpdus...)
			if len(stream) != c.length {
				t.Errorf("%d octets, want %d", len(stream), c.length)
			}
			for pos, want := range c.markers {
				if got := hex.EncodeToString(stream[pos : pos+4]); got != want {
					t.Errorf("marker at %d is %s, want %s", pos, got, want)
				}
			}
			for i, want := range c.crcs {
				if got := hex.EncodeToString(fpdus[i][len(fpdus[i])-4:]); got != want {
					t.Errorf("CRC of FPDU %d is %s, want %s", i+1, got, want)
				}
			}
			for i, start := range c.starts {
				if got := int(binary.BigEndian.Uint16(stream[start:])); got != len(c.ulpdus[i]) {
					t.Errorf("FPDU %d: %d where its length is, want %d", i+1, got, len(c.ulpdus[i]))
				}
			}
			checkDelivery(t, &Parser{CRC: true, Markers: true}, [][]byte{stream}, c.ulpdus)
		})
	}
}

// Every marker is found, with the right pointer, by somebody who knows only
// where FPDUs start.
func TestMarkersPointToTheirFPDU(t *testing.T) {
	t.Parallel()
	var w MarkerWriter
	var stream []byte
	want := map[int]int{}
	for n := MinUntagged; n < 3000; n += 37 {
		start := len(stream)
		if start%MarkerInterval == 0 {
			want[start], start = 0, start+MarkerLen
		}
		before := len(stream)
		stream = w.Append(stream, AppendContent(nil, send(1, n)), false)
		for pos := (start/MarkerInterval + 1) * MarkerInterval; pos < len(stream); pos += MarkerInterval {
			want[pos] = pos - start
		}
		if got := len(stream) - before - FPDULen(18+n); got > 4*MaxMarkers(ContentLen(18+n)) {
			t.Errorf("Send of %d: %d octets of markers, MaxMarkers says %d", n, got, MaxMarkers(ContentLen(18+n)))
		}
	}
	if want[0] != 0 || len(want) != (len(stream)+MarkerInterval-1)/MarkerInterval {
		t.Fatalf("%d markers in %d octets", len(want), len(stream))
	}
	for pos, back := range want {
		if got := binary.BigEndian.Uint32(stream[pos:]); got != uint32(back) {
			t.Errorf("marker at %d is %d, want %d", pos, got, back)
		}
	}
}

// MaxULPDU is the longest whose markers all reach its start.
func TestMarkersReachOverTheLongestULPDU(t *testing.T) {
	t.Parallel()
	ulpdu := send(1, MaxULPDU-18)
	for pos := 0; pos < MarkerInterval; pos += 4 {
		w := MarkerWriter{pos: pos}
		stream := w.Append(nil, AppendContent(nil, ulpdu), false)
		if len(stream) > 1<<16 {
			t.Fatalf("position %d: %d octets", pos, len(stream))
		}
	}
}

// remark writes v over the marker at pos and, on request, mends the CRC, which
// stands at the end.
func remark(stream []byte, pos int, v uint32, mend bool) []byte {
	out := bytes.Clone(stream)
	binary.BigEndian.PutUint32(out[pos:], v)
	if mend {
		PutCRC(out[len(out)-4:], CRC(out[:len(out)-4]))
	}
	return out
}

func TestParserComparesMarkers(t *testing.T) {
	t.Parallel()
	stream, _ := marked(true, send(1, 1400))
	for _, c := range []struct {
		name   string
		stream []byte
		crc    bool
		want   error
	}{
		{"right", stream, true, nil},
		{"first points elsewhere", remark(stream, 0, 4, true), true, ErrMarker},
		{"second points elsewhere", remark(stream, 512, 0x200, true), true, ErrMarker},
		{"third is zero", remark(stream, 1024, 0, true), true, ErrMarker},
		{"low bits set", remark(stream, 512, 0x1fd, true), true, ErrMarker},
		{"elsewhere and CRC wrong", remark(stream, 512, 0x200, false), true, ErrCRC},
		{"elsewhere without CRC", remark(stream, 512, 0x200, false), false, ErrMarker},
		{"reserved half set", remark(stream, 512, 0xffff01fc, true), true, nil},
		{"reserved half set, CRC does not cover it", remark(stream, 512, 0xffff01fc, false), true, ErrCRC},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			want := [][]byte{send(1, 1400)}
			if c.want != nil {
				want = nil
			}
			checkFailure(t, &Parser{CRC: c.crc, Markers: true}, c.stream, want, c.want)
		})
	}
}

// What is wrong with one FPDU's marker is not held against the next, and a
// stream without markers is not one with them.
func TestParserOfTheOtherKindFails(t *testing.T) {
	t.Parallel()
	with, _ := marked(true, send(1, 24))
	checkFailure(t, &Parser{CRC: true}, with, nil, ErrLength) // the marker for a length
	without := AppendFPDU(nil, send(1, 24), true)
	without = append(without, AppendFPDU(nil, send(2, 24), true)...)
	checkFailure(t, &Parser{CRC: true, Markers: true}, without, nil, ErrLength)
}
