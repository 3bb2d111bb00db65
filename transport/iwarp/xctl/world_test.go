package xctl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// A world is two ends of a connection in one goroutine: a sender with messages
// for several queues, an ordered pipe each way, and a receiver whose queues run
// dry, end and begin again. What happens next is drawn.

const worldOps = rdmap.OpsRFC5040 | 1<<rdmap.OpPrivate

// sabotage is a rule that one end breaks.
type sabotage uint8

const (
	honest           sabotage = iota
	forgetsDiscard            // a removed queue is forgotten at once, though it discards
	forgetsRefused            // a removed queue is forgotten amid a message that was refused
	acksBeforeNAKs            // CREDIT overtakes NAK
	noResume                  // the sender replays without a word
	acksDiscarded             // dropped messages are acknowledged
	noCreditForNAK            // a message for an unknown queue costs its credit for good
	deliversOn                // after NotReady the receiver takes what comes next
	newBeforeOld              // new messages go before those to be replayed
	lastWordMissing           // Remove says nothing
	keepsNumber               // a message that was withdrawn costs its number
	forgetsWithdrawn          // one that was withdrawn counts as sent
	forgetsNumbers            // an idle sender begins anew
	sabotages
)

var sabotageNames = [...]string{
	"honest", "a discarding queue is forgotten", "a refused rest is forgotten", "CREDIT overtakes NAK", "no RESUME", "dropped messages are acknowledged",
	"NAK costs credit", "delivery goes on after NotReady", "new before old", "no last CREDIT",
	"a withdrawn number is lost", "a withdrawn message counts as sent", "numbers begin anew",
}

type worldMsg struct {
	id    uint64
	queue int
	left  []int // octets of the segments to send
	sizes []int

	delivered int
	withdrawn bool
	outcome   *Outcome
}

type worldQueue struct {
	srqn SRQN
	// The sender's side.
	send    *Sender
	rest    *Rest // in the place of send
	pending []*worldMsg
	cur     *worldMsg // being sent
	msn, mo uint32

	// The receiver's side.
	up      bool
	gen     int // generation of the queue
	entry   int // generation of the queue that the receiver's entry is for
	stale   bool
	buffers int
	dry     bool // nothing is posted for now
	open    uint64
	last    uint64 // delivered last
	popped  uint64
}

type world struct {
	rng      *rand.Rand
	sabotage sabotage
	retries  uint8
	now      time.Time
	queues   []*worldQueue
	msgs     map[uint64]*worldMsg
	open     int // without outcome

	forth, back     [][]byte // ULPDUs under way
	answer          Backlog  // records of the receiver
	talks, answers  uint32   // control messages
	hears, answered ddp.Queue
	in              *Inbound

	rnr, replays, refused, unknowns, cuts, adopts, withdrawn, rests int
}

func newWorld(seed uint64, sab sabotage, queues, messages int, retries uint8) *world {
	w := &world{
		rng: rand.New(rand.NewPCG(seed, 5)), sabotage: sab, retries: retries, now: time.Unix(1000, 0),
		msgs: map[uint64]*worldMsg{},
	}
	credit := uint8(1 + w.rng.IntN(4)*w.rng.IntN(3))
	w.in = NewInbound(InboundConfig{MaxSRQ: uint32(queues), Credit: credit, window: 16, RNR: true, longest: 4 * time.Millisecond})
	for i := range queues {
		q := &worldQueue{srqn: SRQN(i + 1), send: NewSender(SRQN(i+1), credit, retries), up: w.rng.IntN(4) > 0, gen: 1}
		if w.rng.IntN(4) == 0 { // near the wrap of numbers
			start := -uint32(w.rng.IntN(2 * messages))
			q.send.next, q.send.limit, q.send.acked = start, start-1+uint32(credit), start-1
		}
		w.queues = append(w.queues, q)
	}
	for i := range messages {
		m := &worldMsg{id: uint64(i + 1), queue: w.rng.IntN(queues)}
		for range 1 + w.rng.IntN(3)*w.rng.IntN(2) {
			m.sizes = append(m.sizes, 8+w.rng.IntN(8))
		}
		w.msgs[m.id] = m
		q := w.queues[m.queue]
		q.pending = append(q.pending, m)
		w.open++
	}
	return w
}

