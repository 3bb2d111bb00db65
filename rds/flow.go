package rds

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/fifo"
)

// Sessions share a connection by deficit round robin. As long as little waits
// in the connection's log to be written, their messages go straight there; when
// more does, each session's messages wait in a flow of its own, and the
// transmitter takes from the flows in turn, a quantum of bytes from each. What
// a session finds before its own messages is bounded by flowGate, what the TCP
// sockets hold, and one quantum for each other session, whatever those send.
const (
	flowGate    = 256 << 10 // bytes unwritten in a path's log above which messages wait in flows
	flowQuantum = 64 << 10
)

// flowSet is the flows of one session. Its map is guarded by the lock of the session, as the
// taking of its messages is.
type flowSet struct {
	of     map[*peer]*flow // nil: no message had to wait yet
	stalls atomic.Uint64   // messages that had to wait for their turn
}

// flow holds the messages of one session that wait for a connection. It is
// guarded by the lock of the peer.
type flow struct {
	set     *flowSet
	queue   fifo.Queue[parked]
	deficit int
	active  bool      // the flow is in peer.flows
	since   time.Time // when active was set

	slab *buf.Buf // collects small payloads
	used int
}

// parked is a message in a flow. The payload of a small one is in a slab, of
// which it has a hold.
type parked struct {
	m    conn.Message
	s    *nodeSocket
	slab *buf.Buf
}

func (f *flow) empty() bool { return f.queue.Len() == 0 }

// park appends a message, copying a payload that is not in a buffer.
func (f *flow) park(pool *buf.Pool, s *nodeSocket, m *conn.Message) {
	it := parked{m: *m, s: s}
	if n := len(m.Payload); m.Body == nil && n > 0 {
		if f.slab == nil || f.used+n > len(f.slab.B) {
			f.drop()
			f.slab = pool.Get(max(maxSlab, n))
			f.slab.B = f.slab.B[:cap(f.slab.B)]
		}
		it.m.Payload = f.slab.B[f.used : f.used+n]
		copy(it.m.Payload, m.Payload)
		f.used += n
		f.slab.Retain(1)
		it.slab = f.slab
	}
	f.queue.Push(it)
}

// drop gives up the slab.
func (f *flow) drop() {
	if f.slab != nil {
		f.slab.Release()
		f.slab, f.used = nil, 0
	}
}

// pop removes the oldest message.
func (f *flow) pop() {
	if slab := f.queue.All()[0].slab; slab != nil {
		slab.Release()
	}
	if f.queue.Drop(1); f.empty() {
		f.queue.Shrink(1024)
		f.drop()
	}
}

// gateClosed tells whether a message from port has to wait in a flow. Without a
// link it has not: what is parked for a peer is bounded by budgets, and whoever
// closes the gate has something to write, and opens it again.
func (p *peer) gateClosed(port uint16) bool {
	i := p.Core.PathFor(port)
	return p.Link(i) != nil && p.Core.Unsent(i)-p.Core.HeldBytes(i) >= flowGate
}

// acceptLocked takes a session's message: into the log, or into its flow.
func (p *peer) acceptLocked(x *flowSet, s *nodeSocket, m *conn.Message) {
	if s.account.Bytes() >= s.account.Limit()/2 { // the application waits for room, or soon will
		p.Press()
	}
	f := x.of[p]
	if (f == nil || f.empty()) && !p.gateClosed(m.Sport) {
		err := p.enqueueLocked(s, m)
		if err == nil {
			return
		}
		if err != conn.ErrBudget {
			p.ending = append(p.ending, parkedEnd{parked{m: *m, s: s}, StatusOtherError})
			return
		}
	}
	if f == nil {
		f = &flow{set: x}
		if x.of == nil {
			x.of = make(map[*peer]*flow)
		}
		x.of[p] = f
	}
	f.park(p.node.pool, s, m)
	if !m.Deadline.IsZero() {
		p.limits.Note(m.Deadline)
		p.Arm()
	}
	x.stalls.Add(1)
	if !f.active {
		f.active, f.since = true, p.node.now()
		p.flows = append(p.flows, f)
	}
}

