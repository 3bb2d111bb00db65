package conn

import "slices"

// span is the bytes (from,to] of a link.
type span struct{ from, to uint64 }

// spans is a set of spans that do not overlap: what a peer has acknowledged
// beyond the first byte that it has not. It is a heap, the lowest first, and
// now and then those that touch are made one: so it is bounded by the gaps
// between them, and adding one costs O(log n) on average.
type spans struct {
	heap  []span
	bytes uint64 // in all
	limit int    // length at which to join
	used  bool   // something was put in since it was reset
}

const minSpans = 64

// add puts in one that overlaps no other.
func (s *spans) add(x span) {
	if len(s.heap) >= max(s.limit, minSpans) {
		s.join()
	}
	s.used = true
	s.bytes += x.to - x.from
	s.heap = append(s.heap, x)
	for i := len(s.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if s.heap[up].from <= s.heap[i].from {
			return
		}
		s.heap[up], s.heap[i] = s.heap[i], s.heap[up]
		i = up
	}
}

// join makes one of those that touch.
func (s *spans) join() {
	slices.SortFunc(s.heap, func(a, b span) int {
		if a.from < b.from {
			return -1
		}
		return 1
	})
	n := 0
	for _, x := range s.heap[1:] {
		if s.heap[n].to == x.from {
			s.heap[n].to = x.to
		} else {
			n++
			s.heap[n] = x
		}
	}
	s.heap = s.heap[:n+1]
	s.limit = 2 * len(s.heap)
}

// absorb takes out the spans that begin at or below to and returns how far the
// bytes go that have no gap.
func (s *spans) absorb(to uint64) uint64 {
	for len(s.heap) > 0 && s.heap[0].from <= to {
		x := s.heap[0]
		s.bytes -= x.to - x.from
		to = max(to, x.to)
		last := len(s.heap) - 1
		s.heap[0] = s.heap[last]
		s.heap = s.heap[:last]
		for i := 0; ; {
			k := 2*i + 1
			if k+1 < last && s.heap[k+1].from < s.heap[k].from {
				k++
			}
			if k >= last || s.heap[i].from <= s.heap[k].from {
				break
			}
			s.heap[i], s.heap[k] = s.heap[k], s.heap[i]
			i = k
		}
	}
	return to
}

func (s *spans) reset() { s.heap, s.bytes, s.used = s.heap[:0], 0, false }

// shrink gives the memory of an empty set back.
func (s *spans) shrink() {
	if len(s.heap) == 0 {
		*s = spans{}
	}
}
