package xctl

import (
	"sort"
	"time"

	"github.com/rds-go/rds/transport/iwarp/rdmap"
)

// DefaultRetries is how often verbs offer a message again to a queue that is not
// ready before they give up.
const DefaultRetries = 7

// Outcome is what became of a message.
type Outcome struct {
	ID   uint64
	Code NAKCode // 0: delivered. NAKNotReady: all retries are used up
	Info uint32  // Info of the NAK
	// Withdrawn: the owner took it back, and the peer has never heard of it.
	Withdrawn bool
}

// Step is what a Sender lets its owner do.
type Step uint8

// The steps.
const (
	StepNew    Step = iota // Begin a new message
	StepReplay             // Replay a message of before
	StepFinish             // send the rest of the message that was begun, then End
	StepResume             // send what Resume returns
	StepWait               // nothing before Deadline, or a CREDIT
	StepCredit             // nothing before a CREDIT
)

var stepNames = [...]string{"new", "replay", "finish", "resume", "wait", "credit"}

// String is the name of the step.
func (s Step) String() string { return stepNames[s] }

// Sender is the sending end of one shared receive queue on one connection. It
// numbers messages, keeps within the peer's limit, and knows what has to be sent
// again. It keeps no payload: messages are IDs of the owner's, who keeps each
// until Pop returns it.
//
//	     Begin, Replay ┌──────┐ End, Withdraw
//	      ┌──────────▶ │ open │ ─────────┐
//	      │            └──────┘          ▼
//	┌─────────┐  NAK 2   ┌─────────┐  the time or a CREDIT  ┌────────┐
//	│ running │ ───────▶ │ stopped │ ─────────────────────▶ │ Resume │ ──▶ running
//	└─────────┘          └─────────┘                        └────────┘
//
// A stop concerns the message that was refused and all after it. They are sent
// again in their order, with new numbers, before anything new.
type Sender struct {
	srq     SRQN
	initial uint32 // the peer's Block.Credit
	retries uint8  // 0: no limit

	next  uint32 // number of the next message
	limit uint32 // the last number that may be used
	acked uint32 // the peer's Credit.Delivered

	// ring holds messages from head on, oldest first: up to sent they are with
	// the peer, with ascending numbers; from there to tail they wait to be
	// replayed. The three count up and wrap; its length is a power of two.
	ring             []sent
	head, sent, tail uint32

	open   bool
	openAt uint32 // index in ring of the open message

	stopped bool
	stop    uint32 // number of the message that was refused
	wake    uint32 // a CREDIT with a limit beyond this one tells of new buffers
	until   time.Time
	tries   uint8 // replays in a row
}

type sent struct {
	id   uint64
	msn  uint32
	info uint32
	code NAKCode
	// withdrawn: its number is that of a message before it, which keeps the
	// numbers in order, and means nothing else.
	withdrawn bool
}

// NewSender returns a Sender for a queue that nothing was sent to on this
// connection. credit is the peer's Block.Credit, retries how often a message is
// offered again to a queue that is not ready, 0 for ever.
func NewSender(n SRQN, credit, retries uint8) *Sender {
	return &Sender{srq: n, initial: uint32(credit), retries: retries, next: 1, limit: uint32(credit)}
}

// SRQ is the queue.
func (s *Sender) SRQ() SRQN { return s.srq }

// Outstanding is how many messages Pop has not returned.
func (s *Sender) Outstanding() int { return int(s.tail - s.head) }

// Next says what may be done.
func (s *Sender) Next(now time.Time) Step {
	switch {
	case s.open:
		return StepFinish
	case s.stopped && now.Before(s.until):
		return StepWait
	case s.stopped:
		return StepResume
	case after(s.next, s.limit):
		return StepCredit
	case s.sent != s.tail:
		return StepReplay
	}
	return StepNew
}

// Deadline is when a StepWait ends by itself.
func (s *Sender) Deadline() (at time.Time, ok bool) { return s.until, s.stopped && !s.until.IsZero() }

// Begin takes a new message, after StepNew, and returns its number.
func (s *Sender) Begin(id uint64) (msn uint32) {
	if s.open || s.stopped || s.sent != s.tail || after(s.next, s.limit) {
		panic("xctl: Begin out of turn")
	}
	if s.tail-s.head == uint32(len(s.ring)) {
		s.grow()
	}
	*s.at(s.tail) = sent{id: id}
	s.tail++
	return s.begin()
}

