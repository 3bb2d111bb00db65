package conn

import (
	"slices"
	"testing"

	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

// opBench is a core whose path 0 is up, and what its owner has.
type opBench struct {
	*Conn
	t    testing.TB
	acct Account
	b    Batch
	room int    // operations that the link takes with the batch at hand
	last uint64 // token
	link LinkID
}

func newOpBench(t testing.TB) *opBench {
	o := &opBench{Conn: newConn(t, Config{}), t: t, link: 1}
	o.acct.SetLimit(1 << 30)
	up(t, o.Conn, 1)
	o.Acked(0, o.paths[0].written)
	return o
}

// send queues a message of 10 bytes, or a silent operation, and returns its
// token.
func (o *opBench) send(op *Operation) uint64 {
	o.t.Helper()
	return o.queue(0, Message{Dport: 5000, Op: op})
}

// queue is send on a path, for a message of which m says the rest.
func (o *opBench) queue(path int, m Message) uint64 {
	o.t.Helper()
	o.last++
	m.Sport, m.Account, m.Token, m.Notify = 4000, &o.acct, o.last, true
	if m.Op == nil || !m.Op.Silent {
		m.Payload = make([]byte, 10)
	}
	o.acct.Charge(m.Size())
	mustEnqueue(o.t, o.Conn, path, &m)
	o.check()
	return o.last
}

func (o *opBench) check() {
	o.t.Helper()
	checkConn(o.t, o.Conn)
}

// fill expects a batch of n bytes with ops.
func (o *opBench) fill(n int, ops ...*Operation) {
	o.t.Helper()
	o.room = 0
	if !o.Fill(0, &o.b) {
		o.t.Fatal("nothing to write")
	}
	if got := o.shown(); o.b.Bytes != n || !slices.Equal(got, ops) {
		o.t.Fatalf("%d bytes with operations %p, not %d with %p", o.b.Bytes, got, n, ops)
	}
}

// shown are the operations of the batch at hand.
func (o *opBench) shown() (ops []*Operation) {
	for _, b := range o.b.Ops {
		ops = append(ops, b.Op)
	}
	return ops
}

// show expects a batch that begins with op.
func (o *opBench) show(op *Operation) {
	o.t.Helper()
	o.room = 0
	if !o.Fill(0, &o.b) || len(o.b.Ops) == 0 || o.b.Ops[0] != (BatchOp{op, 0}) {
		o.t.Fatalf("operation %p is not shown", op)
	}
}

// took says that the link takes one more operation with the batch at hand.
func (o *opBench) took() { o.room++ }

// idle expects that there is nothing to write.
func (o *opBench) idle() {
	o.t.Helper()
	if o.Ready(0) || o.Fill(0, &o.b) {
		o.t.Fatalf("%d bytes to write, operations %p", o.b.Bytes, o.shown())
	}
}

// wrote has the link take n octets, and the operations that it took.
func (o *opBench) wrote(n int) {
	o.t.Helper()
	o.Wrote(0, take(&o.b, n, o.room))
	o.room = 0
	o.check()
}

// write expects a batch of n messages without operations, and writes it.
func (o *opBench) write(n int) {
	o.t.Helper()
	o.fill(n * opSize)
	o.wrote(n * opSize)
}

// begin has the link take op, nil: none, and its message.
func (o *opBench) begin(op *Operation) {
	o.t.Helper()
	if op == nil {
		o.write(1)
		return
	}
	o.show(op)
	o.Wrote(0, transport.Taken{Frames: 1})
	o.check()
}

func (o *opBench) done(op *Operation, s Status) {
	o.t.Helper()
	o.OpDone(0, op, s)
	o.check()
}

// ack acknowledges all that was written.
func (o *opBench) ack() {
	o.t.Helper()
	o.Acked(0, o.paths[0].written)
	o.check()
}

// lose ends the link and makes the next one, whose map it writes.
func (o *opBench) lose() {
	o.t.Helper()
	o.LinkClosed(epochTime, o.link, 0)
	o.check()
	o.link++
	o.invited = true
	o.Tick(epochTime.Add(2 * o.cfg.ReconnectMax))
	o.Dialed(epochTime, 0, o.link)
	o.Proved(epochTime, 0)
	o.fill(wire.HeaderSize + wire.CongestionMapSize)
	o.wrote(o.b.Bytes)
}

// probe writes the probe of a new link, which comes behind what is resent.
func (o *opBench) probe() {
	o.t.Helper()
	o.fill(wire.HeaderSize)
	o.wrote(o.b.Bytes)
}

// fates expects the ends of messages since the last call.
func (o *opBench) fates(want ...Fate) {
	o.t.Helper()
	for i := range want {
		want[i].Account = &o.acct
	}
	got := o.TakeFates(nil)
	for i := range got {
		if op := got[i].Op; op != nil && op.token != got[i].Token {
			o.t.Fatalf("the fate of %d has the operation of %d", got[i].Token, op.token)
		}
		got[i].Op = nil
	}
	if !slices.Equal(got, want) {
		o.t.Fatalf("fates %v, not %v", got, want)
	}
}

// rest expects that nothing is left.
func (o *opBench) rest() {
	o.t.Helper()
	o.fates()
	if o.Queued() != 0 || o.acct.Messages() != 0 || o.acct.Bytes() != 0 || len(o.ops) != len(o.freeOps) || o.Unacked(0) != 0 {
		o.t.Fatalf("%d bytes queued, %d messages and %d bytes in the account, %d operations", o.Queued(), o.acct.Messages(), o.acct.Bytes(), len(o.ops)-len(o.freeOps))
	}
}

// end acknowledges all that was written, and expects that the messages with these tokens
// succeed and that nothing is left.
func (o *opBench) end(tokens ...uint64) {
	o.t.Helper()
	want := make([]Fate, len(tokens))
	for i, token := range tokens {
		want[i].Token = token
	}
	o.ack()
	o.fates(want...)
	o.rest()
}

const opSize = wire.HeaderSize + 10
