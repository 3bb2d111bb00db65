package iwarp

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp/ddp"
	"github.com/rds-go/rds/transport/iwarp/mpa"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// SharedParams ask for shared receive queues on a connection, in one direction
// or both. Both sides have to; with a peer that does not know them the
// connection is a plain one, see Established.Shared.
type SharedParams struct {
	// Queues finds the queues that take the messages of the peer; nil: there are none.
	Queues Queues
	// Sink takes the messages for queues with SRQConfig.Sink, and hears of what SendFrames
	// sends. nil: such queues take nothing on this connection, and it sends no frames.
	Sink Sink
	// Protection finds the protection domain for a Write, read or atomic of the peer, by the
	// number of the queue that it names (WorkRequest.Queue) and the right that it needs; nil: it
	// reaches nothing, and is refused. It is called on the event loop for each segment, and must not block. A
	// peer without Protection names no queue, and reaches nothing. Without Protection here there is
	// one domain, that of the queue pair.
	Protection func(number uint32, needs mr.Rights) *mr.Domain
	// Target finds, as Queues, the queue for a message that names a queue pair of this side
	// (WorkRequest.QP), which is 0 if the message names none. Messages name queue pairs if both sides
	// have Target. It is not called for queues with a sink.
	Target func(queue, qp uint32) *SRQ
	// Delivered hears, on the event loop, of each message that was put into a shared receive
	// queue of ours, by its Completion.Serial. nil: nobody does.
	Delivered func(queue, serial uint32)
	// Reservation, if the peer has one too, bounds the frames that are under way: each side
	// sends within octets that the other one has granted, see QP.Claim. nil: only the
	// sender bounds them.
	Reservation *Reservation
	// Send is whether this side sends to the peer's queues.
	Send bool
	// Domain is the scope of the numbers, for the peer to compare.
	Domain uint64
	// Incarnation tells the peer whether what it knew of numbers still holds.
	Incarnation uint64
	// Credit is how many messages each queue takes before its first
	// acknowledgement, 1 to 255. 0 means 16.
	Credit uint8
	// MaxQueues is how many queues a peer may send to. 0 means 4096.
	MaxQueues uint32
	// Retries is how often a message is offered again to a queue that has no
	// memory posted, before it fails with ReceiverNotReady. 0 means without end.
	Retries uint8
	// Errors is how many requests of the peer may be refused in a second before the
	// connection ends for it (RFC 5042 section 6.4.4). 0 means 64, negative any
	// number, for a peer that sees to it itself. Messages to a queue that is gone
	// count once in a second, and not at all if they were sent within its credit.
	Errors int
	// Silence is how long no whole FPDU may come from the peer, to within an eighth less,
	// before the connection ends with ErrSilent. A part of one is no sign of life: a length
	// that has changed on its way makes one that never ends. After at most half of that time the
	// peer is sent a PING, which its program has to answer. Time in which the peer's TCP
	// takes what is written before the PING does not count. 0 means 20 s, negative for
	// ever.
	Silence time.Duration
	// Require fails the connection if the peer does not agree.
	Require bool
}

func (p *SharedParams) block() xctl.Block {
	b := xctl.Block{
		Caps:   xctl.CapCredit | xctl.CapRNR | xctl.CapSoftRead | xctl.CapSoftWrite | xctl.CapPing | xctl.CapBigFPDU | xctl.CapImmediate | xctl.CapAtomics | xctl.CapRefused,
		Domain: p.Domain, MaxSRQ: p.MaxQueues, MaxULPDU: mpa.MaxReceiveULPDU, Credit: p.Credit, Incarnation: p.Incarnation,
	}
	if p.Queues != nil {
		b.Caps |= xctl.CapTarget
	}
	if p.Send || p.Sink != nil {
		b.Caps |= xctl.CapInitiator
	}
	if p.Protection != nil {
		b.Caps |= xctl.CapProtection
	}
	if p.Target != nil {
		b.Caps |= xctl.CapQP
	}
	if p.Reservation != nil {
		b.Caps |= xctl.CapOctets
	}
	if b.MaxSRQ == 0 {
		b.MaxSRQ = xctl.DefaultMaxSRQ
	}
	if b.Credit == 0 {
		b.Credit = xctl.DefaultCredit
	}
	return b
}

func (p *SharedParams) rate() xctl.ErrorRate {
	switch {
	case p.Errors < 0:
		return xctl.ErrorRate{}
	case p.Errors > 0:
		return xctl.ErrorRate{PerSecond: p.Errors}
	}
	return xctl.ErrorRate{PerSecond: xctl.ErrorsPerSecond, InAll: xctl.ErrorsInAll}
}

