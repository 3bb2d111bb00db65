package xrc

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

const (
	controlQueue    = 1    // number of the queue, one of those that package xrc/objects reserves
	controlLen      = 4096 // octets of a message
	controlSends    = 8    // messages under way
	controlReceives = 32
	maxCalls        = 32           // questions without an answer, of each side
	maxAnswers      = 4 * maxCalls // answers that wait to be sent
	controlIndex    = 1<<32 - 1    // stands for the control queue in ids of work requests, in the place of a channel's index
)

// control is the part of a mux by which the two transports talk: messages of their own to a
// queue of their own. No answer is waited for by who reads, so that two sides that ask each
// other much never wait for each other. The queue, and the goroutines that take and send
// messages, are made when a link has its first one: most have none.
type control struct {
	m      *mux
	cq     *iwarp.CQ
	memory *iwarp.MR     // receives, then sends
	slots  chan uint32   // slots of sends that are free
	window chan struct{} // taken by questions without an answer
	wake   chan struct{} // cap 1: has the sender of control messages look again
	said   chan struct{} // closed when the peer has our bye
	srq    atomic.Pointer[iwarp.SRQ]

	mu      lockorder.Mutex[control]
	opened  bool                   // guarded by mu
	failed  error                  // guarded by mu: why the queue could not be made, or the link has ended
	nextID  uint32                 // guarded by mu
	calls   map[uint32]chan answer // guarded by mu
	out     []outgoing             // guarded by mu: questions and answers, in the order of their turns
	answers int                    // guarded by mu: answers among out
	closed  []uint32               // guarded by mu: queues to be announced
	asked   time.Time              // guarded by mu: since when the peer owes a recordMissing; zero if it does not
	leaving bool                   // guarded by mu: say bye
	byeSlot uint32                 // guarded by mu: slot of the bye plus 1
	heard   chan struct{}          // guarded by mu: closed when the peer has all there is to say; nil: nobody waits for that
}

type outgoing struct {
	b      []byte
	answer bool
}

// answer is a *resolved, a *connected, or a *record.
type answer any

// queue is the control queue, which is made when it is first needed; nil if the link ends.
func (c *control) queue() *iwarp.SRQ {
	if q := c.srq.Load(); q != nil {
		return q
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.opened && c.failed == nil {
		c.opened = true
		if c.failed = c.openLocked(); c.failed == nil {
			c.m.wg.Go(c.listen)
			c.m.wg.Go(c.talk)
		}
	}
	if c.failed != nil {
		return nil
	}
	return c.srq.Load()
}

func (c *control) openLocked() (err error) {
	t := c.m.t
	c.slots, c.window, c.wake = make(chan uint32, controlSends), make(chan struct{}, maxCalls), make(chan struct{}, 1)
	c.calls = make(map[uint32]chan answer)
	if c.said == nil {
		c.said = make(chan struct{})
	}
	if c.cq, err = t.dev.CreateCQ(controlReceives); err != nil {
		return err
	}
	srq, err := t.pd.CreateSRQ(iwarp.SRQConfig{Number: controlQueue, CQ: c.cq, MaxReceive: controlReceives})
	if err != nil {
		return err
	}
	if c.memory, err = t.memory((controlReceives + controlSends) * controlLen); err != nil {
		return errors.Join(err, srq.Close())
	}
	for i := range uint32(controlReceives) {
		if err := c.receive(srq, i); err != nil {
			return errors.Join(err, srq.Close())
		}
	}
	for i := range uint32(controlSends) {
		c.slots <- i
	}
	c.srq.Store(srq) // last: whoever finds the queue finds all of it
	return nil
}

// stop follows the end of the queue pair: the queue is not made any more.
func (c *control) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == nil {
		c.failed = errLost
	}
}

// release gives back what the queue has.
func (c *control) release() {
	if srq := c.srq.Load(); srq != nil {
		_ = srq.Close()
	}
	if c.cq != nil {
		_ = c.cq.Close()
	}
	deregister(c.memory)
}

// receive posts the memory of one message.
func (c *control) receive(srq *iwarp.SRQ, i uint32) error {
	_, err := srq.PostReceive(iwarp.ReceiveRequest{ID: uint64(i), SGE: []iwarp.SGE{c.memory.SGE(int(i)*controlLen, controlLen)}})
	return err
}

// listen takes the peer's messages until the connection ends, from when channels use it on.
func (c *control) listen() {
	select {
	case <-c.m.used:
	case <-c.m.l.qp.Done():
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c.m.wg.Go(func() { <-c.m.l.qp.Done(); cancel() })
	var list [controlReceives]iwarp.Completion
	for {
		err := c.cq.Wait(ctx)
		n := c.cq.Poll(list[:]) // completions that came before the end was heard
		if n == 0 && err != nil {
			return
		}
		for _, e := range list[:n] {
			if e.Status != iwarp.Success {
				continue
			}
			b := c.memory.Bytes()[int(e.ID)*controlLen:][:e.Len]
			if err := c.hear(b); err != nil {
				c.m.end(err)
				return
			}
			if c.receive(c.srq.Load(), uint32(e.ID)) != nil {
				return
			}
		}
	}
}

// talk sends what there is to say.
func (c *control) talk() {
	for {
		heard := c.awaited() // before next: what whoever waits has to say is there
		b := c.next()
		if b == nil {
			c.allHeard(heard)
			select {
			case <-c.wake:
				continue
			case <-c.m.l.qp.Done():
				return
			}
		}
		select {
		case i := <-c.slots:
			c.noteBye(b, i)
			off := (controlReceives + int(i)) * controlLen
			copy(c.memory.Bytes()[off:off+controlLen], b)
			if err := c.post(iwarp.WorkRequest{ID: controlIndex<<32 | uint64(i), Queue: controlQueue, SGE: []iwarp.SGE{c.memory.SGE(off, len(b))}}); err != nil {
				c.m.end(fmt.Errorf("xrc: control: %w", err))
				return
			}
			c.m.t.stats.controlSent.Add(1)
		case <-c.m.l.qp.Done():
			return
		}
	}
}

// fullWait is how long a control message waits for a place of a send queue that is full, which
// takes a long read with more control messages behind it than there are places.
const fullWait = time.Millisecond

func (c *control) post(wr iwarp.WorkRequest) error {
	for {
		_, err := c.m.l.qp.PostSend(wr)
		if err != iwarp.ErrQueueFull {
			return err
		}
		select {
		case <-time.After(fullWait):
		case <-c.m.l.qp.Done():
		}
	}
}

// sent gives the memory of a message back.
func (c *control) sent(slot uint32) {
	c.mu.Lock()
	if c.byeSlot == slot+1 {
		c.byeSlot = 0
		close(c.said)
	}
	c.slots <- slot
	awaited := c.heard != nil
	c.mu.Unlock()
	if awaited {
		c.signal()
	}
}

// awaited is what is closed when the peer has heard all; nil: nobody waits for that.
func (c *control) awaited() chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heard
}

