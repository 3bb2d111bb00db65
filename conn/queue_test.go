package conn

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/invariants"
	"github.com/rds-go/rds/internal/wire"
)

var seedFlag = flag.Uint64("conn.seed", 0, "run the queue test with this seed only")

// The queue and its log against a model that has none of their cleverness:
// after each of many random calls both must show the same.
func TestQueueMatchesModel(t *testing.T) {
	t.Parallel()
	n := uint64(400)
	if invariants.Enabled {
		n = 100 // one goroutine, which is nothing for the race detector; each error of invariants shows in few seeds
	}
	if *seedFlag != 0 {
		newQueueRun(t, *seedFlag).run()
		return
	}
	for seed := uint64(1); seed <= n && !t.Failed(); seed++ {
		newQueueRun(t, seed).run()
	}
}

// queueRun is a random sequence of calls of a core with one path and of the model.
type queueRun struct {
	*testing.T
	seed     uint64
	op       int // number of the call
	rng      *rand.Rand
	pool     *buf.Pool
	c        *Conn
	m        *model
	accounts [3]Account // what messages are charged to: the core's
	twins    [3]Account // the model's account for each of these
	bodies   []*buf.Buf
	link     LinkID
	now      time.Time
	batch    Batch
	expect   []byte // octets of the write under way; nil: there is none
	room     int    // operations of that write that the link has room for
	whole    bool   // the link takes all that it has room for: some of these operations have ended
}

func newQueueRun(t *testing.T, seed uint64) *queueRun {
	r := &queueRun{T: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), pool: new(buf.Pool), now: epochTime,
		m: &model{sequence: 1, held: map[uint16]bool{}, marked: map[uint16]bool{}}}
	r.c = newConn(t, Config{Pool: r.pool, Rand: r.rng})
	for i := range r.accounts {
		r.accounts[i].SetLimit(1 << 30)
		r.twins[i].SetLimit(1 << 30)
	}
	return r
}

// queueSteps are the calls that a run makes, and how often each comes.
var queueSteps = []struct {
	weight int
	do     func(*queueRun)
}{
	{7, (*queueRun).enqueue},
	{5, (*queueRun).write},
	{4, (*queueRun).wrote},
	{2, (*queueRun).acked},
	{1, (*queueRun).cancel},
	{1, (*queueRun).lose},
	{1, (*queueRun).connect},
	{1, (*queueRun).hold},
	{1, (*queueRun).mapped},
	{2, (*queueRun).opDone},
	{1, (*queueRun).opDoneEarly},
}

func (r *queueRun) run() {
	sum := 0
	for _, s := range queueSteps {
		sum += s.weight
	}
	for r.op = range 600 {
		n := r.rng.IntN(sum)
		for _, s := range queueSteps {
			if n -= s.weight; n < 0 {
				s.do(r)
				break
			}
		}
		r.compare()
	}
	r.end()
}

// fail ends the run, and says how to repeat it.
func (r *queueRun) fail(format string, args ...any) {
	r.Helper()
	r.Fatalf("seed %d, op %d: %s", r.seed, r.op, fmt.Sprintf(format, args...))
}

// message makes a message of the account k.
func (r *queueRun) message(k int) Message {
	msg := Message{Sport: uint16(4000 + k), Dport: r.port(), Token: uint64(r.op), Notify: r.rng.IntN(2) == 0, Account: &r.accounts[k], Admitted: true}
	payload := make([]byte, r.rng.IntN(300))
	if r.rng.IntN(15) == 0 {
		msg.Body = r.pool.Get(InlineMax + 1 + r.rng.IntN(1000))
		msg.Body.Retain(1)
		r.bodies = append(r.bodies, msg.Body)
		payload = msg.Body.B
	}
	if r.rng.IntN(4) == 0 {
		msg.Op = &Operation{Silent: msg.Body == nil && r.rng.IntN(2) == 0}
	}
	for i := range payload {
		payload[i] = byte(r.op)
	}
	if msg.Body == nil && (msg.Op == nil || !msg.Op.Silent) {
		msg.Payload = payload
	}
	return msg
}

func (r *queueRun) port() uint16 { return uint16(5000 + r.rng.IntN(2)) }

func (r *queueRun) enqueue() {
	k := r.rng.IntN(len(r.accounts))
	msg := r.message(k)
	e := &modelMessage{m: msg, payload: bytes.Clone(msg.Payload)}
	if msg.Body != nil {
		e.payload = bytes.Clone(msg.Body.B)
	}
	e.m.Account = &r.twins[k]
	if msg.Op != nil {
		e.op = opWaits
	}
	r.accounts[k].Charge(len(e.payload))
	r.twins[k].Charge(len(e.payload))
	if _, err := r.c.Enqueue(r.now, 0, &msg); err != nil {
		r.fail("%v", err)
	}
	r.m.accept(e)
}

