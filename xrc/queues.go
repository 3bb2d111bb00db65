package xrc

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/internal/work"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

var (
	// ErrFull: the queue has no room for the request (ENOMEM).
	ErrFull = fmt.Errorf("xrc: queue full: %w", syscall.ENOMEM)
	// ErrRequest: a work request that no initiator could do (EINVAL).
	ErrRequest = fmt.Errorf("xrc: bad work request: %w", syscall.EINVAL)
)

// CQ is a completion queue. It has room for the requests of all initiators and receives of all shared
// receive queues that complete there, or the latter are taken late.
type CQ struct {
	object
	waiters socket.WaitQueue

	mu         sync.Mutex // guards the fields below
	ring       *ipc.Queue
	mem        *datagram.Memory
	over       bool
	initiators map[uint32]*Initiator
}

// CreateCQ makes a completion queue of n entries at least.
func (s *Session) CreateCQ(n int) (*CQ, error) {
	n = entries(n)
	ring, mem, at, err := s.queue(work.CompletionSize, n, false)
	if err != nil {
		return nil, err
	}
	r, err := s.call(context.Background(), &ipc.XRCCall{Op: ipc.XRCCreateCQ, Offset: at, Entries: n})
	if err != nil {
		mem.Release()
		return nil, err
	}
	c := &CQ{object: object{s, r.Object, objects.Ref{Kind: objects.KindCQ, Number: r.Number, Generation: r.Generation}}, ring: ring, mem: mem,
		initiators: make(map[uint32]*Initiator)}
	s.host.Watch(c.n, &c.waiters)
	s.add(c.n, c, c.ref)
	return c, nil
}

// Poll takes up to len(dst) completions and returns their number. Those of an initiator that was
// closed are left out.
func (c *CQ) Poll(dst []iwarp.Completion) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return 0
	}
	ready, err := c.ring.Ready(1)
	if err != nil {
		return 0
	}
	taken := 0
	for ; taken < ready && n < len(dst); taken++ {
		dst[n] = work.LoadCompletion(c.ring.Record(taken))
		if number := dst[n].Initiator; number != 0 {
			i := c.initiators[number]
			if i == nil {
				if number != ^uint32(0) {
					continue
				}
				dst[n].Initiator = 0
			} else if !i.completed(&dst[n]) {
				continue
			}
		}
		n++
	}
	if taken > 0 {
		c.ring.Advance(taken)
		if c.ring.Wanted.Take() {
			c.tell()
		}
	}
	return n
}

// tell tells the daemon that completions were taken. The Asked flag of the queue is for waiters.
func (c *CQ) tell() {
	p := &c.s.posts
	p.mu.Lock()
	if n, err := p.ring.Ready(1); err == nil && n > 0 {
		work.PutPost(p.ring.Record(0), c.n)
		p.ring.Advance(1)
	} else {
		c.ring.Wanted.Set() // the next one tells
	}
	p.mu.Unlock()
	c.s.host.Wake()
}

// Wait returns when there is something to Poll: nil, or why nothing will come any more, or ctx's
// error.
func (c *CQ) Wait(ctx context.Context) error {
	for {
		w := c.waiters.Add()
		some, err := c.look()
		if !some && err == nil {
			err = c.s.host.Wait(ctx, w)
		}
		c.waiters.Done(w)
		if some || err != nil {
			return err
		}
	}
}

// look tells whether there are completions. If there are none, waiters are woken by the next one.
func (c *CQ) look() (some bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false, net.ErrClosed
	}
	for range 2 {
		n, err := c.ring.Ready(1)
		if n > 0 || err != nil {
			return n > 0, err
		}
		c.ring.Asked.Set()
	}
	if c.s.gone() {
		return false, c.s.host.Err()
	}
	return false, nil
}

// Close destroys the queue: EBUSY while something completes there.
func (c *CQ) Close(ctx context.Context) error {
	err := c.s.destroy(ctx, c.n, c.ref)
	if err == nil {
		c.abandon()
	}
	return err
}

func (c *CQ) abandon() {
	c.s.host.Watch(c.n, nil)
	c.mu.Lock()
	over := c.over
	c.over = true
	c.mu.Unlock()
	c.waiters.Wake(-1)
	if !over {
		c.mem.Release()
	}
}

// SRQAttr describes a shared receive queue.
type SRQAttr struct {
	Domain *Domain
	PD     *PD
	CQ     *CQ
	MaxWR  int // receives
	Limit  int // see Arm
}

