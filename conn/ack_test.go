package conn

import (
	"math/rand/v2"
	"testing"

	"github.com/rds-go/rds/internal/wire"
)

// sent writes n messages of 10 bytes on a new link and returns where the first
// begins.
func (o *opBench) sent(n int) (start uint64) {
	o.t.Helper()
	start = o.paths[0].written
	for range n {
		o.send(nil)
	}
	for o.Fill(0, &o.b) {
		o.wrote(o.b.Bytes)
	}
	return start
}

// ranged acknowledges messages [from,to) of those that begin at start.
func (o *opBench) ranged(start uint64, from, to int) {
	o.t.Helper()
	o.AckedRange(0, start+uint64(from)*opSize, start+uint64(to)*opSize)
	o.check()
}

// tokens are the fates of messages that have ended well.
func tokens(list ...uint64) (fates []Fate) {
	for _, n := range list {
		fates = append(fates, Fate{Token: n})
	}
	return fates
}

// Messages inside a range end at once, their memory and their room free; those
// around it wait.
func TestAckedRange(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	start := o.sent(10)
	o.ranged(start, 3, 5)
	o.fates(tokens(4, 5)...)
	if got, want := o.acct.Messages(), 8; got != want {
		t.Errorf("%d messages in the account, not %d", got, want)
	}
	if got, want := o.Queued(), 8*(opSize+entryOverhead); got != want {
		t.Errorf("%d bytes queued, not %d", got, want)
	}
	if got, want := o.Unacked(0), uint64(8*opSize); got != want {
		t.Errorf("%d bytes unacknowledged, not %d", got, want)
	}
	if info := o.PathInfos()[0]; info.Unacked != 8 || len(o.Messages(true, 100)) != 8 {
		t.Errorf("%+v, %d listed", info, len(o.Messages(true, 100)))
	}
	// Where messages are cut in two, only whole ones end.
	o.AckedRange(0, start+5*opSize+1, start+8*opSize-1)
	o.check()
	o.fates(tokens(7)...)
	if got, want := o.Unacked(0), uint64(5*opSize+2); got != want {
		t.Errorf("%d bytes unacknowledged, not %d", got, want)
	}
	// The prefix closes the gap, and ends the message that was cut.
	o.Acked(0, start+5*opSize+1)
	o.check()
	o.fates(tokens(1, 2, 3, 6)...)
	if got, want := o.Unacked(0), uint64(2*opSize+1); got != want {
		t.Errorf("%d bytes unacknowledged, not %d", got, want)
	}
	o.ack()
	o.fates(tokens(8, 9, 10)...)
	o.rest()
}

// Ranges that leave no gap are a prefix, in whatever order they come.
func TestAckedRangesBecomeAPrefix(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	start := o.sent(4)
	end := start + 4*opSize
	o.AckedRange(0, start+30, end-30)
	o.fates(tokens(2, 3)...)
	o.AckedRange(0, end-30, end)
	o.fates()
	o.AckedRange(0, start, start+30)
	o.check()
	o.fates(tokens(1, 4)...)
	o.rest()
}

// What cannot be is ignored, and what the prefix had covered changes nothing.
func TestAckedRangeOfNothing(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	start := o.sent(4)
	for _, r := range [][2]uint64{{start, start}, {start + 1, start}, {start, start + 4*opSize + 1}, {1 << 63, 1<<64 - 1}} {
		o.AckedRange(0, r[0], r[1])
	}
	o.Acked(0, start+2*opSize)
	o.fates(tokens(1, 2)...)
	o.ranged(start, 0, 2)
	o.fates()
	if got := o.Unacked(0); got != 2*opSize {
		t.Errorf("%d bytes unacknowledged", got)
	}
	o.ranged(start, 1, 3) // from is in the prefix
	o.fates(tokens(3)...)
	o.ranged(start, 3, 4)
	o.fates(tokens(4)...)
	o.rest()
}

// What was acknowledged out of order is not sent again on the next link, and
// the rest is, once, in order and with its number.
func TestHolesAreNeverResent(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	start := o.sent(10)
	o.ranged(start, 1, 3)
	o.ranged(start, 5, 6)
	o.ranged(start, 8, 10)
	o.fates(tokens(2, 3, 6, 9, 10)...)
	o.lose()
	o.fill(5*opSize, nil)
	var b []byte
	for _, s := range o.b.Bufs {
		b = append(b, s...)
	}
	first := o.cfg.FirstSequence + 1 // behind the probe
	for _, k := range []uint64{0, 3, 4, 6, 7} {
		var h wire.Header
		if err := h.Decode(b); err != nil || h.Sequence != first+k || !h.Retransmitted() {
			t.Fatalf("%+v, %v, not number %d again", h, err, first+k)
		}
		b = b[opSize:]
	}
	o.wrote(o.b.Bytes)
	o.ack()
	o.fates(tokens(1, 4, 5, 7, 8)...)
	o.rest()
}