// write begins a write, or ends the one under way.
func (r *queueRun) write() {
	if r.expect != nil {
		r.wrote()
		return
	}
	want, some := r.m.fill(max(1, r.c.paths[0].opsMost))
	ok := r.c.Fill(0, &r.batch)
	if same := func(b BatchOp, e *modelMessage) bool { return b.Op == e.m.Op }; ok != some || !slices.EqualFunc(r.batch.Ops, r.m.shown, same) {
		r.fail("Fill is %v with %d bytes to write and %d operations, not %d", ok, len(want), len(r.batch.Ops), len(r.m.shown))
	}
	if got := octets(&r.batch); !bytes.Equal(got, want) {
		r.fail("Fill shows %d bytes, not %d", len(got), len(want))
	}
	if some {
		r.expect = append([]byte{}, want...)
	}
	if r.room = len(r.m.shown); r.rng.IntN(3) == 0 {
		r.room = r.rng.IntN(r.room + 1)
	}
}

// wrote ends the write under way, if there is one: the link takes some of it.
func (r *queueRun) wrote() {
	if r.expect == nil {
		return
	}
	if !bytes.Equal(octets(&r.batch), r.expect) {
		r.fail("what Fill showed has changed")
	}
	n := len(r.expect)
	if r.rng.IntN(2) == 0 && !r.whole {
		n = r.rng.IntN(n + 1)
	}
	t := take(&r.batch, n, r.room)
	r.c.Wrote(0, t)
	r.m.wrote(r.batch.Taken(t), len(begun(&r.batch, t)))
	r.expect, r.whole = nil, false
}

// someWritten is a number of octets that the peer may have acknowledged.
func (r *queueRun) someWritten() uint64 { return uint64(r.rng.Int64N(int64(r.m.written) + 1)) }

func (r *queueRun) acked() {
	total := r.someWritten()
	r.c.Acked(0, total)
	r.m.acked(total)
}

func (r *queueRun) cancel() {
	k, port, all := r.rng.IntN(len(r.accounts)), r.port(), r.rng.IntN(3) == 0
	m1, b1 := r.c.Cancel(&r.accounts[k], port, all)
	if m2, b2 := r.m.cancel(&r.twins[k], port, all); m1 != m2 || b1 != b2 {
		r.fail("Cancel of %d messages, %d bytes, not %d, %d", m1, b1, m2, b2)
	}
}

func (r *queueRun) lose() {
	if r.m.up && r.expect == nil && r.rng.IntN(3) == 0 {
		total := r.someWritten()
		r.c.LinkClosed(r.now, r.link, total)
		r.m.closed(total)
	}
}

// connect makes a link; where there is one, the congestion map of this side changes.
func (r *queueRun) connect() {
	if r.m.up {
		r.c.MapChanged()
		r.m.needMap = true
		return
	}
	r.c.invited = true // there may be nothing to send
	r.now = r.now.Add(time.Minute)
	r.c.Tick(r.now)
	r.link++
	r.c.Dialed(r.now, 0, r.link)
	r.c.Proved(r.now, 0)
	r.m.connect()
}

// hold holds a port back or lets it go.
func (r *queueRun) hold() {
	port, on := r.port(), r.rng.IntN(2) == 0
	r.c.Hold([]uint16{port}, on)
	r.m.hold(port, on)
}

// mapped brings a congestion map of the peer.
func (r *queueRun) mapped() {
	if !r.m.up {
		return
	}
	h := wire.Header{Flags: wire.FlagCongestion, Length: wire.CongestionMapSize}
	var cmap wire.CongestionMap
	var ports []uint16
	for port := uint16(5000); port < 5002; port++ {
		if r.rng.IntN(2) == 0 && cmap.Set(port) {
			ports = append(ports, port)
		}
	}
	r.c.HandleControl(r.now, 0, &h, cmap[:])
	r.m.mapped(ports...)
}

// status is how an operation ends.
func (r *queueRun) status() Status {
	all := []Status{Success, RemoteError, Dropped, OtherError}
	return all[r.rng.IntN(len(all))]
}

func (r *queueRun) opDone() {
	if n := len(r.m.begun); n > 0 {
		i, status := r.rng.IntN(n), r.status()
		e := r.m.begun[i]
		r.m.begun = slices.Delete(r.m.begun, i, i+1)
		r.c.OpDone(0, e.m.Op, status)
		r.m.opDone(e, status)
	}
}

