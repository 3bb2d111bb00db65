package ipc

import (
	"sync/atomic"
	"unsafe"
)

// Queue is one end of a queue of records of one size in the memory area, where the application
// has chosen to have it: a queue of work requests, receives or completions of XRC. Indices only
// grow; a record is at its index modulo the size. What is beside them says who wants to hear:
//
//	0x000  tail: records put      its producer
//	0x080  head: records taken    its consumer
//	0x100  flag of the application's: it has put records; or it wants OpWork when there is a completion
//	0x180  flag of the daemon's: it wants to be told when completions were taken
//	0x200  records
//
// One side may be hostile: each keeps its own index to itself, and reads the other's once with
// each look.
type Queue struct {
	Asked, Wanted Flag

	records  []byte
	record   int
	n        uint64
	own      uint64 // this side's index
	other    uint64 // the other side's index, as last read
	pub, sub *atomic.Uint64
	produces bool
}

const (
	offQueueTail   = 0x000
	offQueueHead   = 0x080
	offQueueAsked  = 0x100
	offQueueWanted = 0x180
	queueHead      = 0x200
)

// MaxQueue is the most records that a Queue has.
const MaxQueue = 1 << 16

// QueueSize is how much memory a queue of n records takes.
func QueueSize(record, n int) int { return queueHead + record*n }

// NewQueue is an end of the queue of n records in mem, which begins where a record of 8 bytes may:
// the producer's, or the consumer's. It is false if there is no such queue.
func NewQueue(mem []byte, record, n int, produces bool) (*Queue, bool) {
	if n < 1 || n > MaxQueue || n&(n-1) != 0 || len(mem) != QueueSize(record, n) || !aligned(mem) {
		return nil, false
	}
	q := &Queue{records: mem[queueHead:], record: record, n: uint64(n), produces: produces,
		Asked: Flag{atomic32(mem[offQueueAsked:])}, Wanted: Flag{atomic32(mem[offQueueWanted:])}}
	q.pub, q.sub = atomic64(mem[offQueueTail:]), atomic64(mem[offQueueHead:])
	if !produces {
		q.pub, q.sub = q.sub, q.pub
	}
	return q, true
}

// Ready is for how many records there is room, or how many there are to be taken. It looks at the
// other side's index if fewer than want are known.
func (q *Queue) Ready(want int) (int, error) {
	n := q.known()
	if n >= uint64(want) {
		return int(n), nil
	}
	// The other side's index moves by no more than what this side has left to it.
	other := q.sub.Load()
	if other-q.other > q.n-n {
		return 0, ErrCorrupt
	}
	q.other = other
	return int(q.known()), nil
}

func (q *Queue) known() uint64 {
	if q.produces {
		return q.n - (q.own - q.other)
	}
	return q.other - q.own
}

// Record is the memory of the i-th record that is ready.
func (q *Queue) Record(i int) []byte {
	at := int((q.own + uint64(i)) & (q.n - 1))
	return q.records[at*q.record : (at+1)*q.record : (at+1)*q.record]
}

// Advance puts, or takes, n records.
func (q *Queue) Advance(n int) {
	q.own += uint64(n)
	q.pub.Store(q.own)
}

// Len is how many records the queue has room for.
func (q *Queue) Len() int { return int(q.n) }

func aligned(mem []byte) bool { return uintptr(unsafe.Pointer(unsafe.SliceData(mem)))%8 == 0 }
