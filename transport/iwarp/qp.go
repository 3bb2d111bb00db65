package iwarp

import (
	"context"
	"fmt"
	"math/bits"
	"net/netip"
	"sync"
	"syscall"

	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/transport"
)

// State is that of a queue pair, with the values of ibv_qp_state. The
// connection moves it; a program only ever moves it to StateError.
//
//	init --Connect, Accept--> rts (Connect)
//	  |                  +--> rtr --first FPDU--> rts --Disconnect--> sqd
//	  |                        |                   |                   | all sent
//	  +---Fail, Close, any error, any end of the connection------------+--> error
type State uint8

// The states.
const (
	StateReset State = iota
	StateInit        // receive requests can be posted
	StateRTR         // receives; sends wait for the peer's first FPDU (RFC 5044 section 7.1.2)
	StateRTS         // sends and receives
	StateSQD         // posted requests are being sent, then the connection ends
	_
	StateError // every work request completes as flushed
)

var stateNames = map[State]string{StateReset: "reset", StateInit: "init", StateRTR: "rtr", StateRTS: "rts", StateSQD: "sqd", StateError: "error"}

func (s State) String() string { return stateNames[s] }

// stateTable lists the transitions there are.
var stateTable = map[State][]State{
	StateInit: {StateRTR, StateRTS, StateError},
	StateRTR:  {StateRTS, StateError},
	StateRTS:  {StateSQD, StateError},
	StateSQD:  {StateError},
}

// QPConfig sets up a queue pair.
type QPConfig struct {
	SendCQ, RecvCQ *CQ // required; may be the same
	MaxSend        int // outstanding work requests, rounded up to a power of two. 0 means 128
	// MaxUnderWay is how many work requests may be outstanding if that is more than MaxSend: a message
	// to a shared queue leaves its place when it has had its turn. 0: MaxSend.
	MaxUnderWay int
	MaxReceive  int // posted receive requests. 0 means 128
	MaxInline   int // largest WorkRequest.Inline, to 4096. 0 means 128
	SignalAll   bool
	// Completed is called on the event loop of the connection, at the end of a burst, when requests have
	// completed in SendCQ, which it polls, or when there is room again for requests after a post was refused
	// with ErrQueueFull. If it returns true it is called again, when others have had their turn. What completes
	// with the end of the queue pair, before Done is closed, it may not be told of. nil: nobody is told.
	Completed func() (more bool)
}

// QP is a queue pair: a send queue, a receive queue, and in its life one
// connection. Posting and all else is safe for concurrent use.
type QP struct {
	dev *Device
	pd  *PD
	cfg QPConfig
	num uint32
	rq  receiveQueue

	mu     lockorder.Mutex[QP]
	state  State        // guarded by mu
	taken  bool         // guarded by mu: a connection is being set up
	stream *stream      // guarded by mu until it is set, then constant
	slots  []sendSlot   // a ring; each slot's fields: the poster's before tail, then see sendSlot
	inline []byte       // MaxInline bytes for each slot, made with the first inline request
	head   uint32       // guarded by mu: the oldest work request that has not completed
	sent   uint32       // guarded by mu: work requests before this one are handed to TCP whole
	tail   uint32       // guarded by mu: the next free slot
	failed failure      // guarded by mu; why the state is StateError
	over   bool         // guarded by mu: everything is flushed
	comps  []Completion // guarded by mu; scratch of completeLocked
	streak streak
	corked bool // guarded by mu: Uncork sends what is posted
	wants  bool // guarded by mu: Completed is due when places come free

	done   chan struct{} // closed when over
	closed sync.Once
}

// failure says why a queue pair ends.
type failure struct {
	err    error
	status Status // what the work request at fault completes with
	vendor uint32
	slot   uint32 // the work request at fault, if culprit
	// culprit: the failure is that of one work request in the send queue.
	culprit bool
	// receive: it is that of the receive request that was being filled.
	receive bool
	// quiet: the connection has ended or the peer has said all; nothing is
	// sent any more. Otherwise terminate, if there is one, goes out.
	quiet     bool
	terminate []byte // a whole ULPDU
	abort     bool   // reset the connection
}