// allHeard follows when there is nothing to say: whoever waits for the peer to have heard all goes on, if it has.
func (c *control) allHeard(heard chan struct{}) {
	if heard == nil || len(c.slots) < controlSends {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.heard == heard {
		close(heard)
		c.heard = nil
	}
}

// flush returns when the peer has all there is to say, when the connection has ended, or at the end of ctx.
func (c *control) flush(ctx context.Context) {
	if c.srq.Load() == nil { // nothing was ever said
		return
	}
	c.mu.Lock()
	if c.heard == nil {
		c.heard = make(chan struct{})
	}
	heard := c.heard
	c.mu.Unlock()
	c.signal()
	select {
	case <-heard:
	case <-c.m.l.qp.Done():
	case <-ctx.Done():
	}
}

// next is the message to send next, nil if there is none. Questions and answers go
// before the news that whom they are about has ended.
func (c *control) next() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.out) > 0 {
		o := c.out[0]
		c.out = append(c.out[:0], c.out[1:]...)
		if o.answer {
			c.answers--
		}
		return o.b
	}
	if gone := c.m.p.takeGone(); len(gone) > 0 {
		return (&record{kind: recordGone, refs: gone}).appendTo(nil)
	}
	if altered := c.m.p.takeAltered(); len(altered) > 0 {
		return (&record{kind: recordLimits, limits: altered}).appendTo(nil)
	}
	if n := min(len(c.closed), maxItems); n > 0 {
		b := (&record{kind: recordClosed, numbers: c.closed[:n]}).appendTo(nil)
		c.closed = append(c.closed[:0], c.closed[n:]...)
		return b
	}
	if c.leaving {
		c.leaving = false
		return (&record{kind: recordBye}).appendTo(nil)
	}
	return nil
}

func (c *control) noteBye(b []byte, slot uint32) {
	if isRecord(b) && recordKind(b[5]) == recordBye {
		c.mu.Lock()
		c.byeSlot = slot + 1
		c.mu.Unlock()
	}
}

func (m *mux) speak() { m.control.signal() }

// signal has what there is to say said.
func (c *control) signal() {
	if c.queue() == nil {
		return
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *control) bye() {
	c.mu.Lock()
	if c.said == nil {
		c.said = make(chan struct{})
	}
	c.leaving = true
	c.mu.Unlock()
	c.signal()
}

// close announces that a shared receive queue is no more.
func (c *control) close(srqn uint32) {
	c.mu.Lock()
	c.closed = append(c.closed, srqn)
	c.mu.Unlock()
	c.signal()
}

// answer queues an answer. It is false if the peer has asked more than it may.
func (c *control) answer(b []byte) bool {
	c.mu.Lock()
	ok := c.answers < maxAnswers
	if ok {
		c.answers++
		c.out = append(c.out, outgoing{b, true})
	}
	c.mu.Unlock()
	c.signal()
	return ok
}

// ask sends a question made with an id and waits for the answer. errLost if the
// connection ends first.
func (c *control) ask(ctx context.Context, question func(id uint32) []byte) (answer, error) {
	if c.queue() == nil {
		return nil, errLost
	}
	select {
	case c.window <- struct{}{}:
		defer func() { <-c.window }()
	case <-c.m.gone:
		return nil, errLost
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	done := make(chan answer, 1)
	c.mu.Lock()
	c.nextID++
	id := c.nextID
	c.calls[id] = done
	c.out = append(c.out, outgoing{b: question(id)})
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.calls, id)
		c.mu.Unlock()
	}()
	c.signal()
	select {
	case a := <-done:
		return a, nil
	case <-c.m.gone:
		return nil, errLost
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// answered takes an answer to its question; who asked may be gone.
func (c *control) answered(id uint32, a answer) {
	c.mu.Lock()
	done := c.calls[id]
	delete(c.calls, id)
	c.mu.Unlock()
	if done != nil {
		done <- a
	}
}

// call asks for a queue or a target.
func (m *mux) call(ctx context.Context, request message) (answer, error) {
	return m.control.ask(ctx, func(id uint32) []byte { return appendMessage(nil, id, request) })
}

// takeGone is what to announce next.
func (p *peer) takeGone() (list []objects.Ref) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for r := range p.gone {
		if len(list) == maxItems {
			break
		}
		list = append(list, r)
		delete(p.gone, r)
	}
	return list
}