// SRQ is a shared receive queue. Peers name it by number in what they send to any target of its
// domain.
type SRQ struct {
	object

	mu   sync.Mutex // guards the fields below
	ring *ipc.Queue
	mem  *datagram.Memory
	over bool
}

// CreateSRQ makes a shared receive queue for MaxWR receives at least.
func (s *Session) CreateSRQ(a SRQAttr) (*SRQ, error) {
	if a.Domain == nil || a.PD == nil || a.CQ == nil {
		return nil, datagram.ErrInvalid
	}
	n := entries(a.MaxWR)
	ring, mem, at, err := s.queue(work.RequestSize, n, true)
	if err != nil {
		return nil, err
	}
	r, err := s.call(context.Background(), &ipc.XRCCall{Op: ipc.XRCCreateSRQ, Domain: a.Domain.n, PD: a.PD.n, CQ: a.CQ.n, Offset: at, Entries: n, Limit: a.Limit})
	if err != nil {
		mem.Release()
		return nil, err
	}
	q := &SRQ{object: object{s, r.Object, objects.Ref{Kind: objects.KindSRQ, Number: r.Number, Generation: r.Generation}}, ring: ring, mem: mem}
	s.add(q.n, q, q.ref)
	return q, nil
}

// Num is the queue's number.
func (q *SRQ) Num() uint32 { return q.ref.Number }

// PostReceive posts receives in order and returns how many; the error is about the first that it
// did not.
func (q *SRQ) PostReceive(list ...iwarp.ReceiveRequest) (n int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over {
		return 0, net.ErrClosed
	}
	if q.s.gone() {
		return 0, q.s.host.Err()
	}
	room, err := q.ring.Ready(len(list))
	for err == nil && n < len(list) {
		switch {
		case n == room:
			err = ErrFull
		case !work.PutReceive(q.ring.Record(n), &list[n]):
			err = ErrRequest
		default:
			n++
		}
	}
	if n > 0 {
		q.ring.Advance(n)
		q.s.post(q.n, q.ring.Asked)
	}
	return n, err
}

// Arm has the session hear EventSRQLimit once, when a message leaves fewer receives than limit.
func (q *SRQ) Arm(limit int) error {
	_, err := q.s.call(context.Background(), &ipc.XRCCall{Op: ipc.XRCModifySRQ, Object: q.n, Limit: limit})
	return err
}

// Query tells how many receives the daemon has, and the limit, 0 once it was reached.
func (q *SRQ) Query() (posted, limit int, err error) {
	r, err := q.s.call(context.Background(), &ipc.XRCCall{Op: ipc.XRCQuerySRQ, Object: q.n})
	if err != nil {
		return 0, 0, err
	}
	return r.Posted, r.Limit, nil
}

// Close destroys the queue. What was posted vanishes, and nothing of its memory is touched after the
// return. It waits for the session's events of the queue to be acknowledged.
func (q *SRQ) Close(ctx context.Context) error {
	err := q.s.destroy(ctx, q.n, q.ref)
	if err == nil {
		q.abandon()
	}
	return err
}

func (q *SRQ) abandon() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.over {
		q.over = true
		q.mem.Release()
	}
}

// InitiatorAttr describes an initiator.
type InitiatorAttr struct {
	PD            *PD
	CQ            *CQ
	Local, Remote netip.Addr // hosts; the zero local address is the first that fits
	Service       uint64     // by which a domain of the remote host is found
	MaxSend       int        // requests that may be outstanding; default 128
	Reads         int        // reads and atomics that may be under way, to 255; the peer may allow fewer
	MTU           int        // octets; default 4096
}

// Initiator is a queue pair that sends, connected to a target of a remote host.
type Initiator struct {
	object
	cq     *CQ
	target uint32
	answer objects.Answer
	reads  int

	mu       sync.Mutex // guards the fields below; behind CQ.mu
	ring     *ipc.Queue
	mem      *datagram.Memory
	over     bool
	requests []request // outstanding requests, by their ID in the record
	free     []uint32  // IDs
}

// request is one that is outstanding. All complete with an entry in the queue in shared memory, so
// that it is known how many are; the program sees those that it has asked for.
type request struct {
	id    uint64 // the program's
	quiet bool   // the program hears of a failure only
}

