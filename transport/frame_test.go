package transport

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
)

// messages makes frames whose content tells where each octet belongs. Some lie behind one
// another in memory.
func messages(r *rand.Rand, n int) (frames []Frame, stream []byte) {
	log := make([]byte, 0, n*200)
	for range n {
		f := Frame{}
		at := len(log)
		for range 1 + r.IntN(100) {
			log = append(log, byte(r.Uint32()))
		}
		f.Head = log[at:]
		if r.IntN(3) == 0 {
			f.Body = make([]byte, r.IntN(300))
			for i := range f.Body {
				f.Body[i] = byte(r.Uint32())
			}
		}
		if r.IntN(4) == 0 {
			log = append(log, 0) // the next one does not lie behind this one
		}
		stream = append(append(stream, f.Head...), f.Body...)
		frames = append(frames, f)
	}
	return frames, stream
}

// A link that takes as many octets and slices as it happens brings all of a stream, once and
// in order, and says how much it has taken.
func TestStreamBringsAllFrames(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 7))
		most, full := 2+r.IntN(5000), false
		frames, want := messages(r, 1+r.IntN(min(most, 3000))) // few of them where they leave in small pieces
		var got []byte
		writev := func(bufs [][]byte) (int, error) {
			if len(bufs) > MaxSlices {
				t.Fatalf("%d slices", len(bufs))
			}
			room := r.IntN(most)
			n := 0
			for _, b := range bufs {
				k := min(len(b), room-n)
				got = append(got, b[:k]...)
				n += k
				full = full || k < len(b)
			}
			return n, nil
		}
		s := Stream{Writev: writev}
		part := 0
		for len(frames) > 0 {
			before := len(got)
			full = false
			n, err := s.Send(frames)
			if err != nil || full != (n.Frames < len(frames)) {
				t.Fatalf("seed %d: %+v of %d frames, %v", seed, n, len(frames), err)
			}
			octets := n.Octets
			for i := range n.Frames {
				octets += frames[i].Size() - part
				part = 0
			}
			if part += n.Octets; octets != len(got)-before || part > 0 && part >= frames[n.Frames].Size() {
				t.Fatalf("seed %d: %+v is %d octets, and %d were written", seed, n, octets, len(got)-before)
			}
			frames = frames[n.Frames:]
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("seed %d: %d octets of %d, or others", seed, len(got), len(want))
		}
	}
}

// Messages that lie behind one another share a slice.
func TestFlattenJoinsWhatLiesTogether(t *testing.T) {
	t.Parallel()
	log := make([]byte, 300)
	frames := []Frame{{Head: log[:100]}, {Head: log[100:200]}, {Head: log[200:250], Body: make([]byte, 5)}, {Head: log[250:300]}, {Head: make([]byte, 7), Ops: []*Operation{{}}}}
	bufs, n, size := Flatten(nil, frames, 30, MaxSlices)
	if len(bufs) != 3 || len(bufs[0]) != 220 || n != 4 || size != 275 {
		t.Errorf("%d slices, %d frames, %d octets", len(bufs), n, size)
	}
	if bufs, n, size = Flatten(nil, frames[2:], 52, 2); len(bufs) != 1 || n != 1 || size != 3 {
		t.Errorf("%d slices, %d frames, %d octets", len(bufs), n, size)
	}
}

// Operations are not for links that carry a stream. What is in front of them is sent.
func TestStreamCarriesNoOperations(t *testing.T) {
	t.Parallel()
	s := Stream{Writev: func([][]byte) (int, error) { return 48, nil }}
	frames := []Frame{{Head: make([]byte, 48)}, {Head: make([]byte, 48), Ops: []*Operation{{}}}}
	n, err := s.Send(frames)
	if about := new(FrameError); n != (Taken{Frames: 1}) || !errors.As(err, &about) {
		t.Errorf("%+v, %v", n, err)
	}
}
