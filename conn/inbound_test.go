package conn

import (
	"testing"

	"github.com/rds-go/rds/internal/wire"
)

// The rule of net/rds/recv.c, rds_recv_incoming: drop what is flagged and
// numbered below the next expected, take everything else and go on from there.
func TestInboundRule(t *testing.T) {
	t.Parallel()
	const flag = wire.FlagRetransmitted
	for _, c := range []struct {
		name  string
		next  uint64
		seq   uint64
		flags uint8
		ok    bool
		after uint64
	}{
		{"the next one", 5, 5, 0, true, 6},
		{"a gap", 5, 500, 0, true, 501},
		{"a gap, flagged", 5, 500, flag, true, 501},
		{"the next one, flagged", 5, 5, flag, true, 6},
		{"the last one again, flagged", 5, 4, flag, false, 5},
		{"an old one, flagged", 5, 0, flag, false, 5},
		{"an old one with other flags", 5, 4, flag | wire.FlagAckRequired, false, 5},
		{"back without the flag", 5, 1, 0, true, 2},
		{"the same without the flag", 5, 4, 0, true, 5},
		{"first of all", 0, 0, 0, true, 1},
		{"first of all, flagged", 0, 0, flag, true, 1},
		{"the largest number", 5, ^uint64(0), 0, true, 0},
		{"a map's flag with others is a message", 5, 4, flag | wire.FlagCongestion, false, 5},
	} {
		in := Inbound{next: c.next}
		h := wire.Header{Sequence: c.seq, Flags: c.flags}
		if ok := in.Accept(&h); ok != c.ok || in.Next() != c.after {
			t.Errorf("%s: %v, then %d", c.name, ok, in.Next())
		}
	}
}

// A new generation begins anew, but for what its link has brought before it
// was known as such: resent messages come before the probe.
func TestInboundGeneration(t *testing.T) {
	t.Parallel()
	var in Inbound
	take := func(seq uint64, flags uint8, want bool) {
		t.Helper()
		if in.Accept(&wire.Header{Sequence: seq, Flags: flags}) != want {
			t.Errorf("message %d: %v", seq, !want)
		}
	}
	const again = wire.FlagRetransmitted
	in.Begin(0)
	take(1000, 0, true)

	in.Begin(0) // a restarted peer with small numbers
	take(1, 0, true)
	take(900, again, true)
	in.Sync(1) // its probe
	take(900, again, false)
	take(901, again, true)

	in.Begin(1) // another restart: resent messages, then the probe
	take(950, again, true)
	take(951, again, true)
	in.Sync(2)
	take(951, again, false)
	in.Begin(2) // its next link repeats them
	take(950, again, false)
	take(951, again, false)
	in.Begin(3) // the same if the probe that told of it came on another path
	take(951, again, false)
	in.Sync(4)
	take(951, again, false)
	take(952, again, true)

	in.Begin(4) // a restart with small numbers that was heard of elsewhere
	in.Sync(5)
	take(3, again, true)
}
