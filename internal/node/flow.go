package node

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/fifo"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/datagram"
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

// FlowSet is the flows of one session. Its map is guarded by the lock of the session, as the
// taking of its messages is.
type FlowSet struct {
	of     map[*Peer]*flow // nil: no message had to wait yet
	Stalls atomic.Uint64   // messages that had to wait for their turn
}

// flow holds the messages of one session that wait for a connection. It is
// guarded by the lock of the peer.
type flow struct {
	set     *FlowSet
	Queue   fifo.Queue[parked]
	deficit int
	active  bool      // the flow is in Peer.Flows
	since   time.Time // when active was set

	slab *buf.Buf // collects small payloads
	used int
}

// parked is a message in a flow. The payload of a small one is in a slab, of
// which it has a hold.
type parked struct {
	M    conn.Message
	s    *Socket
	slab *buf.Buf
}

func (f *flow) empty() bool { return f.Queue.Len() == 0 }

// park appends a message, copying a payload that is not in a buffer.
func (f *flow) park(pool *buf.Pool, s *Socket, m *conn.Message) {
	it := parked{M: *m, s: s}
	if n := len(m.Payload); m.Body == nil && n > 0 {
		if f.slab == nil || f.used+n > len(f.slab.B) {
			f.drop()
			f.slab = pool.Get(max(socket.MaxSlab, n))
			f.slab.B = f.slab.B[:cap(f.slab.B)]
		}
		it.M.Payload = f.slab.B[f.used : f.used+n]
		copy(it.M.Payload, m.Payload)
		f.used += n
		f.slab.Retain(1)
		it.slab = f.slab
	}
	f.Queue.Push(it)
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
	if slab := f.Queue.All()[0].slab; slab != nil {
		slab.Release()
	}
	if f.Queue.Drop(1); f.empty() {
		f.Queue.Shrink(1024)
		f.drop()
	}
}

// gateClosed tells whether a message from port has to wait in a flow. Without a
// link it has not: what is parked for a peer is bounded by budgets, and whoever
// closes the gate has something to write, and opens it again.
func (p *Peer) gateClosed(port uint16) bool {
	i := p.Core.PathFor(port)
	return p.Link(i) != nil && p.Core.Unsent(i)-p.Core.HeldBytes(i) >= flowGate
}

// AcceptLocked takes a session's message: into the log, or into its flow.
func (p *Peer) AcceptLocked(x *FlowSet, s *Socket, m *conn.Message) {
	if s.Account.Bytes() >= s.Account.Limit()/2 { // the application waits for room, or soon will
		p.Press()
	}
	f := x.of[p]
	if (f == nil || f.empty()) && !p.gateClosed(m.Sport) {
		err := p.enqueueLocked(s, m)
		if err == nil {
			return
		}
		if err != conn.ErrBudget {
			p.Core.End(m, datagram.StatusOtherError)
			return
		}
	}
	if f == nil {
		f = &flow{set: x}
		if x.of == nil {
			x.of = make(map[*Peer]*flow)
		}
		x.of[p] = f
	}
	f.park(p.Node.Pool, s, m)
	if !m.Deadline.IsZero() {
		p.limits.Note(m.Deadline)
		p.Arm()
	}
	x.Stalls.Add(1)
	if !f.active {
		f.active, f.since = true, time.Now()
		p.Flows = append(p.Flows, f)
	}
}

// serveLocked moves messages from the flows to the log, in turn, as long as
// their gates are open, and tells whether it moved any.
func (p *Peer) serveLocked() (some bool) {
	for shut := 0; len(p.Flows) > shut; { // as long as some flow may go on
		f := p.Flows[0]
		p.Flows = p.Flows[1:]
		f.deficit = min(f.deficit+flowQuantum, flowQuantum) // a turn that the flow could not use is not saved up
		moved, closed := false, false
		for !f.empty() && f.deficit > 0 {
			it := &f.Queue.All()[0]
			if closed = p.gateClosed(it.M.Sport); closed {
				break
			}
			size := it.M.Size()
			if err := p.enqueueLocked(it.s, &it.M); err != nil {
				if closed = err == conn.ErrBudget; closed {
					break
				}
				p.Core.End(&it.M, datagram.StatusOtherError)
			}
			f.deficit -= size + socket.ItemCost
			f.pop()
			moved = true
		}
		if f.empty() {
			f.active, f.deficit = false, 0
		} else {
			p.Flows = append(p.Flows, f)
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
func (p *Peer) serve() {
	p.Lock()
	if len(p.Flows) == 0 || !p.serveLocked() {
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

// endParkedOfLocked ends what of s waits in its session's flow, to one port or to all.
func (p *Peer) endParkedOfLocked(s *Socket, port uint16, all bool, status conn.Status) (messages, bytes int) {
	set := s.Owner.Flows()
	for _, f := range p.Flows {
		if f.set == set {
			return p.endParkedLocked(f, status, func(it *parked) bool { return it.s == s && (all || it.M.Dport == port) })
		}
	}
	return 0, 0
}

// endParkedLocked ends the messages of a flow for which gone says so.
func (p *Peer) endParkedLocked(f *flow, status conn.Status, gone func(*parked) bool) (messages, bytes int) {
	waiting, keep := f.Queue.All(), 0
	for i := range waiting {
		it := &waiting[i]
		if !gone(it) {
			waiting[keep] = *it
			keep++
			continue
		}
		messages++
		bytes += it.M.Size()
		p.Core.End(&it.M, status)
		if it.slab != nil {
			it.slab.Release()
		}
	}
	if f.Queue.Keep(keep); f.empty() { // an emptied flow would otherwise stay in Peer.Flows as long as the peer is away
		f.Queue.Shrink(0)
		f.active, f.deficit = false, 0
		f.drop()
		p.Flows = slices.DeleteFunc(p.Flows, func(g *flow) bool { return g == f })
	}
	return messages, bytes
}

// expireLocked ends the messages in flows whose time limit is over.
func (p *Peer) expireLocked(now time.Time) {
	if !p.limits.Due(now) {
		return
	}
	looked, next := 0, time.Time{}
	for _, f := range slices.Clone(p.Flows) {
		looked += f.Queue.Len()
		ended, _ := p.endParkedLocked(f, datagram.StatusExpired, func(it *parked) bool {
			at := it.M.Deadline
			if at.IsZero() || !at.After(now) {
				return !at.IsZero()
			}
			if next.IsZero() || at.Before(next) {
				next = at
			}
			return false
		})
		p.expired += uint64(ended)
	}
	if p.limits.Looked(now, looked); !next.IsZero() {
		p.limits.Note(next)
	}
}
