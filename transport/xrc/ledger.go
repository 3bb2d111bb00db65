package xrc

import "github.com/rds-go/rds/internal/lockorder"

// maxRuns bounds what a ledger keeps of one queue. A gap between two runs is a
// message that was refused, or offered in vain to an empty queue.
const maxRuns = 256

// ledger knows by their numbers which messages have come by one connection: what
// its peer asks when the connection is lost before all were acknowledged.
type ledger struct {
	mu     lockorder.Mutex[ledger]
	queues map[uint32]*runs // guarded by mu
}

// runs are the numbers of messages that came to one queue, ascending.
type runs struct {
	list []run
	cut  bool // earlier ones are forgotten
}

type run struct{ first, last uint32 }

// note is told of every message that was delivered, for each queue in order.
func (l *ledger) note(queue, serial uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.queues[queue]
	if r == nil {
		if l.queues == nil {
			l.queues = make(map[uint32]*runs)
		}
		r = &runs{}
		l.queues[queue] = r
	}
	if n := len(r.list); n > 0 && r.list[n-1].last+1 == serial {
		r.list[n-1].last = serial
		return
	}
	if len(r.list) == maxRuns {
		r.list = r.list[:copy(r.list, r.list[1:])]
		r.cut = true
	}
	r.list = append(r.list, run{serial, serial})
}

// size is how many runs there are.
func (l *ledger) size() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.queues {
		n += len(r.list)
	}
	return n
}

// came picks the messages that were delivered. It is false if one of them may
// have been and is forgotten.
func (l *ledger) came(queue uint32, serials []uint32) (came []uint32, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.queues[queue]
	if r == nil {
		return nil, true
	}
	for _, s := range serials {
		if r.cut && int32(s-r.list[0].first) < 0 {
			return nil, false
		}
		for _, x := range r.list {
			if s-x.first <= x.last-x.first {
				came = append(came, s)
				break
			}
		}
	}
	return came, true
}
