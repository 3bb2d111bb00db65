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
	ends   []int // ends of the messages in stream
	queues []uint32
	routes routes
}

// newCutModel makes a stream of messages of these sizes to ports from 0xfff0 on, of
// which each has a queue of its own, but for the last, which nobody knows.
func newCutModel(sizes []int, port func() uint16) *cutModel {
	m := new(cutModel)
	for p := uint16(0xfff0); p < 0xffff; p++ {
		m.routes.home(p, uint32(p)-0xfff0+2)
	}
	for i, n := range sizes {
		p, queue := port(), uint32(1)
		if p < 0xffff {
			queue = uint32(p) - 0xfff0 + 2
		}
		m.stream = (&wire.Header{Sequence: uint64(i), Length: uint32(n), Sport: 0xffff, Dport: p}).AppendTo(m.stream)
		m.stream = append(m.stream, slices.Repeat([]byte{0xff}, n)...)
		m.ends = append(m.ends, len(m.stream))
		m.queues = append(m.queues, queue)
	}
	return m
}

// onePort is the port of all messages.
func onePort() uint16 { return 0xffff }

// cut is what a segment at pos carries of a stream that is known up to end. hidden
// tells that the queue cannot be known.
func (m *cutModel) cut(pos, end, room int) (n int, last bool, queue uint32, hidden bool) {
	limit := min(pos+room, end)
	i, boundary := slices.BinarySearch(m.ends, pos)
	if boundary = boundary || pos == 0; !boundary {
		if m.ends[i] <= limit {
			return m.ends[i] - pos, true, m.queues[i], false
		}
		return limit - pos, false, m.queues[i], false
	}
	if pos > 0 {
		i++
	}
	best := pos
	for j := i; j < len(m.ends) && m.ends[j] <= limit && m.queues[j] == m.queues[i]; j++ {
		best = m.ends[j]
	}
	if best > pos {
		return best - pos, true, m.queues[i], false
	}
	return limit - pos, false, m.queues[i], end-pos < headerPart
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
	c := cutter{routes: &m.routes}
	early := map[int]bool{} // messages that went to the first queue before their ports were known
	for at := 0; at < len(m.stream); {
		end := at + min(len(m.stream)-at, 1+r.IntN(4*room))
		c.begin(sliced(r, m.stream[at:end], most))
		places := []int{at}
		for pos := at; pos < end; {
			if r.IntN(4) == 0 { // not so much was taken: from a segment before once more
				places = places[:1+r.IntN(len(places))]
				pos = places[len(places)-1]
			}
			n, last, queue := c.cut(pos-at, room)
			wantN, wantLast, wantQueue, hidden := m.cut(pos, end, room)
			message, whole := slices.BinarySearch(m.ends, pos)
			if whole {
				message++
			}
			if whole || pos == 0 {
				early[message] = hidden
			}
			if early[message] {
				wantQueue = 1
			}
			if n != wantN || last != wantLast || queue != wantQueue {
				t.Fatalf("cut at %d of %d to %d, room %d: %d, %v, queue %d, want %d, %v, %d", pos, at, end, room, n, last, queue, wantN, wantLast, wantQueue)
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
		port := onePort
		if seed%3 > 0 {
			port = func() uint16 { return uint16(0xfff0 + r.IntN(16)/int(seed%3*4)*int(seed%3*4)) }
		}
		newCutModel(sizes, port).drive(t, r, most, room)
	}
}

// Memory of messages is not kept when they are gone.
func TestCutterForgetsSlices(t *testing.T) {
	t.Parallel()
	m := newCutModel([]int{10, 20, 30, 40}, onePort)
	c := cutter{routes: new(routes)}
	c.begin([][]byte{m.stream})
	for pos := 0; pos < len(m.stream); {
		n, _, _ := c.cut(pos, 90)
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
		r := rand.New(rand.NewPCG(seed, 2))
		run := r.IntN(4) // so that some neighbors have the same
		ports := func() uint16 { return uint16(0xfff0 + r.IntN(16)>>run) }
		newCutModel(sizes, ports).drive(t, r, int(most)+1, int(room)+200)
	})
}
