package rds

import (
	"slices"
	"testing"
)

// Of what a socket has, the messages of a path's present burst are found, in order: not
// those of other peers and paths between them. Those of earlier bursts are not looked at.
func TestUndeliveredAreThoseOfTheBurst(t *testing.T) {
	t.Parallel()
	var s nodeSocket
	s.q.out = []recvItem{{peer: 1, path: 2, seq: 5000}, {peer: 1, path: 2, seq: 999}} // of an earlier generation; of the last burst
	for seq := uint64(1000); seq < 1010; seq++ {
		items := []recvItem{{peer: 1, path: 2, seq: seq}, {peer: 2, path: 2, seq: seq - 500}, {peer: 1, path: 1, seq: 7}}
		if seq < 1005 {
			s.q.out = append(s.q.out, items...)
		} else {
			s.q.in = append(s.q.in, items...)
		}
	}
	if got, want := s.since(1, 2, 1000), []uint64{1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008, 1009}; !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}