// broken is what a property violated says.
type broken struct{ what string }

func (b broken) Error() string { return b.what }

func fail(format string, args ...any) { panic(broken{fmt.Sprintf(format, args...)}) }

// run goes on until all messages have an outcome, or something is wrong.
func (w *world) run() (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case broken:
			err = r
		default:
			if w.sabotage == honest {
				panic(r)
			}
			err = fmt.Errorf("panic: %v", r) // out of turn, for one
		}
	}()
	for step := 0; w.open > 0; step++ {
		if step > 400*len(w.msgs)+20_000 {
			fail("%d messages are stuck", w.open)
		}
		w.step(step > 200*len(w.msgs))
	}
	for w.rng.IntN(50) > 0 { // whatever is still on its way does no harm
		w.step(true)
	}
	for _, m := range w.msgs {
		ok := m.outcome.Code == 0 && !m.withdrawn
		if m.delivered > 1 || ok != (m.delivered == 1) || m.withdrawn != m.outcome.Withdrawn {
			fail("message %d of queue %d: delivered %d times, withdrawn %v, outcome %v", m.id, m.queue, m.delivered, m.withdrawn, m.outcome)
		}
	}
	for _, q := range w.queues {
		if q.send.Outstanding() != 0 {
			fail("queue %d keeps %d messages", q.srqn, q.send.Outstanding())
		}
	}
	return nil
}

// step does one thing. Late in a run queues are there and have buffers.
func (w *world) step(late bool) {
	q := w.queues[w.rng.IntN(len(w.queues))]
	switch w.rng.IntN(12) {
	case 0, 1, 2, 3:
		w.transmit(q)
	case 4, 5, 6:
		if len(w.forth) > 0 {
			b := w.forth[0]
			w.forth = w.forth[1:]
			w.receive(b)
		}
	case 7, 8:
		if w.rng.IntN(2) == 0 {
			w.credits()
			w.flushAnswer()
		}
		if len(w.back) > 0 {
			b := w.back[0]
			w.back = w.back[1:]
			w.hear(b)
		}
	case 9:
		if w.rng.IntN(12) == 0 {
			q.dry = !q.dry
		}
		if q.up && (!q.dry || late) {
			w.post(q, 1+w.rng.IntN(6))
		}
	case 10:
		w.now = w.now.Add(time.Duration(w.rng.IntN(1000)) * time.Microsecond)
	case 11:
		switch {
		case q.stale && w.rng.IntN(2) == 0:
			w.remove(q)
		case !q.up && !q.stale && (late || w.rng.IntN(3) == 0):
			q.up = true
			q.gen++
			q.buffers = w.rng.IntN(3)
		case q.up && !late && w.rng.IntN(40) == 0:
			q.up, q.stale, q.buffers = false, true, 0
		}
	}
}

func (w *world) flushAnswer() {
	for !w.answer.Empty() {
		w.answers++
		b := Header(w.answers).AppendTo(nil)
		if w.sabotage == acksBeforeNAKs {
			b, _ = w.answer.credits.appendTo(b, len(b)+MaxMessage)
		}
		w.back = append(w.back, w.answer.AppendTo(b, 24+w.rng.IntN(40)))
	}
}

// transmit does what a transmitter does for one queue in its turn.
func (w *world) transmit(q *worldQueue) {
	if q.rest != nil {
		if len(q.pending) == 0 {
			return
		}
		q.send, q.rest = q.rest.Sender(q.srqn, w.in.cfg.Credit, w.retries), nil
	}
	s := q.send
	if r, ok := s.Rest(); ok && w.rng.IntN(4) == 0 {
		w.rests++
		if w.sabotage == forgetsNumbers {
			r.next, r.acked = 1, 0
		}
		q.rest = &r
		return
	}
	step := s.Next(w.now)
	if w.sabotage == newBeforeOld && step == StepReplay && len(q.pending) > 0 {
		old := s.ring
		s.ring = append([]sent(nil), old...)
		// The oldest to be replayed changes places with a new one.
		m := q.pending[0]
		q.pending[0] = w.msgs[s.at(s.sent).id]
		s.at(s.sent).id = m.id
	}
	switch step {
	case StepNew:
		if len(q.pending) > 0 {
			q.cur, q.pending = q.pending[0], q.pending[1:]
			q.begin(s.Begin(q.cur.id))
			w.first(q)
		}
	case StepReplay:
		id, msn := s.Replay()
		w.replays++
		q.cur = w.msgs[id]
		q.begin(msn)
		w.first(q)
	case StepFinish:
		if q.mo == 0 {
			w.first(q)
			return
		}
		w.segment(q)
	case StepResume:
		r := s.Resume()
		if w.sabotage != noResume {
			w.talks++
			w.forth = append(w.forth, AppendTo(Header(w.talks).AppendTo(nil), r))
		}
	}
}

