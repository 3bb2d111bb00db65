package iwarp

const (
	// quantum is how many octets a queue sends in its turn, while others wait.
	quantum = 64 << 10
	// leastCharge is what a message counts at least, also an empty one.
	leastCharge = 64
)

// turns are the queues that have messages to send now, in the order of their
// turns: deficit round robin, so that they share octets and not messages. A queue
// goes on until it has sent a quantum; what a long message took beyond that it
// pays back in the rounds that follow, also when it had nothing to send meanwhile.
// Choosing costs a step for each message and for each quantum sent.
type turns struct {
	ring  outQueue  // marks the end of a round among the queues
	at    *outQueue // the queue whose turn it is, or ring
	n     int
	round uint64 // number of the round under way
}

// turn is a queue's place in turns.
type turn struct {
	next, prev *outQueue // nil if the queue is not among turns
	due        uint64    // round of the queue's next turn
	round      uint64    // round of the queue's last turn
	spent      uint32    // octets of its quantum that the queue has sent in that turn
	urgent     bool      // the queue goes before its time
}

func (q *outQueue) inTurn() bool { return q.next != nil }

// add gives q a turn after all others, unless it has one.
func (t *turns) add(q *outQueue) {
	if !q.inTurn() {
		t.insert(q)
	}
}

// ahead gives q the next turn.
func (t *turns) ahead(q *outQueue) {
	if q.inTurn() {
		t.remove(q)
	}
	t.insert(q)
	t.at, q.urgent = q, true
}

// insert puts q before the one whose turn it is.
func (t *turns) insert(q *outQueue) {
	if t.at == nil {
		t.ring.next, t.ring.prev = &t.ring, &t.ring
		t.at = &t.ring
	}
	q.next, q.prev = t.at, t.at.prev
	q.prev.next, t.at.prev = q, q
	t.n++
}

// remove takes q out, which has nothing to send now.
func (t *turns) remove(q *outQueue) {
	if t.at == q {
		t.at = q.next
	}
	q.prev.next, q.next.prev = q.next, q.prev
	q.next, q.prev, q.urgent = nil, nil, false
	t.n--
}

// head is the queue whose turn it is, nil if there is none.
func (t *turns) head() *outQueue {
	if t.n == 0 {
		return nil
	}
	for t.at == &t.ring || !t.at.urgent && t.at.due > t.round {
		if t.at == &t.ring {
			t.round++
		}
		t.at = t.at.next
	}
	return t.at
}

// spend notes that q has sent a message of n octets.
func (t *turns) spend(q *outQueue, n uint32) {
	q.urgent = false
	if q.round < t.round {
		q.round, q.spent = t.round, 0
	}
	spent := uint64(q.spent) + uint64(max(n, leastCharge))
	q.spent = uint32(spent % quantum)
	if rounds := spent / quantum; rounds > 0 {
		q.due = max(q.due, t.round) + rounds
	}
}
