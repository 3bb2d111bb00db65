package rds

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

// maxRefusals bounds the runs of refused messages that a path remembers.
const maxRefusals = 4096

// refusals are the messages of a path's peer that were refused and of which the peer may
// not have heard: the link may be lost with the refusal. They come again then, flagged
// RETRANSMITTED and old to the sequence rule, and would end with Success. A message is
// forgotten when the peer has heard, which the link tells; or when a message with a higher
// number comes on a later link, for numbers ascend on each link: what lies below has ended
// at the peer.
//
// Beyond maxRefusals runs the oldest ones become a span of numbers some of which were
// refused. What comes again of it is refused as unknown, and ends with Dropped, which is
// true in any case.
//
// They belong to who receives on the path, as conn.Inbound does.
type refusals struct {
	told       []refusedRun // runs refused on the present link, ascending
	before     []refusedRun // runs refused on earlier links and not again on this one; all above told
	unsure     refusedRun   // the span of runs that were given up; count 0: there is none
	number     uint64       // messages refused and told on the present link
	generation uint32       // generation of the peer that sent the messages
	others     []refusals   // messages of other generations, the last one first; at most refusalGenerations
	pending    bool         // before or unsure wait for a higher number
	limit      int          // most runs; 0: maxRefusals
}

// refusedRun is a run of messages refused for one reason.
type refusedRun struct {
	first, count uint64
	why          transport.Refusal
	told         uint64 // refusals.number after this run; means nothing in before
}

func (f *refusedRun) end() uint64 { return f.first + f.count }

func (f *refusedRun) has(number uint64) bool { return number-f.first < f.count }

// begin is for a new link.
func (q *refusals) begin(generation uint32) {
	q.sync(generation)
	q.next()
}

// next has what the last link has told count for earlier links.
func (q *refusals) next() {
	q.before = append(q.told, q.before...)
	q.told, q.number = nil, 0
	q.unsure.told = 0
	q.pending = len(q.before) > 0 || q.unsure.count > 0
}

// refusalGenerations bounds the other generations of which refusals are remembered.
const refusalGenerations = conn.Generations - 1

// sync goes over to the messages of another generation of the peer.
func (q *refusals) sync(generation uint32) {
	if q.generation == generation {
		return
	}
	last, others, number := *q, q.others, q.number
	*q = refusals{generation: generation, limit: q.limit}
	if i := slices.IndexFunc(others, func(o refusals) bool { return o.generation == generation }); i >= 0 {
		*q = others[i]
		others = slices.Delete(others, i, i+1)
		q.next()
	}
	q.number = number
	if last.others = nil; !last.empty() {
		others = slices.Insert(others, 0, last)[:min(len(others)+1, refusalGenerations)]
	}
	q.others = others
}

// empty tells whether nothing is remembered of the present generation.
func (q *refusals) empty() bool { return len(q.told) == 0 && len(q.before) == 0 && q.unsure.count == 0 }

// add remembers a message that is refused now, on the present link. Others of the same
// burst, with higher numbers, may have been refused before.
func (q *refusals) add(number uint64, why transport.Refusal) {
	q.number++
	if i := q.behind(number); i > 0 {
		if last := &q.told[i-1]; last.end() == number && last.why == why {
			last.count++
			last.told = q.number
			return
		}
	}
	if limit := cmp.Or(q.limit, maxRefusals); len(q.told)+len(q.before) >= limit {
		q.loseOldest()
	}
	q.told = slices.Insert(q.told, q.behind(number), refusedRun{number, 1, why, q.number})
}

// behind is where in told the runs above a number begin.
func (q *refusals) behind(number uint64) int {
	if n := len(q.told); n == 0 || q.told[n-1].first < number { // the usual case: numbers ascend
		return n
	}
	return sort.Search(len(q.told), func(i int) bool { return q.told[i].first > number })
}

// loseOldest adds the oldest run to the span.
func (q *refusals) loseOldest() {
	var oldest refusedRun
	if len(q.told) > 0 {
		oldest, q.told = q.told[0], q.told[1:]
	} else {
		oldest, q.before = q.before[0], q.before[1:]
		oldest.told, q.pending = 0, true
	}
	u := &q.unsure
	if u.count == 0 {
		*u = oldest
		return
	}
	end := max(u.end(), oldest.end())
	u.first = min(u.first, oldest.first)
	u.count = end - u.first
	if u.told > 0 { // otherwise the rest of the span is of earlier links
		u.told = max(u.told, oldest.told)
	}
}