// CreateQP makes a queue pair in StateInit.
func (p *PD) CreateQP(cfg QPConfig) (*QP, error) {
	or := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	or(&cfg.MaxSend, 128)
	or(&cfg.MaxReceive, 128)
	or(&cfg.MaxInline, 128)
	if cfg.SendCQ == nil || cfg.RecvCQ == nil || cfg.SendCQ.dev != p.dev || cfg.RecvCQ.dev != p.dev {
		return nil, fmt.Errorf("iwarp: completion queues missing or of another device: %w", syscall.EINVAL)
	}
	if cfg.MaxSend < 1 || cfg.MaxSend > maxQueue || cfg.MaxReceive < 1 || cfg.MaxReceive > maxQueue || cfg.MaxUnderWay < 0 || cfg.MaxUnderWay > maxQueue || cfg.MaxInline < 0 || cfg.MaxInline > maxInline {
		return nil, fmt.Errorf("iwarp: queue sizes %d, %d, %d, inline %d: %w", cfg.MaxSend, cfg.MaxUnderWay, cfg.MaxReceive, cfg.MaxInline, syscall.EINVAL)
	}
	cfg.MaxSend = 1 << bits.Len(uint(cfg.MaxSend-1))
	cfg.MaxUnderWay = max(cfg.MaxUnderWay, cfg.MaxSend)
	q := &QP{
		dev:   p.dev,
		pd:    p,
		cfg:   cfg,
		num:   p.dev.nextQPN.Add(1) & 0xffffff,
		state: StateInit,
		done:  make(chan struct{}),
	}
	q.rq.ring = make([]receiveSlot, cfg.MaxReceive)
	p.dev.mu.Lock()
	defer p.dev.mu.Unlock()
	if p.dev.closed {
		return nil, ErrClosed
	}
	p.dev.qps[q] = struct{}{}
	p.users.Add(1)
	cfg.SendCQ.use(q)
	cfg.RecvCQ.use(q)
	return q, nil
}

// Num is the queue pair's number within its device.
func (q *QP) Num() uint32 { return q.num }

// Peer is the other host of the connection, the zero address before there is one.
func (q *QP) Peer() netip.Addr {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stream == nil {
		return netip.Addr{}
	}
	return q.stream.peer.Unmap()
}

// PD is the domain it was made in.
func (q *QP) PD() *PD { return q.pd }

// State returns the state.
func (q *QP) State() State {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.state
}

// moveLocked changes the state if the table has the transition.
func (q *QP) moveLocked(to State) error {
	for _, s := range stateTable[q.state] {
		if s == to {
			q.state = to
			return nil
		}
	}
	return fmt.Errorf("%w: %v to %v", ErrState, q.state, to)
}

// TCPInfo is what the kernel knows of the connection, false if there is none.
func (q *QP) TCPInfo() (transport.TCPInfo, bool) {
	q.mu.Lock()
	s := q.stream
	q.mu.Unlock()
	if s == nil {
		return transport.TCPInfo{}, false
	}
	return s.conn.TCPInfo()
}

// Done is closed when the queue pair has ended and all its work requests have
// completed: no memory they name is touched any more.
func (q *QP) Done() <-chan struct{} { return q.done }

// Err tells why the queue pair is in StateError, nil if it is not.
func (q *QP) Err() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state != StateError {
		return nil
	}
	return q.failed.err
}

// Fail moves the queue pair to StateError, as ibv_modify_qp does: outstanding
// work requests complete as flushed, and the connection ends.
func (q *QP) Fail() { q.fail(failure{err: ErrClosed, status: Flushed}) }

// Disconnect sends what was posted, and waits until messages to shared queues are
// delivered, then ends our direction of the connection; when the peer has ended
// its own, or after Config.CloseTimeout, the queue pair is in StateError. It
// returns at once; Done tells the end. Reads that were not answered are flushed.
func (q *QP) Disconnect() error {
	q.mu.Lock()
	if q.state == StateRTR {
		// The peer has sent nothing yet, so nothing may leave.
		q.mu.Unlock()
		q.fail(failure{err: ErrClosed, status: Flushed})
		return nil
	}
	err := q.moveLocked(StateSQD)
	s := q.stream
	run := err == nil && s.kickLocked()
	q.mu.Unlock()
	if run {
		s.transmit()
	}
	if err == nil {
		s.conn.Wake() // for Flush
	}
	return err
}

// Reset moves the queue pair to StateError and resets its connection. Completions
// can still be polled, which Close does away with.
func (q *QP) Reset() {
	q.fail(failure{err: ErrClosed, status: Flushed, abort: true})
	q.mu.Lock()
	s := q.stream
	q.mu.Unlock()
	if s != nil {
		s.conn.Close(transport.Abort) // resets also a connection that is ending more gently
	}
}

// Close destroys the queue pair: the connection is reset if there still is one,
// and completions that were not polled are gone. When it returns no memory of
// its work requests is touched any more.
func (q *QP) Close() error {
	err := ErrClosed
	q.closed.Do(func() {
		err = nil
		q.Reset()
		<-q.done
		q.cfg.SendCQ.purge(q)
		q.cfg.RecvCQ.purge(q)
		q.cfg.SendCQ.unuse(q)
		q.cfg.RecvCQ.unuse(q)
		q.pd.users.Add(-1)
		q.dev.mu.Lock()
		delete(q.dev.qps, q)
		q.dev.mu.Unlock()
	})
	return err
}

// Wait blocks until the queue pair has ended and returns Err.
func (q *QP) Wait(ctx context.Context) error {
	select {
	case <-q.done:
		return q.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
