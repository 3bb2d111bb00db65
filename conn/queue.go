package conn

import (
	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/invariants"
	"github.com/rds-go/rds/internal/wire"
)

// entry is one queued message. It fills a cache line: a stream of small
// messages walks the ring once for each of Fill, Wrote and Acked.
type entry struct {
	chunk  *chunk   // chunk that holds the header, and an inline payload
	body   *buf.Buf // the payload when it is not inline
	acct   *Account // nil for the core's own messages
	seq    uint64   // 0 until it is picked for its first transmission; of a silent operation the last message's
	end    uint64   // link offset just behind its last byte, once written
	token  uint64   // the sender's token; for a message with an operation the operation's id
	off    uint32   // offset of the header in chunk
	length uint32   // payload bytes
	sport  uint16
	dport  uint16
	flags  uint32
}

const (
	entryNotify   = 1 << iota // the sender wants the fate
	entryFailure              // the sender wants the fate unless that is success
	entryRetrans              // flagged RETRANSMITTED
	entryFlush                // sent to an earlier generation of the peer: not to be repeated
	entryCanceled             // settled; what is left of it, if it has begun, is still written
	entryPong                 // the core's own answer to a ping
	entryWritten              // some byte of the message was written on some link
	entryOp                   // the message has an operation
	entrySilent               // the entry is an operation alone and takes no bytes of the stream
	entryQuiet                // the entry waits only for its operation
	entryHole                 // settled before entries in front of it: only end counts
	entryExtended             // the header has extensions
	entryHeld                 // the message was held back: Counters.Held has counted it
	entryRefused              // the peer has said that nobody is bound to the destination port
	entryUnknown              // the peer has said that it does not know if the message was delivered
	entryLong                 // the peer does not take messages of this length, or has said so of this one
	entryLimited              // the message was never picked, and has a time limit, which is in seq
)

// head is the number of bytes in chunk: the header and an inline payload.
func (e *entry) head() int {
	if e.body != nil {
		return wire.HeaderSize
	}
	return wire.HeaderSize + int(e.length)
}

// size is the number of bytes of the message on the wire; that of a silent
// operation is a header's, though it is not written.
func (e *entry) size() int { return wire.HeaderSize + int(e.length) }

// memory is what a message is charged.
func (e *entry) memory() int { return e.size() + entryOverhead }

// queue is a ring of entries addressed by ever-growing positions:
//
//	first ≤ next ≤ tail   and   first ≤ fresh ≤ tail
//
// [first,next) has been written on the present link and is unacknowledged,
// [next,tail) waits; [first,fresh) was picked before, [fresh,tail) never.
type queue struct {
	ring                     []entry // length is a power of two
	first, next, fresh, tail uint64

	unsent int // bytes on the wire of [next,tail), whole messages
}

// verify checks unsent in short queues, where invariants are checked.
func (q *queue) verify() {
	if !invariants.Enabled || q.tail-q.next > 256 {
		return
	}
	n := 0
	for pos := q.next; pos < q.tail; pos++ {
		n += q.at(pos).size()
	}
	if n != q.unsent {
		panic("conn: unsent bytes miscounted")
	}
}

func (q *queue) at(pos uint64) *entry { return &q.ring[pos&uint64(len(q.ring)-1)] }

func (q *queue) len() int { return int(q.tail - q.first) }

func (q *queue) push() *entry {
	if q.len() == len(q.ring) {
		q.grow(max(16, 2*len(q.ring)))
	}
	e := q.at(q.tail)
	q.tail++
	return e
}

func (q *queue) grow(n int) {
	ring := make([]entry, n)
	for pos := q.first; pos != q.tail; pos++ {
		ring[pos&uint64(n-1)] = *q.at(pos)
	}
	q.ring = ring
}

// shrink gives an empty queue's memory back.
func (q *queue) shrink() {
	if q.len() == 0 && len(q.ring) > 64 {
		q.ring = nil
	}
}
