package conn

import "testing"

// With its link a message is lost whose operation was begun there, in whatever
// state: it is never repeated. One that was not begun waits for the next link.
func TestBegunOperationIsDroppedWithItsLink(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	acked, written, ready, failed, silent := &Operation{}, &Operation{}, &Operation{}, &Operation{}, &Operation{Silent: true}
	held, queued := &Operation{Fence: true}, &Operation{}
	o.send(acked)
	o.begin(acked)
	o.ack()
	for _, op := range []*Operation{written, ready, failed, silent} {
		o.send(op)
		o.begin(op)
	}
	o.done(ready, Success)
	o.done(failed, RemoteError)
	plain := o.send(nil)
	o.write(1)
	o.send(held)
	o.begin(held)
	last := o.send(queued)
	o.lose()
	o.fates(Fate{Token: 1, Status: Dropped}, Fate{Token: 2, Status: Dropped}, Fate{Token: 3, Status: Dropped},
		Fate{Token: 4, Status: RemoteError}, Fate{Token: 5, Status: Dropped}, Fate{Token: 7, Status: Dropped})
	for _, op := range []*Operation{acked, written, held, silent} {
		o.done(op, Dropped) // the link says so too, late
	}
	o.fill(opSize) // the plain one
	o.wrote(opSize)
	o.probe()
	o.begin(queued)
	o.done(queued, Success)
	o.ack()
	o.fates(Fate{Token: plain}, Fate{Token: last})
	o.idle()
	o.rest()
}

// A link that cannot carry operations fails the message and keeps its place.
func TestOperationRefused(t *testing.T) {
	t.Parallel()
	for _, op := range []*Operation{{}, {Fence: true}, {Silent: true}} {
		o := newOpBench(t)
		last := &Operation{Silent: true}
		o.send(op)
		o.send(last)
		o.show(op)
		o.wrote(0)
		o.OpRefused(op)
		o.fates(Fate{Token: 1, Status: OtherError})
		o.show(last)
		o.wrote(0)
		o.OpRefused(last)
		o.fates(Fate{Token: 2, Status: OtherError})
		o.rest()
	}
}

// Cancel of a message with an operation, in each of its states: the fate is told
// at once, and what the link has begun ends by itself.
func TestCancelOfAnOperation(t *testing.T) {
	t.Parallel()
	type step func(*opBench, *Operation)
	shown := func(o *opBench, op *Operation) { o.fill(opSize, op) }
	begun := func(o *opBench, op *Operation) { o.begin(op) }
	done := func(o *opBench, op *Operation) { o.done(op, Success) }
	nothing := func(*opBench, *Operation) {}
	for _, c := range []struct {
		name          string
		op            *Operation
		before, after step
	}{
		{"queued", &Operation{}, nothing, nothing},
		{"shown, not taken", &Operation{}, shown, func(o *opBench, _ *Operation) { o.wrote(0) }},
		{"shown, taken, message not begun", &Operation{}, shown, func(o *opBench, op *Operation) {
			o.took()
			o.wrote(0)
			o.fill(opSize) // the link expects its message
			o.wrote(opSize)
			o.ack()
			o.done(op, RemoteError)
		}},
		{"held", &Operation{Fence: true}, begun, func(o *opBench, op *Operation) {
			o.idle()
			o.done(op, Success)
		}},
		{"fence over", &Operation{Fence: true}, func(o *opBench, op *Operation) {
			o.begin(op)
			o.done(op, Success)
		}, nothing},
		{"silent, begun", &Operation{Silent: true}, begun, done},
		{"acknowledged, not done", &Operation{}, func(o *opBench, op *Operation) {
			o.begin(op)
			o.ack()
		}, done},
		{"written, then the link lost", &Operation{}, begun, func(o *opBench, op *Operation) {
			o.lose()
			o.done(op, Dropped)
			o.probe()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOpBench(t)
			o.send(c.op)
			c.before(o, c.op)
			if n, _ := o.Cancel(&o.acct, 0, true); n != 1 {
				t.Fatalf("%d messages canceled", n)
			}
			o.check()
			o.fates(Fate{Token: 1, Status: Canceled})
			c.after(o, c.op)
			o.idle()
			o.rest()
		})
	}
}

// After Close nothing of an operation is left, and its end is ignored.
func TestCloseForgetsOperations(t *testing.T) {
	t.Parallel()
	o := newOpBench(t)
	quiet, held, queued := &Operation{}, &Operation{Fence: true}, &Operation{}
	o.send(quiet)
	o.begin(quiet)
	o.ack()
	o.send(held)
	o.send(queued)
	o.fill(0, held)
	o.Conn.Close()
	o.took()
	o.wrote(0)
	o.fates(Fate{Token: 1, Status: Canceled}, Fate{Token: 2, Status: Canceled}, Fate{Token: 3, Status: Canceled})
	for _, op := range []*Operation{quiet, held, queued} {
		o.done(op, Success)
	}
	o.rest()
}
