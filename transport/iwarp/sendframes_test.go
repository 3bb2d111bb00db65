//go:build !live

package iwarp

import (
	"bytes"
	"math/rand/v2"
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
		var (
			frames []transport.Frame
			stream []byte
			owner  []int // frame of each octet
			log    = make([]byte, 0, 1<<20)
		)
		for range 1 + r.IntN(30) {
			at := len(log)
			for range 48 + r.IntN(200) {
				log = append(log, byte(r.Uint32()))
			}
			f := transport.Frame{Head: log[at:], Port: uint16(r.IntN(5))}
			if r.IntN(2) == 0 {
				f.Body = make([]byte, r.IntN(3000))
				for i := range f.Body {
					f.Body[i] = byte(r.Uint32())
				}
			}
			stream = append(append(stream, f.Head...), f.Body...)
			for range f.Size() {
				owner = append(owner, len(frames))
			}
			frames = append(frames, f)
		}
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
				var h ddp.Untagged
				u := wire[c.start+mpa.HeaderLen:]
				if err := h.Decode(u); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(u[ddp.UntaggedLen:][:n], stream[at:at+n]) || h.Last != last {
					t.Fatalf("seed %d: at %d: %+v, or other octets", seed, at, h)
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
