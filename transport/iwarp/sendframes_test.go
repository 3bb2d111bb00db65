//go:build !live

package iwarp

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/mpa"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// pieceOf is what one segment carries, as who sees all octets finds it. owner is the message
// of each octet; the message of the first octet has begun before if begun says so.
func pieceOf(owner []int, queues []uint32, begun bool, pos, room int) (n int, last bool, queue uint32) {
	begins := pos == 0 && !begun || pos > 0 && owner[pos] != owner[pos-1]
	ends := func(at int) bool { return at == len(owner) || owner[at] != owner[at-1] }
	queue = queues[owner[pos]]
	for at := pos + 1; begins && at <= len(owner) && at-pos <= room && queues[owner[at-1]] == queue; at++ {
		if ends(at) {
			n = at - pos
		}
	}
	if n > 0 {
		return n, true, queue
	}
	for n < room && pos+n < len(owner) && owner[pos+n] == owner[pos] {
		n++
	}
	return n, ends(pos + n), queue
}

// randomFrames makes frames for five ports, some with a body; their heads lie one behind the other,
// as in a log. owner is the frame of each octet of the stream that they make.
func randomFrames(r *rand.Rand) (frames []transport.Frame, stream []byte, owner []int) {
	grow := func(b []byte, n int) []byte {
		for range n {
			b = append(b, byte(r.Uint32()))
		}
		return b
	}
	log := make([]byte, 0, 1<<20)
	for i := range 1 + r.IntN(30) {
		at := len(log)
		log = grow(log, 48+r.IntN(200))
		f := transport.Frame{Head: log[at:], Port: uint16(r.IntN(5))}
		if r.IntN(2) == 0 {
			f.Body = grow(nil, r.IntN(3000))
		}
		stream = append(append(stream, f.Head...), f.Body...)
		owner = append(owner, slices.Repeat([]int{i}, f.Size())...)
		frames = append(frames, f)
	}
	return frames, stream, owner
}

// Segments of frames are what one finds octet by octet, whatever of them the socket takes,
// and while the peer tells of other queues; the segments of a message go to one queue, and
// each has its number and offset.
func TestSegmentsFindMessages(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := &stream{q: &QP{}, shared: &shared{}}
		x, d, b := s.shared, &s.shared.frames, &s.tx.batch
		x.agreed.Caps = xctl.CapRNR
		b.pool, b.crc = new(buf.Pool), r.IntN(2) == 0
		d.heard.Store(true)
		frames, stream, owner := randomFrames(r)
		var route [5]uint32
		next := map[uint32]uint32{} // number of the message of each queue that comes next
		offset, open := 0, uint32(0)
		run := &d.run
		*run = frameRun{frames: frames, queueOf: func(port uint16) uint32 { return route[port] }}
		pos := 0
		for round := 0; run.left(); round++ {
			if round > 1000 {
				t.Fatalf("seed %d: no end", seed)
			}
			for i := range route {
				route[i] = 1 + uint32(r.IntN(3))
			}
			room := 50 + r.IntN(3000)
			s.tx.ulpdu = room + ddp.UntaggedLen
			b.reset()
			s.addFrames(run)
			queues := make([]uint32, len(frames))
			for i := range frames {
				queues[i] = route[frames[i].Port]
			}
			if offset > 0 {
				queues[owner[pos]] = open
			}
			iov, size := b.slices(nil)
			wire := bytes.Join(iov, nil)
			written := r.IntN(size + 1)
			at := pos
			for _, c := range d.cuts {
				n, last, queue := pieceOf(owner[pos:], queues, offset > 0, at-pos, room)
				if c.n != n || c.last != last || uint32(c.open.queue.num) != queue {
					t.Fatalf("seed %d: at %d, room %d: %d, %v, queue %d; want %d, %v, %d", seed, at, room, c.n, c.last, c.open.queue.num, n, last, queue)
				}
				u := wire[c.start+mpa.HeaderLen:]
				var h ddp.Untagged
				if err := h.Decode(u); err != nil || !bytes.Equal(u[ddp.UntaggedLen:][:n], stream[at:at+n]) || h.Last != last {
					t.Fatalf("seed %d: at %d: %+v (%v), or other octets", seed, at, h, err)
				}
				at += n
			}
			if end, ok := d.unbegun(written); ok {
				b.trim(end)
			}
			cuts := append([]frameCut(nil), d.cuts...)
			d.builtLocked(s, written)
			for _, c := range cuts {
				q := uint32(c.open.queue.num)
				if c.start >= written {
					break
				}
				if c.open.queue.next < next[q]+1 || int(c.open.offset) != offset {
					t.Fatalf("seed %d: a segment of message %d has offset %d, not %d", seed, next[q]+1, c.open.offset, offset)
				}
				pos += c.n
				offset, open = offset+c.n, q
				if c.last {
					next[q]++
					offset = 0
				}
			}
			if int(d.open.offset) != offset || run.done < len(frames) && run.done != owner[pos] {
				t.Fatalf("seed %d: at %d: offset %d, not %d; %d frames taken", seed, pos, d.open.offset, offset, run.done)
			}
		}
		for q, n := range next {
			if l := d.queues[xctl.SRQN(q)]; l.next != n+1 {
				t.Errorf("seed %d: queue %d has %d messages, not %d", seed, q, l.next-1, n)
			}
		}
	}
}
