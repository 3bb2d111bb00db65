package rds

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/ipc"
)

// recvQueue holds what a socket has received and nobody has taken.
//
// Receivers of messages append to in under mu; takers empty out under rmu and
// swap the two when out runs dry, so that neither side holds up the other for
// more than a swap. Small payloads are copied into slabs of this socket's own:
// a socket that is slow, or keeps its messages, holds only its own memory.
type recvQueue struct {
	rmu     sync.Mutex // guards out and the fields with it; locked before mu
	out     []recvItem
	outPos  int
	taken   int // bytes taken from out and not yet subtracted from bytes
	takenN  int
	small   int      // swaps in a row that used little of the memory
	outDest []Cookie // offered regions of messages in out, in the order of the messages

	mu      sync.Mutex
	in      []recvItem
	inDest  []Cookie
	slab    *buf.Buf
	used    int // bytes of slab handed out
	shares  int // messages in slab
	nextLen int // size of the next slab
	closed  bool

	bytes atomic.Int64 // payload bytes queued, in and out
	count atomic.Int64 // messages queued

	source memory    // where slabs come from; nil: the node's pool
	gone   *ipc.Cell // the cell that shows the daemon what was taken; nil: there is no daemon
	keep   [2]int    // bytes and messages of an earlier daemon, which are taken first and not shown
}

// memory is where buffers come from.
type memory interface{ Get(n int) *buf.Buf }

// recvItem is a queued message. Its payload is buf.B[off:off+length].
type recvItem struct {
	buf    *buf.Buf    // nil for an empty payload
	from   *netip.Addr // the sender's host
	seq    uint64
	off    uint32
	length uint32
	peer   uint32 // number of the connection, for applications
	sport  uint16
	path   uint8
	dest   bool // the message offers a region
}

const (
	minSlab    = 1 << 10
	maxSlab    = 64 << 10
	maxShares  = maxSlab // a slab is charged this many holders at first
	slabInline = 8 << 10 // larger payloads get a buffer of their own

	// itemCost is what a queued message counts for besides its payload when
	// memory is judged, so that empty messages are bounded too.
	itemCost = 64
)

// placeLocked copies payload into the slab.
func (q *recvQueue) placeLocked(pool memory, payload []byte) (*buf.Buf, int) {
	if q.source != nil {
		pool = q.source
	}
	n := len(payload)
	if n > slabInline {
		b := pool.Get(n)
		buf.Copy(b.B, payload)
		return b, 0
	}
	if q.slab == nil || q.used+n > len(q.slab.B) {
		q.retireLocked()
		q.nextLen = min(max(2*q.nextLen, minSlab, n), maxSlab)
		q.slab = pool.Get(max(q.nextLen, n))
		q.slab.B = q.slab.B[:cap(q.slab.B)]
		q.slab.Retain(maxShares)
	}
	off := q.used
	copy(q.slab.B[off:], payload)
	q.used += n
	q.shares++
	return q.slab, off
}

// retireLocked gives the slab to the messages in it.
func (q *recvQueue) retireLocked() {
	if q.slab != nil {
		q.slab.ReleaseN(1 + maxShares - q.shares)
		q.slab, q.used, q.shares = nil, 0, 0
	}
}

// retire is retireLocked if the slab is b.
func (q *recvQueue) retire(b *buf.Buf) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.slab == b {
		q.retireLocked()
	}
}

// pushLocked appends a message. The caller updates bytes and count.
func (q *recvQueue) pushLocked(it recvItem) { q.in = append(q.in, it) }

// next returns the oldest message without taking it, nil if there is none.
// The caller holds rmu.
func (q *recvQueue) next() *recvItem {
	if q.outPos < len(q.out) {
		return &q.out[q.outPos]
	}
	q.publish()
	if q.count.Load() == 0 {
		return nil
	}
	q.mu.Lock()
	spent := q.out[:0]
	if len(q.in) >= cap(spent)/8 || cap(spent) <= 4096 {
		q.small = 0
	} else if q.small++; q.small == 4096 {
		spent, q.small = nil, 0 // the burst is over: release its memory
	}
	q.out, q.in, q.outPos = q.in, spent, 0
	q.outDest, q.inDest = q.inDest, nil
	q.mu.Unlock()
	if len(q.out) == 0 {
		return nil
	}
	return &q.out[0]
}

// take removes the message that next returned. The caller holds rmu.
func (q *recvQueue) take(it *recvItem) {
	q.taken += int(it.length)
	q.takenN++
	if it.dest {
		q.outDest = q.outDest[1:]
	}
	*it = recvItem{}
	q.outPos++
}

// publish subtracts what was taken from the totals. The caller holds rmu.
func (q *recvQueue) publish() {
	if q.takenN > 0 {
		q.count.Add(-int64(q.takenN))
		q.bytes.Add(-int64(q.taken))
		if q.gone != nil {
			q.tell()
		}
		q.taken, q.takenN = 0, 0
	}
}

// tell says in the cell what was taken.
func (q *recvQueue) tell() {
	bytes, n := min(q.taken, q.keep[0]), min(q.takenN, q.keep[1])
	q.keep[0] -= bytes
	q.keep[1] -= n
	q.gone.TakenBytes.Add(uint64(q.taken - bytes))
	q.gone.TakenMessages.Add(uint64(q.takenN - n))
}

// cutOff follows the end of the daemon that has brought what is in the queue: the next one
// is not told when that is taken.
func (q *recvQueue) cutOff() {
	q.rmu.Lock()
	defer q.rmu.Unlock()
	q.publish()
	q.keep = [2]int{int(q.bytes.Load()), int(q.count.Load())}
	q.gone = nil
}

// unpublished is the number of messages taken that count still includes.
func (q *recvQueue) unpublished() int {
	q.rmu.Lock()
	defer q.rmu.Unlock()
	return q.takenN
}

// drop empties the queue for good.
func (q *recvQueue) drop() (messages int) {
	q.rmu.Lock()
	defer q.rmu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, items := range [][]recvItem{q.out[q.outPos:], q.in} {
		for i := range items {
			if b := items[i].buf; b != nil {
				b.Release()
			}
			messages++
		}
	}
	q.retireLocked()
	q.out, q.in, q.outPos = nil, nil, 0
	q.outDest, q.inDest = nil, nil
	q.bytes.Store(0)
	q.count.Store(0)
	q.taken, q.takenN = 0, 0
	return messages
}

func (q *recvQueue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// fill makes a Message of the item that next returned; the item's reference
// passes to it. The caller holds rmu.
func (q *recvQueue) fill(m *Message, it *recvItem) {
	m.Path = it.path
	m.Hold(it.buf)
	if it.dest {
		m.HasDest, m.Dest = true, q.outDest[0]
	}
	m.From = netip.AddrPortFrom(*it.from, it.sport)
	if it.buf != nil {
		m.Data = it.buf.B[it.off : it.off+it.length : it.off+it.length]
	}
}

// each shows what nobody has taken, the newest message first, until f returns false.
func (q *recvQueue) each(f func(*recvItem) bool) {
	q.rmu.Lock()
	defer q.rmu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, items := range [...][]recvItem{q.in, q.out[q.outPos:]} {
		for i := range slices.Backward(items) {
			if !f(&items[i]) {
				return
			}
		}
	}
}
