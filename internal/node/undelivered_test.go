//go:build !live

package node

import (
	"slices"
	"testing"

	"github.com/rds-go/rds/internal/socket"
)

// Of what a socket has, the messages of a path's present burst are found, in order: not
// those of other peers and paths between them. Those of earlier bursts are not looked at.
func TestUndeliveredAreThoseOfTheBurst(t *testing.T) {
	t.Parallel()
	var s Socket
	s.Queue.Out = []socket.Item{{Peer: 1, Path: 2, Seq: 5000}, {Peer: 1, Path: 2, Seq: 999}} // of an earlier generation; of the last burst
	for seq := uint64(1000); seq < 1010; seq++ {
		items := []socket.Item{{Peer: 1, Path: 2, Seq: seq}, {Peer: 2, Path: 2, Seq: seq - 500}, {Peer: 1, Path: 1, Seq: 7}}
		if seq < 1005 {
			s.Queue.Out = append(s.Queue.Out, items...)
		} else {
			s.Queue.In = append(s.Queue.In, items...)
		}
	}
	if got, want := s.since(1, 2, 1000), []uint64{1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008, 1009}; !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}