// shared is what a connection has beside a plain one.
type shared struct {
	params   SharedParams
	agreed   xctl.Agreed
	frames   frameSender
	sink     sinkState
	octets   octets
	refusals refusals

	// The transmitter's.
	out       map[xctl.SRQN]*outQueue
	idle      idleQueues // queues that messages were sent to and that are in no other list
	turns     turns      // queues with messages that may be sendable
	stopped   later      // queues that wait for a time
	held      later      // queues that wait for the fate of Writes
	msgs      []outMessage
	free      []uint32
	current   *outQueue // queue whose message is being sent
	id, msn   uint32    // that message's index in msgs, and its MSN
	control   uint32    // MSN of the last control message
	scratch   [][]byte  // memory of control messages; the first lent slices are in use
	lent      int
	step      [][]byte // scratch of stepLocked
	writes    xctl.WriteSender
	begun     uint64      // Writes begun
	lastWrite uint32      // ordinal of the last Write
	named     bool        // the message being sent has named its queue pair
	dep       uint32      // ordinal that the message being sent depends on
	failed    []uint64    // refused Writes that messages may build on
	taken     uint64      // Writes that have had their turn, also those that failed here
	spoilt    uint64      // the last Write that failed here, counted from 1
	withdrawn []*outQueue // queues of which messages are to be completed

	// The event loop's.
	in       *xctl.Inbound
	inbox    ddp.Queue // receives control messages
	rate     xctl.ErrorRate
	touched  []*xctl.Receiver        // receivers of messages since the last flush
	due      []xctl.Credit           // scratch of acknowledge
	lazy     []xctl.Credit           // scratch of acknowledge: CREDITs that wait in the backlog
	hungry   map[*xctl.Receiver]*SRQ // receivers whose queue has no buffer posted
	open     *SRQ                    // queue whose message is being received
	qp       uint32                  // queue pair that this message was for, 0 if it names none
	passed   xctl.SRQN               // queue of a message in the middle of which there was no such queue when it began; 0: none
	recv     receiveSlot             // receive request that the message goes into
	placed   xctl.WriteReceiver
	badWrite bool // segments of the present Write are dropped until its last one
	wrote    bool // Writes have come since the last flush

	// Guarded by QP.mu.
	backlog  xctl.Backlog
	given    []func(id uint64) bool // see QP.Abandon
	arrived  []arrivedRecord        // records that wait for the transmitter
	written  uint64                 // Writes whose fate is known
	pings    map[uint64]chan struct{}
	nonce    uint64
	timer    *time.Timer
	says     bool        // sayTimer runs
	rides    bool        // what sayTimer would have sent has left with messages, the last time, or shortly before them
	alone    time.Time   // when sayTimer has sent it
	sayTimer *time.Timer // sends what there is to say and was put off
	wakeAt   time.Time   // when the timer goes off, or went off
	watch    watch

	undecided atomic.Int32 // see detached

	fedMu lockorder.Mutex[shared]
	fed   []xctl.SRQN // guarded by fedMu; queues that were empty and have buffers again
}

// feed has the event loop look at a queue of ours.
func (x *shared) feed(n xctl.SRQN) {
	x.fedMu.Lock()
	x.fed = append(x.fed, n)
	x.fedMu.Unlock()
}

// sharedStatus is what a NAK of the peer is called in a completion.
func sharedStatus(code xctl.NAKCode) Status {
	switch code {
	case 0:
		return Success
	case xctl.NAKNotReady:
		return ReceiverNotReady
	case xctl.NAKTooLong:
		return RemoteInvalid
	case xctl.NAKForbidden, xctl.NAKInvalidate, xctl.NAKDependency:
		return RemoteAccess
	}
	return RemoteInvalidRD
}

// share readies a connection whose peer has agreed to shared queues, or has not.
func (s *stream) share(p *SharedParams, agreed xctl.Agreed) error {
	if !agreed.Extended {
		if p.Require {
			return ErrNotShared
		}
		return nil
	}
	x := &shared{
		params:  *p,
		agreed:  agreed,
		out:     make(map[xctl.SRQN]*outQueue),
		stopped: later{before: soonerResumed},
		held:    later{before: soonerKnown},
		in:      xctl.NewInbound(xctl.InboundConfig{MaxSRQ: p.MaxQueues, Credit: p.Credit, RNR: agreed.Caps.Has(xctl.CapRNR)}),
		rate:    p.rate(),
		hungry:  make(map[*xctl.Receiver]*SRQ),
		pings:   make(map[uint64]chan struct{}),
	}
	x.octets.on = p.Reservation != nil && agreed.Caps.Has(xctl.CapOctets)
	s.shared = x
	return nil
}

// answerLocked is the responder's side of the negotiation: it makes the private
// data of the Reply.
func (s *stream) answerLocked(p *ConnParams, m *mpa.Params) error {
	if p.Shared == nil {
		return nil
	}
	block := p.Shared.block()
	answer, upper, err := block.Negotiate(s.asked)
	if err != nil {
		return err
	}
	if err := s.share(p.Shared, answer.Agreed); err != nil {
		return err
	}
	s.upper = upper
	m.Private, err = answer.AppendTo(nil, p.Private)
	return err
}

// Ping asks the peer for a sign of life of its iWARP, which takes nothing of
// anybody's queues or keys; only on connections with shared receive queues.
func (q *QP) Ping(ctx context.Context) error {
	q.mu.Lock()
	s := q.stream
	if q.state != StateRTS || s.shared == nil {
		state := q.state
		q.mu.Unlock()
		return fmt.Errorf("%w: ping in state %v", ErrState, state)
	}
	x := s.shared
	x.nonce++
	nonce, done := x.nonce, make(chan struct{})
	x.pings[nonce] = done
	x.backlog.Ping(xctl.Ping{Nonce: nonce})
	run := s.kickLocked()
	q.mu.Unlock()
	if run {
		s.transmit()
	}
	select {
	case <-done:
		return q.Err()
	case <-ctx.Done():
		q.mu.Lock()
		delete(x.pings, nonce)
		q.mu.Unlock()
		return ctx.Err()
	}
}

// ponged ends the Pings up to a nonce: of several that wait to be sent only the
// last one is, and its answer is a sign of life to all.
func (x *shared) ponged(q *QP, nonce uint64) {
	if heard := x.refusals.ponged(q, nonce); heard > 0 {
		x.params.Sink.Heard(heard)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for n, done := range x.pings {
		if n <= nonce {
			delete(x.pings, n)
			close(done)
		}
	}
}