// serveLocked moves messages from the flows to the log, in turn, as long as
// their gates are open, and tells whether it moved any.
func (p *peer) serveLocked() (some bool) {
	for shut := 0; len(p.flows) > shut; { // as long as some flow may go on
		f := p.flows[0]
		p.flows = p.flows[1:]
		f.deficit = min(f.deficit+flowQuantum, flowQuantum) // a turn that the flow could not use is not saved up
		moved, closed := false, false
		for !f.empty() && f.deficit > 0 {
			it := &f.queue.All()[0]
			if closed = p.gateClosed(it.m.Sport); closed {
				break
			}
			size := it.m.Size()
			if err := p.enqueueLocked(it.s, &it.m); err != nil {
				if closed = err == conn.ErrBudget; closed {
					break
				}
				p.ending = append(p.ending, parkedEnd{*it, StatusOtherError})
			}
			f.deficit -= size + itemCost
			f.pop()
			moved = true
		}
		if f.empty() {
			f.active, f.deficit = false, 0
		} else {
			p.flows = append(p.flows, f)
		}
		if closed {
			shut++
		}
		some = some || moved
		if !closed && !f.empty() {
			shut = 0 // the flow's debt of large messages is paid off in further rounds
		}
	}
	return some
}

// serve is serveLocked when something other than the transmitter has opened
// the gates.
func (p *peer) serve() {
	p.Lock()
	if len(p.flows) == 0 || !p.serveLocked() {
		p.Unlock()
		return
	}
	p.Commit()
	for i := range conn.MaxPaths {
		p.Lock()
		ready := p.Core.Ready(i)
		p.Unlock()
		if ready {
			p.Transmit(i)
		}
	}
}

// cancelParked drops what waits in s's session's flow, to one port or to all.
func (p *peer) cancelParked(s *nodeSocket, port uint16, all bool, status conn.Status) (messages, bytes int) {
	set := s.owner.flows()
	if set == nil {
		return 0, 0
	}
	p.Lock()
	var f *flow
	for _, g := range p.flows {
		if g.set == set {
			f = g
		}
	}
	if f == nil {
		p.Unlock()
		return 0, 0
	}
	gone := p.unparkLocked(f, func(it *parked) bool { return it.s == s && (all || it.m.Dport == port) })
	p.Unlock()
	for i := range gone {
		bytes += gone[i].m.Size()
		gone[i].end(status)
	}
	return len(gone), bytes
}

// unparkLocked takes the messages for which gone says so out of a flow.
func (p *peer) unparkLocked(f *flow, gone func(*parked) bool) (out []parked) {
	waiting, keep := f.queue.All(), 0
	for i := range waiting {
		it := &waiting[i]
		if !gone(it) {
			waiting[keep] = *it
			keep++
			continue
		}
		out = append(out, *it)
		if it.slab != nil {
			it.slab.Release()
		}
	}
	if f.queue.Keep(keep); f.empty() { // an emptied flow would otherwise stay in peer.flows as long as the peer is away
		f.queue.Shrink(0)
		f.active, f.deficit = false, 0
		f.drop()
		p.flows = slices.DeleteFunc(p.flows, func(g *flow) bool { return g == f })
	}
	return out
}

// expireLocked ends the messages in flows whose time limit is over.
func (p *peer) expireLocked(now time.Time) {
	if !p.limits.Due(now) {
		return
	}
	looked, next := 0, time.Time{}
	for _, f := range slices.Clone(p.flows) {
		looked += f.queue.Len()
		for _, it := range p.unparkLocked(f, func(it *parked) bool {
			at := it.m.Deadline
			if at.IsZero() || !at.After(now) {
				return !at.IsZero()
			}
			if next.IsZero() || at.Before(next) {
				next = at
			}
			return false
		}) {
			p.ending = append(p.ending, parkedEnd{it, StatusExpired})
			p.expired++
		}
	}
	if p.limits.Looked(now, looked); !next.IsZero() {
		p.limits.Note(next)
	}
}

// parkedEnd is a message of a session that ends without the core.
type parkedEnd struct {
	parked
	status Status
}

// end ends a message of a session that is in no flow any more. Its payload may be gone.
func (it *parked) end(status Status) {
	s, m := it.s, &it.m
	m.Account.Release(m.Size(), 1)
	if m.Notify || m.Failure {
		s.owner.ended(conn.Fate{Account: &s.account, Token: m.Token, Status: status, Op: m.Op})
	}
	if m.Body != nil {
		m.Body.Release()
	}
	s.owner.settled()
	s.owner.deliver()
}