// opDoneEarly ends an operation of the write under way, which takes it: the link is quicker
// than its writer.
func (r *queueRun) opDoneEarly() {
	if r.expect == nil || r.room == 0 {
		r.opDone()
		return
	}
	e := r.m.shown[r.rng.IntN(r.room)]
	taken := begun(&r.batch, take(&r.batch, len(r.expect), r.room))
	if e.early == nil && slices.ContainsFunc(taken, func(b BatchOp) bool { return b.Op == e.m.Op }) {
		status := r.status()
		e.early = &status
		r.whole = true
		r.c.OpDone(0, e.m.Op, status)
	}
}

// compare checks that the core shows what the model shows.
func (r *queueRun) compare() {
	c, m := r.c, r.m
	if err := check(c); err != nil {
		r.fail("%v", err)
	}
	r.compareQueues()
	if got, want := c.Messages(false, 1<<20), m.waiting(); !slices.EqualFunc(got, want, sameMessage) {
		r.fail("waiting are %v, not %d messages", got, len(want))
	}
	kept := m.kept()
	if got := c.PathInfos()[0].Unacked; got != len(kept) {
		r.fail("%d messages unacknowledged, not %d", got, len(kept))
	}
	kept = slices.DeleteFunc(kept, func(e *modelMessage) bool { return e.canceled })
	if got := c.Messages(true, 1<<20); !slices.EqualFunc(got, kept, sameMessage) {
		r.fail("unacknowledged are %v, not %d messages", got, len(kept))
	}
	if got, want := c.Unacked(0), m.unacked(); got != want {
		r.fail("%d bytes unacknowledged, not %d", got, want)
	}
	for i := range r.accounts {
		if a, twin := &r.accounts[i], &r.twins[i]; a.Bytes() != twin.Bytes() || a.Messages() != twin.Messages() {
			r.fail("account %d has %d bytes, not %d", i, a.Bytes(), twin.Bytes())
		}
	}
	got := c.TakeFates(nil)
	for i := range got {
		for k := range r.accounts {
			if got[i].Account == &r.accounts[k] {
				got[i].Account = &r.twins[k]
			}
		}
	}
	if !slices.Equal(got, m.fates) {
		r.fail("fates %v, not %v", got, m.fates)
	}
	m.fates = nil
	c.TakeFreed(nil)
	c.TakeActions(nil)
}

// end closes the core, and checks that nothing is left.
func (r *queueRun) end() {
	c := r.c
	c.Close()
	if r.expect != nil {
		c.Wrote(0, take(&r.batch, len(r.expect), r.room))
	}
	if r.m.up {
		c.LinkClosed(r.now, r.link, 0)
	}
	if c.Queued() != 0 || c.paths[0].log.tail != nil || c.paths[0].pongs != 0 {
		r.fail("%d bytes, log %v after Close", c.Queued(), c.paths[0].log.tail)
	}
	for i := range r.accounts {
		if a := &r.accounts[i]; a.Bytes() != 0 || a.Messages() != 0 {
			r.fail("account %d keeps %d bytes", i, a.Bytes())
		}
	}
	for i, b := range r.bodies {
		if !b.Sole() {
			r.fail("body %d was not given back", i)
		}
	}
}

func sameMessage(i MessageInfo, e *modelMessage) bool {
	return i.Sequence == e.seq && i.Length == len(e.payload) && i.Sport == e.m.Sport && i.Dport == e.m.Dport
}

// compareQueues checks that the core's queue has the model's messages, in order.
func (r *queueRun) compareQueues() {
	r.Helper()
	c, m := r.c, r.m
	q := &c.paths[0].q
	if n := q.len() - c.paths[0].holes; n != len(m.q) {
		r.fail("%d messages queued, not %d", n, len(m.q))
	}
	pos := q.first
	for k, e := range m.q {
		for q.at(pos).flags&entryHole != 0 {
			pos++
		}
		g := q.at(pos)
		pos++
		token := g.token
		if g.flags&entryOp != 0 {
			token = c.ops[g.token].token
		}
		if token != e.m.Token || g.seq != e.seq && g.flags&entrySilent == 0 || int(g.length) != len(e.payload) || (g.flags&entryCanceled != 0) != e.canceled ||
			(g.flags&entryRetrans != 0) != e.retrans || (pos <= q.next) != e.done() {
			r.fail("message %d of %d is %+v, not %+v", k, len(m.q), *g, *e)
		}
	}
}