// Replay takes the oldest of the messages to be sent again, after StepReplay, and
// returns its new number.
func (s *Sender) Replay() (id uint64, msn uint32) {
	if s.open || s.stopped || s.sent == s.tail || after(s.next, s.limit) {
		panic("xctl: Replay out of turn")
	}
	return s.at(s.sent).id, s.begin()
}

func (s *Sender) begin() (msn uint32) {
	msn = s.next
	s.at(s.sent).msn = msn
	s.open, s.openAt = true, s.sent
	s.sent++
	s.next++
	return msn
}

// Cut reports whether the peer drops the message that was begun. Its rest need
// not be sent: an empty last segment ends it.
func (s *Sender) Cut() bool {
	return s.open && (!before(s.openAt, s.sent) || s.at(s.openAt).code != 0)
}

// End notes that the last segment of the message that was begun is on its way.
func (s *Sender) End() {
	if !s.open {
		panic("xctl: End out of turn")
	}
	s.open = false
	s.pass()
}

// Withdraw takes back the message that was begun, of which nothing has left: its
// number is the next one's again. Pop returns it in its turn.
func (s *Sender) Withdraw() {
	if !s.open {
		panic("xctl: Withdraw out of turn")
	}
	s.open = false
	s.next--
	m := s.at(s.openAt)
	m.withdrawn, m.msn = true, s.next-1
	s.pass()
}

// pass skips messages that were withdrawn among those to be replayed.
func (s *Sender) pass() {
	for s.sent != s.tail && s.at(s.sent).withdrawn {
		s.at(s.sent).msn = s.next - 1
		s.sent++
	}
}

// Refused is the oldest of the messages to be sent again.
func (s *Sender) Refused() (id uint64, ok bool) {
	if s.sent == s.tail {
		return 0, false
	}
	return s.at(s.sent).id, true
}

// Delay has a stop last until a time, if it does not last longer. A CREDIT that tells of new
// buffers ends it all the same.
func (s *Sender) Delay(until time.Time) {
	if s.stopped && !s.until.IsZero() && s.until.Before(until) {
		s.until = until
	}
}

// Drop takes back those of the messages to be sent again that gone tells of, also if they were
// withdrawn: Pop does not return them. gone is not asked about one of which the peer is being sent the rest.
func (s *Sender) Drop(gone func(id uint64) bool) {
	kept, open := s.sent, s.openAt
	for i := s.sent; i != s.tail; i++ {
		m := *s.at(i)
		switch {
		case s.open && i == open:
			s.openAt = kept
		case gone(m.id):
			continue
		}
		*s.at(kept) = m
		kept++
	}
	s.tail = kept
}

// Resume ends a stop, after StepResume. The record must leave before the next
// message of this queue. One message may follow it whatever the limit is, to
// find out whether the queue is ready.
func (s *Sender) Resume() Resume {
	if s.open || !s.stopped {
		panic("xctl: Resume out of turn")
	}
	s.stopped = false
	s.limit = latest(s.limit, s.next)
	return Resume{s.srq, s.next}
}

// Credit takes a CREDIT of this queue. An error ends the connection: what the
// peer acknowledges was not sent.
func (s *Sender) Credit(c Credit) error {
	if !after(c.Delivered, s.acked) {
		c.Delivered = s.acked // old
	}
	end := s.next
	if s.stopped {
		end = s.stop
	} else if s.open {
		end--
	}
	if !after(end, c.Delivered) {
		return rdmap.CauseStreamCatastrophic
	}
	s.acked = c.Delivered
	if m := s.oldest(); m != nil && !after(m.msn, s.acked) {
		s.tries = 0 // numbers of dropped messages do not count as tries
	}
	s.limit = latest(s.limit, c.Limit)
	if s.stopped && after(c.Limit, s.wake) {
		s.until = time.Time{}
	}
	return nil
}

