//go:build !live

package peer

import (
	"bytes"
	"testing"
)

func messages(s Stream) [][]byte {
	g := newGenerator(s)
	var list [][]byte
	for range s.Count {
		list = append(list, bytes.Clone(g.next()))
	}
	return list
}

func TestEqualStreamsAreEqual(t *testing.T) {
	s := Stream{Seed: 1, Count: 500, Large: 3}
	a, b := messages(s), messages(s)
	large, empty, longest := 0, 0, 0
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			t.Fatalf("message %d differs", i)
		}
		if len(a[i]) >= minLarge {
			large++
		}
		if len(a[i]) == 0 {
			empty++
		}
		longest = max(longest, len(a[i]))
	}
	if large != 3 || empty == 0 || longest != MaxMessage {
		t.Errorf("%d large messages, %d empty ones, the longest of %d bytes", large, empty, longest)
	}
}

func TestStreamShowsWhatIsWrong(t *testing.T) {
	s := Stream{Seed: 2, Count: 50, Size: 64}
	good := messages(s)
	altered := bytes.Clone(good[7])
	altered[63] ^= 1
	for name, bad := range map[string][][]byte{
		"lost":      append(append([][]byte{}, good[:7]...), good[8:]...),
		"doubled":   append(append(append([][]byte{}, good[:8]...), good[7]), good[8:]...),
		"swapped":   append(append([][]byte{}, good[:7]...), good[8], good[7]),
		"altered":   append(append([][]byte{}, good[:7]...), altered),
		"cut":       append(append([][]byte{}, good[:7]...), good[7][:63]),
		"elsewhere": messages(Stream{Seed: 3, Count: 50, Size: 64}),
	} {
		g := newGenerator(s)
		var err error
		for i := 0; i < len(bad) && i < s.Count && err == nil; i++ {
			err = g.check(bad[i])
		}
		if err == nil {
			t.Errorf("%s: not noticed", name)
		}
	}
}

// Where order does not matter, a message that comes twice is noticed, and one that is not
// of the stream.
func TestOnceEach(t *testing.T) {
	t.Parallel()
	s := Stream{Seed: 1, Count: 3, Size: 64}
	var list [][]byte
	for g := newGenerator(s); len(list) < s.Count; {
		list = append(list, bytes.Clone(g.next()))
	}
	check := onceEach(s)
	for _, i := range []int{2, 0, 1} {
		must(t, check(list[i]))
	}
	last := bytes.Clone(list[2])
	last[7]++
	for name, b := range map[string][]byte{"again": list[1], "not of the stream": last, "longer": make([]byte, 65)} {
		if check(b) == nil {
			t.Errorf("%s: not noticed", name)
		}
	}
}