// Connect makes an initiator and connects it to a target in the domain of a service, which the
// peer's daemon finds or makes. A refusal is ECONNREFUSED, or EAGAIN if it may succeed later.
func (s *Session) Connect(ctx context.Context, a InitiatorAttr) (*Initiator, error) {
	if a.PD == nil || a.CQ == nil {
		return nil, datagram.ErrInvalid
	}
	if a.MaxSend == 0 {
		a.MaxSend = 128
	}
	n := entries(a.MaxSend)
	ring, mem, at, err := s.queue(work.RequestSize, n, true)
	if err != nil {
		return nil, err
	}
	r, err := s.call(ctx, &ipc.XRCCall{Op: ipc.XRCConnect, PD: a.PD.n, CQ: a.CQ.n, Local: a.Local, Remote: a.Remote, Service: a.Service,
		Offset: at, Entries: n, Reads: a.Reads, MTU: a.MTU})
	if err != nil {
		if ctx.Err() == nil {
			mem.Release()
		} else {
			s.keep(mem) // the daemon may be at it yet
		}
		return nil, err
	}
	i := &Initiator{object: object{s, r.Object, objects.Ref{Kind: objects.KindInitiator, Number: r.Number, Generation: r.Generation}}, cq: a.CQ,
		target: r.Target, answer: objects.Answer{SRQN: r.SRQ, Tag: r.Tag}, reads: r.Reads, ring: ring, mem: mem, requests: make([]request, n)}
	for k := range n {
		i.free = append(i.free, uint32(n-1-k))
	}
	a.CQ.mu.Lock()
	a.CQ.initiators[i.ref.Number] = i
	a.CQ.mu.Unlock()
	s.add(i.n, i, i.ref)
	return i, nil
}

// Number is the initiator's, as in completions.
func (i *Initiator) Number() uint32 { return i.ref.Number }

// Target is the number of the target at the other end.
func (i *Initiator) Target() uint32 { return i.target }

// Queue is the shared receive queue behind the service, zero if it has none.
func (i *Initiator) Queue() objects.Answer { return i.answer }

// Reads is how many reads and atomics may be under way.
func (i *Initiator) Reads() int { return i.reads }

// Join asks for one more service behind the same target.
func (i *Initiator) Join(ctx context.Context, service uint64) (objects.Answer, error) {
	r, err := i.s.call(ctx, &ipc.XRCCall{Op: ipc.XRCJoin, Object: i.n, Service: service})
	if err != nil {
		return objects.Answer{}, err
	}
	return objects.Answer{SRQN: r.SRQ, Tag: r.Tag}, nil
}

// PostSend posts requests in order and returns how many it took; the error is about the first that
// it did not take. A message that builds on Writes is posted in one call with them.
func (i *Initiator) PostSend(list ...iwarp.WorkRequest) (n int, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.over {
		return 0, net.ErrClosed
	}
	if i.s.gone() {
		return 0, i.s.host.Err()
	}
	room, err := i.ring.Ready(len(list))
	room = min(room, len(i.free))
	for err == nil && n < len(list) {
		if n == room {
			err = ErrFull
			break
		}
		w, slot := list[n], i.free[len(i.free)-1]
		i.requests[slot] = request{w.ID, w.Flags&iwarp.Signaled == 0}
		if w.ID = uint64(slot); i.requests[slot].quiet {
			w.ID |= work.Quiet
		}
		w.Flags |= iwarp.Signaled
		if w.Queue == 0 || !work.PutRequest(i.ring.Record(n), &w) {
			err = ErrRequest
			break
		}
		i.free = i.free[:len(i.free)-1]
		n++
	}
	if n > 0 {
		i.ring.Advance(n)
		i.s.post(i.n, i.ring.Asked)
	}
	return n, err
}

// completed gives a completion that was polled the program's ID. It is false if the program is not
// to see it.
func (i *Initiator) completed(c *iwarp.Completion) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.over {
		return false
	}
	slot := uint32(c.ID) // without work.Quiet
	r := i.requests[slot]
	i.free = append(i.free, slot)
	c.ID = r.id
	return !r.quiet || c.Status != iwarp.Success
}

// Close destroys the initiator, and the peer's target with it. What is outstanding vanishes.
func (i *Initiator) Close(ctx context.Context) error {
	err := i.s.destroy(ctx, i.n, i.ref)
	if err == nil {
		i.abandon()
	}
	return err
}

func (i *Initiator) abandon() {
	i.mu.Lock()
	over := i.over
	i.over = true
	i.mu.Unlock()
	if over {
		return
	}
	i.cq.mu.Lock()
	delete(i.cq.initiators, i.ref.Number)
	i.cq.mu.Unlock()
	i.mem.Release()
}
