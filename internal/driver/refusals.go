package driver

import (
	"cmp"
	"slices"
	"sort"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/transport"
)

// maxRefusals bounds the runs of refused messages that a path remembers.
const maxRefusals = 4096

// Refusals are the messages of a path's peer that were refused and of which the peer may
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
type Refusals struct {
	told       []refusedRun // runs refused on the present link, ascending
	before     []refusedRun // runs refused on earlier links and not again on this one; all above told
	unsure     refusedRun   // the span of runs that were given up; count 0: there is none
	number     uint64       // messages refused and told on the present link
	generation uint32       // generation of the peer that sent the messages
	others     []Refusals   // messages of other generations, the last one first; at most refusalGenerations
	pending    bool         // before or unsure wait for a higher number
	limit      int          // most runs; 0: maxRefusals
}

// refusedRun is a run of messages refused for one reason.
type refusedRun struct {
	first, count uint64
	why          transport.Refusal
	told         uint64 // Refusals.number after this run; means nothing in before
}

func (f *refusedRun) end() uint64 { return f.first + f.count }

func (f *refusedRun) has(number uint64) bool { return number-f.first < f.count }

// begin is for a new link.
func (q *Refusals) begin(generation uint32) {
	q.sync(generation)
	q.next()
}

// next has what the last link has told count for earlier links.
func (q *Refusals) next() {
	q.before = append(q.told, q.before...)
	q.told, q.number = nil, 0
	q.unsure.told = 0
	q.pending = len(q.before) > 0 || q.unsure.count > 0
}

// refusalGenerations bounds the other generations of which refusals are remembered.
const refusalGenerations = conn.Generations - 1

// sync goes over to the messages of another generation of the peer.
func (q *Refusals) sync(generation uint32) {
	if q.generation == generation {
		return
	}
	last, others, number := *q, q.others, q.number
	*q = Refusals{generation: generation, limit: q.limit}
	if i := slices.IndexFunc(others, func(o Refusals) bool { return o.generation == generation }); i >= 0 {
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
func (q *Refusals) empty() bool { return len(q.told) == 0 && len(q.before) == 0 && q.unsure.count == 0 }

// add remembers a message that is refused now, on the present link. Others of the same
// burst, with higher numbers, may have been refused before.
func (q *Refusals) add(number uint64, why transport.Refusal) {
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
func (q *Refusals) behind(number uint64) int {
	if n := len(q.told); n == 0 || q.told[n-1].first < number { // the usual case: numbers ascend
		return n
	}
	return sort.Search(len(q.told), func(i int) bool { return q.told[i].first > number })
}

// loseOldest adds the oldest run to the span.
func (q *Refusals) loseOldest() {
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
func (q *Refusals) passed(number uint64) {
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
func (q *Refusals) find(number uint64) transport.Refusal {
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
func (q *Refusals) heard(n uint64) {
	q.told = slices.DeleteFunc(q.told, func(f refusedRun) bool { return f.told <= n })
	if len(q.told) == 0 {
		q.told = nil
	}
	if q.unsure.count > 0 && q.unsure.told > 0 && q.unsure.told <= n {
		q.unsure = refusedRun{}
	}
}

// Empty tells whether nothing is remembered.
func (q *Refusals) Empty() bool { return q.empty() && len(q.others) == 0 }

// Runs is the number of runs that are remembered.
func (q *Refusals) Runs() int {
	n := len(q.told) + len(q.before)
	for i := range q.others {
		n += q.others[i].Runs()
	}
	return n
}

// fewRuns is how many runs Shorten leaves.
const fewRuns = 16

// Shorten leaves few runs: of the others it is not known any more what was refused.
func (q *Refusals) Shorten() {
	q.others = nil
	for q.Runs() > fewRuns {
		q.loseOldest()
	}
	q.told, q.before = slices.Clone(q.told), slices.Clone(q.before)
}
