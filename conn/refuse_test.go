package conn

import (
	"testing"

	"github.com/rds-go/rds/internal/wire"
)

// seqOf is the number of the message with a token, which must be queued.
func (o *opBench) seqOf(token uint64) uint64 {
	o.t.Helper()
	for i := range o.paths {
		q := &o.paths[i].q
		for pos := q.first; pos < q.tail; pos++ {
			e := q.at(pos)
			if e.flags&entryHole != 0 {
				continue
			}
			got := e.token
			if e.flags&entryOp != 0 {
				got = o.ops[e.token].token
			}
			if got == token {
				return e.seq
			}
		}
	}
	o.t.Fatalf("message %d is not queued", token)
	return 0
}

// refused has the peer refuse the messages with these tokens.
func (o *opBench) refused(tokens ...uint64) {
	o.t.Helper()
	for _, token := range tokens {
		o.RefusedBy(0, o.seqOf(token), 1, Refused)
		o.check()
	}
}

// A refused message ends with Refused when it is acknowledged, and the others with
// Success, in order.
func TestRefusedIsTheFate(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	for range 5 {
		o.send(nil)
	}
	o.fill(5 * opSize)
	o.refused(2) // the peer is faster than the write's return
	o.wrote(5 * opSize)
	o.refused(4)
	o.fates()
	o.ack()
	o.fates(Fate{Token: 1}, Fate{Token: 2, Status: Refused}, Fate{Token: 3}, Fate{Token: 4, Status: Refused}, Fate{Token: 5})
	if n := o.Counters().SendRefused; n != 2 {
		t.Errorf("%d refused are counted", n)
	}
	o.rest()
}

// Senders that asked for failures alone hear of a refusal.
func TestRefusedIsAFailure(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	o.acct.Charge(0)
	mustEnqueue(t, o.Conn, 0, &Message{Sport: 4000, Dport: 5000, Account: &o.acct, Failure: true})
	o.fill(wire.HeaderSize)
	o.wrote(wire.HeaderSize)
	o.RefusedBy(0, o.paths[0].sequence-1, 1, Refused)
	o.ack()
	o.fates(Fate{Status: Refused})
	o.rest()
}

// A link is lost between the refusal and the acknowledgement: the message ends then, and
// is not sent again. What was not refused is.
func TestRefusedBeforeALoss(t *testing.T) {
	t.Parallel()
	for _, status := range []Status{Refused, Dropped} {
		o := newOpBench(t)
		for range 3 {
			o.send(nil)
		}
		o.write(3)
		o.RefusedBy(0, o.seqOf(2), 1, status)
		o.lose()
		o.fates(Fate{Token: 2, Status: status})
		o.write(2)
		o.probe()
		o.end(1, 3)
	}
}

// The acknowledgement of a refused message was lost with the refusal itself; on the next
// link the peer refuses it again, as one that is resent.
func TestRefusedAgain(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	o.send(nil)
	o.write(1)
	seq := o.seqOf(1)
	o.lose()
	o.fates()
	if o.seqOf(1) != seq {
		t.Fatalf("number %d, not %d", o.seqOf(1), seq)
	}
	o.write(1)
	o.RefusedBy(0, seq, 1, Refused)
	o.probe()
	o.ack()
	o.fates(Fate{Token: 1, Status: Refused})
	o.rest()
}

// The operation's own end comes first: a failed one is the fate, and one that is lost is
// Dropped, for it is not known if it has happened. A silent one cannot be refused.
func TestRefusedBehindAnOperation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		done Status
		lost bool
		want Status
	}{{Success, false, Refused}, {RemoteError, false, RemoteError}, {Success, true, Refused}, {RemoteError, true, RemoteError}} {
		for _, late := range []bool{false, true} { // the operation ends behind the acknowledgement
			if late && c.lost {
				continue
			}
			o := newOpBench(t)
			op := &Operation{}
			o.send(op)
			o.begin(op)
			if !late {
				o.done(op, c.done)
			}
			o.refused(1)
			switch {
			case c.lost:
				o.lose()
			case late:
				o.ack()
				o.fates()
				o.done(op, c.done)
			default:
				o.ack()
			}
			o.fates(Fate{Token: 1, Status: c.want})
			if c.lost {
				o.probe()
			}
			o.rest()
		}
	}
	o := newOpBench(t)
	op, silent := &Operation{}, &Operation{Silent: true}
	for _, op := range []*Operation{nil, op, silent, nil} {
		o.send(op)
		o.begin(op)
	}
	o.RefusedBy(0, o.seqOf(1), 3, Refused)
	o.check()
	o.done(silent, Success)
	o.LinkClosed(epochTime, 1, 0)
	o.fates(Fate{Token: 3}, Fate{Token: 1, Status: Refused}, Fate{Token: 2, Status: Dropped}, Fate{Token: 4, Status: Refused})
	o.check()
}

// A peer may refuse what it never had, what it has acknowledged, and everything at once.
func TestRefusalsOfALiar(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	o.send(nil)
	o.write(1)
	first := o.seqOf(1)
	o.ack()
	o.fates(Fate{Token: 1})
	for range 3 {
		o.send(nil)
	}
	o.fill(3 * opSize)
	o.wrote(opSize)
	o.send(nil)
	refuse := func(first uint64, count uint32, status Status) {
		o.RefusedBy(0, first, count, status)
		o.RefusedBy(3, first, count, status) // a path that is down
		o.check()
	}
	refuse(0, 0, Refused)
	refuse(first, 1, Refused) // acknowledged
	refuse(first+4, 1<<31, Refused)
	refuse(1<<64-1, 1<<32-1, Refused)
	refuse(first+1, 1, Success)
	refuse(first+1, 1, Canceled)
	for pos := o.paths[0].q.first; pos < o.paths[0].q.tail; pos++ {
		if e := o.paths[0].q.at(pos); e.fate() != Success {
			t.Fatalf("number %d has fate %v", e.seq, e.fate())
		}
	}
	refuse(0, 1<<32-1, Refused) // all that was picked; the last was not
	refuse(0, 1<<32-1, Dropped) // said before
	o.fill(3 * opSize)          // of two that are written now the peer has lied
	o.wrote(3 * opSize)
	o.ack()
	o.fates(Fate{Token: 2, Status: Refused}, Fate{Token: 3, Status: Refused}, Fate{Token: 4, Status: Refused}, Fate{Token: 5})
	o.Close()
	refuse(0, 1<<32-1, Refused)
	o.rest()
}

// A message that is canceled has had its fate.
func TestRefusedAfterACancel(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		o := newOpBench(t)
		o.send(nil)
		o.write(1)
		o.Cancel(&o.acct, 0, true)
		o.refused(1)
		o.fates(Fate{Token: 1, Status: Canceled})
		if lost {
			o.lose()
			o.probe()
		} else {
			o.ack()
		}
		o.rest()
	}
}