// NAK takes a NAK of this queue. An error ends the connection: the peer refuses
// what is not outstanding.
func (s *Sender) NAK(n NAK, now time.Time) error {
	at, ok := s.find(n.MSN)
	if !ok || !after(n.MSN, s.acked) || s.at(at).code != 0 {
		return rdmap.CauseStreamCatastrophic
	}
	switch n.Code {
	case 0:
		return rdmap.CauseOpcode
	case NAKNotReady:
		return s.notReady(n, at, now)
	case NAKUnknown:
		// There may be nobody to extend the limit.
		s.limit = latest(s.limit, n.MSN+s.initial)
	}
	m := s.at(at)
	m.code, m.info = n.Code, n.Info
	return nil
}

func (s *Sender) notReady(n NAK, at uint32, now time.Time) error {
	if s.stopped {
		return rdmap.CauseStreamCatastrophic // one of the two RESUMEs is from a peer that resumed by itself
	}
	for i := at; i != s.sent; i++ {
		if s.at(i).code != 0 {
			return rdmap.CauseStreamCatastrophic // refused before what stands before it
		}
	}
	s.limit = latest(s.limit, n.Info)
	// CREDITs of before the refusal have this limit at most.
	s.stopped, s.stop, s.wake, s.until = true, n.MSN, n.Info, now.Add(n.Wait())
	if s.retries == 0 || s.tries < s.retries {
		if s.retries != 0 {
			s.tries++
		}
		s.sent = at
		return nil
	}
	// The messages have failed. The queue is resumed all the same: what comes
	// next has retries of its own.
	for i := at; i != s.tail; i++ {
		m := s.at(i)
		m.msn, m.code, m.info = n.MSN, NAKNotReady, n.Info // means nothing of those withdrawn
	}
	s.sent = s.tail
	s.tries, s.until = 0, time.Time{}
	return nil
}

// Pop returns the next message whose fate is known, in the order of Begin. Its
// memory is the owner's again.
func (s *Sender) Pop() (o Outcome, ok bool) {
	if s.head == s.sent || s.open && s.openAt == s.head {
		return Outcome{}, false
	}
	m := s.at(s.head)
	if !m.withdrawn && m.code == 0 && after(m.msn, s.acked) {
		return Outcome{}, false
	}
	o = Outcome{m.id, m.code, m.info, m.withdrawn}
	s.advance()
	return o, true
}

// ringKept is the longest ring that an idle Sender keeps, some 3 KiB.
const ringKept = 128

// advance drops the oldest message.
func (s *Sender) advance() {
	s.head++
	if before(s.sent, s.head) {
		s.sent = s.head
	}
	if s.head == s.tail && len(s.ring) > ringKept {
		s.ring = nil
	}
}

// oldest is the oldest message that is with the peer, nil if there is none.
func (s *Sender) oldest() *sent {
	for i := s.head; i != s.sent; i++ {
		if m := s.at(i); !m.withdrawn {
			return m
		}
	}
	return nil
}

// Number is the number of the message that Lost returns next. ok is false if the
// peer has not got it: it waits to be replayed.
func (s *Sender) Number() (msn uint32, ok bool) {
	if s.head == s.sent || s.at(s.head).withdrawn {
		return 0, false
	}
	return s.at(s.head).msn, true
}

// Lost returns, one by one in the order of Begin, the messages whose fate is not
// known when the connection is gone. Pop comes first.
func (s *Sender) Lost() (id uint64, ok bool) {
	if s.head == s.tail {
		return 0, false
	}
	id = s.at(s.head).id
	s.advance()
	return id, true
}

func (s *Sender) at(i uint32) *sent { return &s.ring[i&uint32(len(s.ring)-1)] }

// before compares positions in a ring.
func before(a, b uint32) bool { return int32(a-b) < 0 }

// find looks for a message that is with the peer.
func (s *Sender) find(msn uint32) (at uint32, ok bool) {
	n := int(s.sent - s.head)
	i := sort.Search(n, func(i int) bool { return !after(msn, s.at(s.head+uint32(i)).msn) })
	at = s.head + uint32(i)
	return at, i < n && s.at(at).msn == msn && !s.at(at).withdrawn
}

func (s *Sender) grow() {
	ring := make([]sent, max(8, 2*len(s.ring)))
	for i := s.head; i != s.tail; i++ {
		ring[i&uint32(len(ring)-1)] = *s.at(i)
	}
	s.ring = ring
}
