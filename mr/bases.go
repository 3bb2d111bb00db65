package mr

import "time"

// queue is a queue of bases through their next fields; 0 is no base.
type queue struct {
	head, tail uint32
	n          int
}

// pushLocked puts a base at the end of one of the pool's queues.
func (p *pool) pushLocked(q *queue, index uint32, s *slot) {
	s.next = 0
	p.appendLocked(q, queue{index, index, 1})
}

func (p *pool) appendLocked(q *queue, more queue) {
	switch {
	case more.n == 0:
		return
	case q.n == 0:
		*q = more
		return
	}
	p.table.slot(q.tail).next = more.head
	q.tail = more.tail
	q.n += more.n
}

// baseLocked takes a base out of the queue. It prefers new ones until there
// are as many as the pool has items, so that a base comes again only after all others.
func (p *pool) baseLocked() (uint32, *slot) {
	if p.bases < p.config.Items || p.clean.n == 0 {
		if index, s := p.table.grow(p.class); s != nil {
			p.bases++
			return index, s
		}
		if p.clean.n == 0 && !p.wakeLocked(time.Now()) {
			return 0, nil
		}
	}
	index := p.clean.head
	s := p.table.slot(index)
	if p.clean.head = s.next; p.clean.head == 0 {
		p.clean.tail = 0
	}
	p.clean.n--
	s.next = 0
	return index, s
}

// wakeLocked puts bases that rested long enough back into the queue of clean
// ones. Two queues stand for a time of each base: it rests for one to two periods.
func (p *pool) wakeLocked(now time.Time) bool {
	before := p.bases
	for range p.resting {
		if now.Sub(p.turned) < p.rest {
			break
		}
		p.bases += p.resting[0].n
		p.appendLocked(&p.clean, p.resting[0])
		p.resting = [2]queue{p.resting[1], {}}
		p.turned = p.rested
	}
	return p.bases > before
}
