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
		in := Inbound{cur: Received{Next: c.next}}
		h := wire.Header{Sequence: c.seq, Flags: c.flags}
		if ok := in.Accept(&h); ok != c.ok || in.Next() != c.after {
			t.Errorf("%s: %v, then %d", c.name, ok, in.Next())
		}
	}
}

// inboundTest takes messages of one path.
type inboundTest struct {
	*testing.T
	Inbound
}

func (in *inboundTest) take(seq uint64, flags uint8, want bool) {
	in.Helper()
	if in.Accept(&wire.Header{Sequence: seq, Flags: flags, Sport: 4000, Dport: 5000}) != want {
		in.Errorf("message %d: %v", seq, !want)
	}
	if want {
		in.Took(1)
	}
}

const again = wire.FlagRetransmitted

// A new generation begins anew, but for what its link has brought before it
// was known as such: resent messages come before the probe.
func TestInboundGeneration(t *testing.T) {
	t.Parallel()
	in := inboundTest{T: t}
	in.Begin()
	in.State(1)
	in.take(1000, 0, true)

	in.Begin() // a restarted peer with small numbers
	in.take(1, 0, true)
	in.State(2) // its probe
	in.take(1, again, false)
	in.take(2, again, true)
	in.take(3, 0, true)
	in.Begin() // its next link repeats them before the probe
	in.take(2, again, false)
	in.take(3, again, false)
	in.take(4, again, true)
	in.State(2)
	in.take(4, again, false)

	in.Begin() // another restart with small numbers, which its transport states first
	in.State(3)
	in.take(3, again, true)
}

// An impostor that states other generations, and sends messages of its own, does not make
// the sequence of the honest peer forgotten, whichever of them comes first on the path.
func TestInboundRemembersGenerations(t *testing.T) {
	t.Parallel()
	in := inboundTest{T: t}
	in.Begin()
	in.State(7)
	for seq := range uint64(100) {
		in.take(1000+seq, 0, true)
	}
	for g := range uint32(20) {
		in.Begin() // the impostor
		if g%2 == 0 {
			in.take(5, 0, true) // before it states a generation
		}
		in.State(100 + g)
		in.take(6, 0, true)
		in.take(7, again, true)
		in.Begin() // an impostor that sends nothing
		in.State(200 + g)

		in.Begin() // the honest peer
		in.State(7)
		in.take(1090, again, false)
		in.take(1099, again, false)
		in.take(1100+uint64(g), again, true)
		in.take(1100+uint64(g), again, false)
	}
	n := 0
	in.Others(func(r Received) { n++ })
	if n == 0 || n >= Generations {
		t.Errorf("%d other generations are remembered", n)
	}
}

// Before the generation is stated the sequences may disagree about a message that is sent
// again: then it has to wait.
func TestInboundDoubt(t *testing.T) {
	t.Parallel()
	in := inboundTest{T: t}
	doubt := func(seq uint64, flags uint8, expected uint32, want bool) {
		t.Helper()
		if in.Doubtful(&wire.Header{Sequence: seq, Flags: flags, Dport: 5000}, expected) != want {
			t.Errorf("message %d: doubtful is %v", seq, !want)
		}
	}
	in.Begin()
	doubt(1, again, 0, false) // nothing is known yet
	in.State(7)
	in.take(1000, 0, true)
	in.Begin()
	doubt(1000, again, 7, false)
	doubt(1000, 0, 8, false)
	doubt(1001, again, 8, false) // new to both
	doubt(1000, again, 8, true)  // old to 7, and 8 would be new
	in.State(8)                  // an impostor, or a restarted peer
	doubt(1000, again, 8, false)
	in.take(5, 0, true)
	in.Begin()
	doubt(3, again, 8, false)
	doubt(1000, again, 8, true)
	doubt(1001, again, 8, false)
	in.State(7)
	in.take(1000, again, false)
}

// What came without a statement is remembered where another sequence goes on: the messages
// that come again are the peer's, whose generation had not been known on this path.
func TestInboundGoesOnAfterNoStatement(t *testing.T) {
	t.Parallel()
	const first = timeNumbers + 1000
	for _, behind := range []bool{false, true} { // a link without messages is behind the one that brought them
		was := inboundTest{T: t}
		was.Begin()
		was.State(100) // an impostor, which sends nothing
		was.Begin()
		was.take(first, again, true)
		was.take(first+1, again, true)
		if behind {
			was.Begin()
			was.State(101)
		}
		in := inboundTest{T: t, Inbound: InboundFrom(Received{Generation: 100, Next: first + 2, Taken: 2})}
		in.Loosen(was.Loose())
		in.Begin()
		in.State(7)
		in.take(first, again, false)
		in.take(first+1, again, false)
		in.take(first+2, again, true)
		if in.Loose() != 0 {
			t.Error("what has come again is this generation's, and counts as nobody's")
		}
	}
}
