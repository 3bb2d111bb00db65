package peer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

// MaxMessage is the largest message of a stream: RDS_MAX_MSG_SIZE of
// net/rds/rds.h.
const MaxMessage = 1 << 20

// minLarge is the smallest of the large messages.
const minLarge = 64 << 10

// Stream describes a sequence of messages; equal streams are equal byte for
// byte.
type Stream struct {
	Seed  uint64
	Count int
	// Large is how many of the messages have 64 KiB to 1 MiB, spread evenly;
	// the first of them has exactly 1 MiB. The others have 0 to 4 KiB.
	Large int
	// Size, if not 0, is the size of every message instead.
	Size int
}

// generator makes the messages of a stream one after the other.
type generator struct {
	stream Stream
	rng    *rand.Rand
	block  []byte // random bytes that messages are cut from
	buf    []byte
	seq    int
	large  int
}

// spread is by how much the cuts of equally long messages differ in place.
const spread = 64 << 10

func newGenerator(s Stream) *generator {
	g := &generator{stream: s, rng: rand.New(rand.NewPCG(s.Seed, uint64(s.Count)))}
	longest := max(4<<10, s.Size)
	if s.Large > 0 {
		longest = MaxMessage
	}
	g.block = make([]byte, 0, longest+spread+8)
	for len(g.block) < longest+spread {
		g.block = binary.LittleEndian.AppendUint64(g.block, g.rng.Uint64())
	}
	g.buf = make([]byte, longest)
	return g
}

// next returns the next message, valid until the next call. Messages of at
// least 8 bytes start with their number in the stream.
func (g *generator) next() []byte {
	size, cut := g.size(), g.rng.IntN(spread)
	b := g.buf[:copy(g.buf[:size], g.block[cut:])]
	if size >= 8 {
		binary.BigEndian.PutUint64(b, uint64(g.seq))
	}
	g.seq++
	return b
}

func (g *generator) size() int {
	s := g.stream
	switch {
	case s.Size > 0:
		return s.Size
	case g.large < s.Large && g.seq >= g.large*s.Count/s.Large:
		g.large++
		if g.large == 1 {
			return MaxMessage
		}
		return minLarge + g.rng.IntN(MaxMessage-minLarge+1)
	}
	switch class := g.rng.IntN(10); {
	case class == 0:
		return 0
	case class < 7:
		return 1 + g.rng.IntN(256)
	default:
		return 257 + g.rng.IntN(4096-256)
	}
}

// onceEach returns a check that each message of a stream comes once, in any order.
func onceEach(s Stream) func(got []byte) error {
	seen := make([]bool, s.Count)
	return func(got []byte) error {
		if len(got) != s.Size || len(got) < 8 {
			return fmt.Errorf("PROMISE: a message of %d bytes, want %d", len(got), s.Size)
		}
		i := binary.BigEndian.Uint64(got)
		if i >= uint64(s.Count) || seen[i] {
			return fmt.Errorf("PROMISE: message %d of %d comes again, or there is none", i, s.Count)
		}
		seen[i] = true
		return nil
	}
}

// check compares a received message with the next of the stream.
func (g *generator) check(got []byte) error {
	seq := g.seq
	want := g.next()
	if bytes.Equal(got, want) {
		return nil
	}
	if len(got) >= 8 {
		return fmt.Errorf("PROMISE: message %d of seed %d: got %d bytes that start with number %d, want %d bytes",
			seq, g.stream.Seed, len(got), binary.BigEndian.Uint64(got), len(want))
	}
	return fmt.Errorf("PROMISE: message %d of seed %d: got %d bytes %x, want %d bytes", seq, g.stream.Seed, len(got), got, len(want))
}