func (q *worldQueue) begin(msn uint32) {
	q.msn, q.mo, q.cur.left = msn, 0, q.cur.sizes
}

// first sends the first segment of a message, or finds that its memory is gone, or
// looks after something else before.
func (w *world) first(q *worldQueue) {
	switch w.rng.IntN(30) {
	case 0:
		s := q.send
		q.cur.withdrawn = true
		w.withdrawn++
		s.Withdraw()
		switch w.sabotage {
		case keepsNumber:
			s.next++
		case forgetsWithdrawn:
			s.at(s.openAt).withdrawn = false
		}
		w.pop(q)
	case 1:
	default:
		w.segment(q)
	}
}

func (w *world) segment(q *worldQueue) {
	m := q.cur
	h := ddp.Untagged{ULP: rdmap.OpSend.Control(), QN: q.srqn.QN(), MSN: q.msn, MO: q.mo}
	n := m.left[0]
	if q.send.Cut() && w.rng.IntN(2) == 0 {
		w.cuts++
		h.Last = true
		w.forth = append(w.forth, h.AppendTo(nil))
		q.send.End()
		w.pop(q)
		return
	}
	m.left = m.left[1:]
	h.Last = len(m.left) == 0
	b := binary.BigEndian.AppendUint64(h.AppendTo(nil), m.id)
	w.forth = append(w.forth, append(b, make([]byte, n-8)...))
	q.mo += uint32(n)
	if h.Last {
		q.send.End()
		w.pop(q)
	}
}

// hear is the sender's reaction to a control message.
func (w *world) hear(b []byte) {
	var s rdmap.Segment
	w.must(s.Parse(b, worldOps))
	w.must(CheckHeader(&s, &w.answered))
	w.answered.Advance(&s.Untagged, len(s.Payload))
	it := Iterate(s.Payload)
	for it.Next() {
		switch it.Type() {
		case TypeCredit:
			c := it.Credit()
			q := w.queues[c.SRQ-1]
			if q.rest != nil {
				w.must(q.rest.Credit(c))
				continue
			}
			w.must(q.send.Credit(c))
			w.pop(q)
		case TypeNAK:
			n := it.NAK()
			q := w.queues[n.SRQ-1]
			if q.rest != nil {
				fail("queue %d refuses message %d, and nothing is outstanding", n.SRQ, n.MSN)
			}
			was := q.send.limit
			w.must(q.send.NAK(n, w.now))
			if w.sabotage == noCreditForNAK {
				q.send.limit = was
			}
			w.pop(q)
		}
	}
	w.must(it.Err())
}

func (w *world) pop(q *worldQueue) {
	for {
		o, ok := q.send.Pop()
		if !ok {
			return
		}
		m := w.msgs[o.ID]
		if m.outcome != nil {
			fail("message %d has two outcomes", o.ID)
		}
		if q.popped >= o.ID {
			fail("outcome of message %d after that of %d", o.ID, q.popped)
		}
		if q.cur == m && q.send.open {
			fail("message %d is being sent and given back", o.ID)
		}
		q.popped = o.ID
		m.outcome = &o
		w.open--
	}
}

func (w *world) must(err error) {
	if err != nil {
		if c := rdmap.CauseOf(err); c == rdmap.CauseCatastrophic || errors.Is(err, rdmap.CauseCatastrophic) {
			fail("%v has no cause", err)
		}
		fail("the connection ends: %v", err)
	}
}