// passed takes note of a message that has come, of which there is more than one link.
func (q *refusals) passed(number uint64) {
	for len(q.before) > 0 && q.before[0].end() <= number {
		q.before = q.before[1:]
	}
	if q.unsure.count > 0 && q.unsure.told == 0 && q.unsure.end() <= number {
		if q.unsure.told = q.number; q.number == 0 {
			q.unsure = refusedRun{} // no message of the span has come again
		}
	}
	q.pending = len(q.before) > 0 || q.unsure.count > 0 && q.unsure.told == 0
}

// find tells why a message that comes again was refused, 0 if it was not.
func (q *refusals) find(number uint64) transport.Refusal {
	if q.unsure.has(number) {
		return transport.RefusedUnknown
	}
	for _, list := range [...][]refusedRun{q.before, q.told} {
		i := sort.Search(len(list), func(i int) bool { return list[i].end() > number })
		if i < len(list) && list[i].has(number) {
			return list[i].why
		}
	}
	return 0
}

// heard forgets the first n messages that were told on the present link.
func (q *refusals) heard(n uint64) {
	q.told = slices.DeleteFunc(q.told, func(f refusedRun) bool { return f.told <= n })
	if len(q.told) == 0 {
		q.told = nil
	}
	if q.unsure.count > 0 && q.unsure.told > 0 && q.unsure.told <= n {
		q.unsure = refusedRun{}
	}
}

// refuse tells the peer that the message at hand is not delivered, if the link can.
func (r *receiver) refuse(h *wire.Header, why transport.Refusal) {
	if r.refuser == nil || h.Dport == wire.PortHost || h.Dport == wire.PortProbe { // pings that are not answered
		return
	}
	r.leave() // the link may call the peer's handler
	r.io.refused.add(h.Sequence, why)
	r.refused++
	r.refuser.Refuse(h.Sequence, why) // if the link cannot tell the peer, the message comes again
}

// undelivered tells the peer that the fate of messages is not known: they came for s in
// this burst, and wait in the daemon alone, because the application has no room for them.
// They count as acknowledged all the same, so that nobody else waits for them.
func (r *receiver) undelivered(s *nodeSocket) {
	if r.refuser == nil {
		return
	}
	var numbers []uint64
	s.q.each(func(it *recvItem) bool {
		if it.peer != r.peer.index || int(it.path) != r.path {
			return true
		}
		if it.seq < r.first { // a message of an earlier burst
			return false
		}
		numbers = append(numbers, it.seq)
		return true
	})
	for _, n := range slices.Backward(numbers) {
		r.io.refused.add(n, transport.RefusedUnknown)
		r.refused++
		r.refuser.Refuse(n, transport.RefusedUnknown)
	}
}

// again takes a message that came before: if it was refused then the peer may not have
// heard.
func (r *receiver) again(h *wire.Header) {
	if r.refuser == nil {
		return
	}
	if why := r.io.refused.find(h.Sequence); why != 0 {
		r.refuse(h, why)
	}
}

// Refused is for transport.Handler.
func (r *receiver) Refused(first uint64, count uint32, why transport.Refusal) {
	status := conn.Dropped
	if why == transport.RefusedPort {
		status = conn.Refused
	}
	p := r.peer
	p.mu.Lock()
	if p.path[r.path].id == r.id {
		p.core.RefusedBy(r.path, first, count, status)
	}
	p.unlock(nil)
}

// What is remembered of a peer's ports that nobody is bound to, for reports.
const (
	maxUnbound  = 64
	unboundLast = 10 * time.Minute // how long after its last message a port is listed
)

// unboundPort is a port of a peer that has refused messages.
type unboundPort struct {
	sport, dport uint16 // ports of the last message
	count        int
	first, last  time.Time
}

// refusedLocked is conn.Config.OnRefused.
func (p *peer) refusedLocked(sport, dport uint16) {
	now := p.node.now()
	u := unboundPort{dport: dport, first: now}
	if i := slices.IndexFunc(p.unbound, func(e unboundPort) bool { return e.dport == dport }); i >= 0 {
		if e := p.unbound[i]; now.Sub(e.last) < unboundLast {
			u = e
		}
		p.unbound = slices.Delete(p.unbound, i, i+1)
	} else if len(p.unbound) == maxUnbound {
		p.unbound = slices.Delete(p.unbound, 0, 1)
	}
	u.sport, u.last = sport, now
	u.count++
	p.unbound = append(p.unbound, u)
}

// RefusalsHeard is for transport.Handler.
func (r *receiver) RefusalsHeard(n uint64) { r.io.refused.heard(n) }
