package rdma

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rds-go/rds/internal/wire"
)

// cutModel is the stream as who knows all of it sees it.
type cutModel struct {
	stream []byte
	ends   []int // of its messages
}

func newCutModel(sizes []int) *cutModel {
	m := new(cutModel)
	for i, n := range sizes {
		m.stream = (&wire.Header{Sequence: uint64(i), Length: uint32(n), Sport: 0xffff, Dport: 0xffff}).AppendTo(m.stream)
		m.stream = append(m.stream, slices.Repeat([]byte{0xff}, n)...)
		m.ends = append(m.ends, len(m.stream))
	}
	return m
}

// cut is what a segment at pos carries of a stream that is known up to end.
func (m *cutModel) cut(pos, end, room int) (n int, last bool) {
	limit := min(pos+room, end)
	i, boundary := slices.BinarySearch(m.ends, pos)
	if boundary = boundary || pos == 0; !boundary {
		if m.ends[i] <= limit {
			return m.ends[i] - pos, true
		}
		return limit - pos, false
	}
	best := pos
	for _, e := range m.ends {
		if e <= limit {
			best = max(best, e)
		}
	}
	if best > pos {
		return best - pos, true
	}
	return limit - pos, false
}

// sliced cuts b into slices as they come, some of them empty.
func sliced(r *rand.Rand, b []byte, most int) (bufs [][]byte) {
	for len(b) > 0 {
		n := min(len(b), r.IntN(most+1))
		bufs, b = append(bufs, b[:n:n]), b[n:]
	}
	return bufs
}

// drive gives a stream to a cutter as a link does: calls of any length, which take
// as many of the segments as it happens, asked for more than once.
func (m *cutModel) drive(t testing.TB, r *rand.Rand, most, room int) {
	t.Helper()
	var c cutter
	for at := 0; at < len(m.stream); {
		end := at + min(len(m.stream)-at, 1+r.IntN(4*room))
		c.begin(sliced(r, m.stream[at:end], most))
		places := []int{at}
		for pos := at; pos < end; {
			if r.IntN(4) == 0 { // not so much was taken: from a segment before once more
				places = places[:1+r.IntN(len(places))]
				pos = places[len(places)-1]
			}
			n, last := c.cut(pos-at, room)
			wantN, wantLast := m.cut(pos, end, room)
			if n != wantN || last != wantLast {
				t.Fatalf("cut at %d of %d to %d, room %d: %d, %v, want %d, %v", pos, at, end, room, n, last, wantN, wantLast)
			}
			pos += n
			places = append(places, pos)
			if r.IntN(8) == 0 {
				break
			}
		}
		taken := places[r.IntN(len(places))]
		c.end(taken - at)
		_, boundary := slices.BinarySearch(m.ends, taken)
		if taken > 0 && boundary != c.at.boundary() {
			t.Fatalf("after %d bytes the cutter is not where the stream is", taken)
		}
		at = taken
	}
}

func TestCutterFindsMessages(t *testing.T) {
	t.Parallel()
	for seed := range uint64(32) {
		r := rand.New(rand.NewPCG(seed, 1))
		var sizes []int
		for range 1 + r.IntN(200) {
			sizes = append(sizes, []int{0, 1, r.IntN(100), r.IntN(5000), r.IntN(70000)}[r.IntN(5)])
		}
		if seed%8 == 0 {
			sizes[r.IntN(len(sizes))] = wire.MaxPayload
		}
		most, room := []int{1, 50, 1000, 1 << 17}[seed%4], []int{60, 1400, 16000, 65000}[seed/4%4]
		if most == 1 {
			sizes = sizes[:min(len(sizes), 5)]
		}
		newCutModel(sizes).drive(t, r, most, room)
	}
}

// Memory of messages is not kept when they are gone.
func TestCutterForgetsSlices(t *testing.T) {
	t.Parallel()
	m := newCutModel([]int{10, 20, 30, 40})
	var c cutter
	c.begin([][]byte{m.stream})
	for pos := 0; pos < len(m.stream); {
		n, _ := c.cut(pos, 90)
		pos += n
	}
	c.end(m.ends[0])
	for _, p := range append(c.marks[:cap(c.marks)], c.walk) {
		if p.bufs != nil {
			t.Fatal("slices are kept")
		}
	}
}

func FuzzCutter(f *testing.F) {
	f.Add(uint64(1), uint16(100), uint16(1400), []byte{0, 0, 1, 5, 200, 255})
	f.Add(uint64(2), uint16(1), uint16(60), []byte{0, 0, 0, 0})
	f.Add(uint64(3), uint16(3), uint16(1), []byte{2, 0})
	f.Fuzz(func(t *testing.T, seed uint64, most, room uint16, lengths []byte) {
		var sizes []int
		for i := 0; i+1 < len(lengths) && i < 40; i += 2 {
			sizes = append(sizes, int(lengths[i])*int(lengths[i+1])/8)
		}
		newCutModel(sizes).drive(t, rand.New(rand.NewPCG(seed, 2)), int(most)+1, int(room)+200)
	})
}
