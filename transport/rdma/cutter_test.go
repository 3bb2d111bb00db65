package rdma

import (
	"math/rand/v2"
	"testing"

	"github.com/rds-go/rds/transport"
)

// piece is what one segment carries, as who sees all octets finds it.
func piece(owner []int, queues []uint32, pos, room int) (n int, last bool, queue uint32) {
	end := func(at int) bool { return at == len(owner) || at == 0 || owner[at] != owner[at-1] }
	queue = queues[owner[pos]]
	if begins := pos > 0 && owner[pos] != owner[pos-1] || pos == 0 && owner[0] == 0; begins {
		for at := pos + 1; at <= len(owner) && at-pos <= room && queues[owner[at-1]] == queue; at++ {
			if end(at) {
				n = at - pos
			}
		}
		if n > 0 {
			return n, true, queue
		}
	}
	for n < room && pos+n < len(owner) && owner[pos+n] == owner[pos] {
		n++
	}
	return n, end(pos + n), queue
}

// A cutter is asked for segments of any room, for some of them again because they were not
// taken, and while the peer tells of other queues. What it says is what one finds octet by
// octet, and the segments of a message go to one queue.
func TestCutterFindsMessages(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		var (
			rs     routes
			frames []transport.Frame
			queues []uint32
			owner  []int // frame of each octet; the first one has lost some
		)
		for p := range uint16(4) {
			rs.home(p, uint32(r.IntN(3))+1)
		}
		skip := 0
		for i := range 1 + r.IntN(30) {
			f := transport.Frame{Head: make([]byte, 48+r.IntN(200)), Body: make([]byte, r.IntN(2)*r.IntN(3000)), Port: uint16(r.IntN(5))}
			if i == 0 && r.IntN(2) == 0 {
				skip = 1 + r.IntN(f.Size()-1)
			}
			frames = append(frames, f)
			queues = append(queues, rs.queue(f.Port))
		}
		if skip > 0 {
			queues[0] = 77 // the queue that it began with, which is not where its port is now
		}
		for i, f := range frames {
			for range f.Size() {
				owner = append(owner, i)
			}
		}
		owner = owner[skip:]
		if skip > 0 { // so that piece sees that a message does not begin
			owner = append([]int{0}, owner...)
		}
		first := min(skip, 1)
		var c cutter
		c.begin(&rs, frames, skip, 77)
		rs.home(0, 9)
		room := 50 + r.IntN(3000)
		places := []int{0}
		for pos := 0; pos+first < len(owner); {
			n, last, queue := c.cut(pos, room)
			if wantN, wantLast, want := piece(owner, queues, pos+first, room); n != wantN || last != wantLast || queue != want {
				t.Fatalf("seed %d: at %d, room %d: %d, %v, queue %d; want %d, %v, %d", seed, pos, room, n, last, queue, wantN, wantLast, want)
			}
			pos += n
			places = append(places, pos)
			if r.IntN(4) == 0 { // not so much was taken
				places = places[:1+r.IntN(len(places))]
				pos = places[len(places)-1]
				room = 50 + r.IntN(3000)
			}
		}
	}
}