// What a link's TCP has acknowledged counts only once the peer's RDS has shown
// that it took the link, out of order too.
func TestAckedRangeBeforeProof(t *testing.T) {
	t.Parallel()
	for _, proved := range []bool{false, true} {
		o := newOpBench(t)
		o.paths[0].proved = false
		start := o.sent(4)
		o.AckedRange(0, start+20, start+opSize)
		o.ranged(start, 2, 3)
		o.AckedRange(0, start, start+20)
		o.fates()
		if got := o.Unacked(0); got != 2*opSize {
			t.Errorf("%d bytes unacknowledged", got)
		}
		if proved {
			o.Proved(epochTime, 0)
			o.check()
			o.fates(tokens(1, 3)...)
			continue
		}
		o.lose()
		o.fates()
		o.fill(4*opSize, nil)
	}
}

// Ranges and operations: a message inside a range waits for its operation, one
// whose operation was done before does not.
func TestAckedRangeWithOperations(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	start := o.paths[0].written
	ops := []*Operation{{}, {}, {}}
	for _, op := range ops {
		o.send(op)
		o.begin(op)
	}
	o.done(ops[1], RemoteError)
	o.ranged(start, 1, 3)
	o.fates(Fate{Token: 2, Status: RemoteError})
	o.done(ops[2], Success)
	o.fates(Fate{Token: 3})
	o.done(ops[0], Success)
	o.ranged(start, 0, 1)
	o.fates(Fate{Token: 1})
	o.rest()
}

// A canceled message that was written goes with its range.
func TestAckedRangeOfCanceledMessages(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	start := o.sent(4)
	o.Cancel(&o.acct, 0, true)
	o.TakeFates(nil)
	o.ranged(start, 2, 4)
	if got, want := o.Queued(), 2*(opSize+entryOverhead); got != want {
		t.Errorf("%d bytes queued, not %d", got, want)
	}
	o.ranged(start, 0, 2)
	o.rest()
}

// The barrier between path 0's early messages and those behind them stays where
// it is when holes go.
func TestHolesBeforeTheBarrier(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	start := o.sent(10)
	o.setBarrier(epochTime)
	o.sent(10)
	early := func(want int) {
		t.Helper()
		q := &o.paths[0].q
		n := 0
		for pos := q.first; pos < q.tail; pos++ {
			if e := q.at(pos); e.flags&entryHole == 0 && e.token <= 10 {
				n++
				if pos >= o.barrier {
					t.Fatalf("message %d at %d is behind the barrier at %d", e.token, pos, o.barrier)
				}
			} else if e.flags&entryHole == 0 && pos < o.barrier {
				t.Fatalf("message %d at %d is before the barrier at %d", e.token, pos, o.barrier)
			}
		}
		if n != want {
			t.Fatalf("%d early messages, not %d", n, want)
		}
	}
	start2 := start + 10*opSize + wire.HeaderSize // behind the probe
	for k := 9; k > 0; k-- {
		o.ranged(start, k, k+1)
		early(k)
		o.ranged(start2, k, k+1)
		early(k)
	}
	o.closeRanks(&o.paths[0])
	early(1)
	o.ranged(start, 0, 1)
	early(0)
}

// However many are acknowledged in whatever order, holes are no more than what
// they lie between, and spans no more than twice that.
func TestHolesAndSpansAreBounded(t *testing.T) {
	t.Parallel()
	const n = 4000
	rng := rand.New(rand.NewPCG(1, 2))
	for _, order := range []struct {
		name string
		list []int
	}{
		{"random", rng.Perm(n)},
		{"from the end", reversed(n)},
		{"every other first", everyOther(n)},
	} {
		t.Run(order.name, func(t *testing.T) {
			o := &opBench{Conn: newConn(t, Config{}), t: t, link: 1}
			o.acct.SetLimit(1 << 30)
			up(t, o.Conn, 1)
			o.Acked(0, o.paths[0].written)
			p := &o.paths[0]
			start := p.written
			for range n {
				o.acct.Charge(10)
				if _, err := o.Enqueue(epochTime, 0, &Message{Account: &o.acct, Payload: make([]byte, 10)}); err != nil {
					t.Fatal(err)
				}
			}
			for o.Fill(0, &o.b) {
				o.Wrote(0, o.b.Bytes)
			}
			gaps, most := 0, 0 // stretches acknowledged, now and at most
			acked := make([]bool, n+1)
			for i, k := range order.list {
				acked[k] = true
				switch before, after := k > 0 && acked[k-1], acked[k+1]; {
				case !before && !after:
					gaps++
				case before && after:
					gaps--
				}
				o.AckedRange(0, start+uint64(k)*opSize, start+uint64(k+1)*opSize)
				if got, want := o.Unacked(0), uint64(n-i-1)*opSize; got != want {
					t.Fatalf("%d bytes unacknowledged after %d messages, not %d", got, i+1, want)
				}
				if i%100 == 0 {
					o.check()
				}
				most = max(most, gaps)
				if len(p.ahead.heap) > max(minSpans, 2*most) {
					t.Fatalf("%d spans with %d gaps", len(p.ahead.heap), most)
				}
			}
			o.rest()
		})
	}
}

func reversed(n int) (list []int) {
	for k := range n {
		list = append(list, n-1-k)
	}
	return list
}

func everyOther(n int) (list []int) {
	for k := 1; k < n; k += 2 {
		list = append(list, k)
	}
	for k := 0; k < n; k += 2 {
		list = append(list, k)
	}
	return list
}
