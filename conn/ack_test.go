package conn

import (
	"math/rand/v2"
	"testing"

	"github.com/rds-go/rds/internal/wire"
)

// written queues and writes, one by one, what kinds says: a message for "m", one
// with an operation for "o", a silent operation for "s". It returns where the
// first begins, and the operations by place.
func (o *opBench) written(kinds string) (start uint64, ops []*Operation) {
	o.t.Helper()
	start = o.paths[0].written
	for _, kind := range kinds {
		var op *Operation
		if kind != 'm' {
			op = &Operation{Silent: kind == 's'}
		}
		ops = append(ops, op)
		o.send(op)
		o.begin(op)
	}
	return start, ops
}

// tokens are the fates of messages that have ended well.
func tokens(list ...uint64) (fates []Fate) {
	for _, n := range list {
		fates = append(fates, Fate{Token: n})
	}
	return fates
}

// What cannot be is ignored, and what was acknowledged before changes nothing.
func TestAckedOfNothing(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	start, _ := o.written("mmmm")
	for _, total := range []uint64{0, start, start + 4*opSize + 1, 1<<64 - 1} {
		o.Acked(0, total)
		o.check()
		o.fates()
	}
	o.Acked(0, start+2*opSize)
	o.fates(tokens(1, 2)...)
	for _, total := range []uint64{start + 2*opSize, start + opSize} {
		o.Acked(0, total)
		o.fates()
		if got := o.Unacked(0); got != 2*opSize {
			t.Errorf("%d bytes unacknowledged", got)
		}
	}
	o.ack()
	o.fates(tokens(3, 4)...)
	o.rest()
}

// What a link's TCP has acknowledged counts only once the peer's RDS has shown
// that it took the link, but then at once.
func TestAckedBeforeProof(t *testing.T) {
	t.Parallel()
	for _, proved := range []bool{false, true} {
		o := newOpBench(t)
		o.paths[0].proved = false
		o.written("mmmm")
		o.Acked(0, o.paths[0].written-opSize)
		o.check()
		o.fates()
		if got := o.Unacked(0); got != opSize {
			t.Errorf("%d bytes unacknowledged", got)
		}
		if proved {
			o.Proved(epochTime, 0)
			o.check()
			o.fates(tokens(1, 2, 3)...)
			o.ack()
			o.fates(tokens(4)...)
			o.rest()
			continue
		}
		o.lose()
		o.fates()
		o.fill(4 * opSize)
	}
}

// The barrier between path 0's early messages and those behind them stays where
// it is when holes go.
func TestHolesBeforeTheBarrier(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	_, first := o.written("ssssssssss")
	o.setBarrier(epochTime)
	o.probe()
	_, second := o.written("ssssssssss")
	early := func(want int) {
		t.Helper()
		q := &o.paths[0].q
		n := 0
		for pos := q.first; pos < q.tail; pos++ {
			e := q.at(pos)
			if e.flags&entryHole != 0 {
				continue
			}
			token := o.ops[e.token].token
			if token <= 10 {
				n++
			}
			if (token <= 10) != (pos < o.barrier) {
				t.Fatalf("message %d is at %d, the barrier at %d", token, pos, o.barrier)
			}
		}
		if n != want {
			t.Fatalf("%d early messages, not %d", n, want)
		}
	}
	for k := 9; k > 0; k-- {
		o.done(first[k], Success)
		early(k)
		o.done(second[k], Success)
		early(k)
	}
	o.closeRanks(&o.paths[0])
	early(1)
	o.done(first[0], Success)
	early(0)
}

// However many end in whatever order, holes are no more than what they lie
// between.
func TestHolesAreBounded(t *testing.T) {
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
			o := newOpBench(t)
			p := &o.paths[0]
			var ops []*Operation
			for k := range n {
				op := &Operation{Silent: k%3 == 0}
				ops = append(ops, op)
				o.acct.Charge(0)
				mustEnqueue(t, o.Conn, 0, &Message{Account: &o.acct, Op: op})
				o.Fill(0, &o.b)
				o.Wrote(0, all(&o.b))
			}
			left, waiting := n, 0 // messages that have not ended, messages that wait for their acknowledgement alone
			for i, k := range order.list {
				if i == n/2 {
					o.ack()
					left, waiting = left-waiting, 0
				}
				o.OpDone(0, ops[k], Success)
				if ops[k].Silent || i >= n/2 {
					left--
				} else {
					waiting++
				}
				if got, want := o.Queued(), left*(wire.HeaderSize+entryOverhead); got != want {
					t.Fatalf("%d bytes queued after %d operations, not %d", got, i+1, want)
				}
				if p.holes > p.q.len()/2 {
					t.Fatalf("%d holes in %d places after %d operations", p.holes, p.q.len(), i+1)
				}
				if i%100 == 0 {
					o.check()
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
