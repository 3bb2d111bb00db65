package socket

import (
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/rds/datagram"
)

// Queue holds what a socket has received and nobody has taken.
//
// Receivers of messages append to in under mu; takers empty out under rmu and
// swap the two when out runs dry, so that neither side holds up the other for
// more than a swap. Small payloads are copied into slabs of this socket's own:
// a socket that is slow, or keeps its messages, holds only its own memory.
type Queue struct {
	TakeMu  lockorder.Mutex[queueTakeMu] // guards out and the fields with it; locked before mu
	Out     []Item
	OutPos  int
	Taken   int // bytes taken from out and not yet subtracted from bytes
	TakenN  int
	small   int               // swaps in a row that used little of the memory
	OutDest []datagram.Cookie // offered regions of messages in out, in the order of the messages

	Mu      lockorder.Mutex[queueMu]
	In      []Item
	InDest  []datagram.Cookie
	Slab    *buf.Buf
	used    int // bytes of slab handed out
	shares  int // messages in slab
	nextLen int // size of the next slab
	Closed  bool

	Bytes atomic.Int64 // payload bytes queued, in and out
	Count atomic.Int64 // messages queued

	Source memory    // where slabs come from; nil: the node's pool
	Gone   *ipc.Cell // the cell that shows the daemon what was taken; nil: there is no daemon
	keep   [2]int    // bytes and messages of earlier daemons, which are taken first and not shown
	cuts   []cut     // where the messages of one daemon end and those of the next begin
}

// cut is the end of what a daemon has brought.
type cut struct {
	left int    // messages to be taken before
	loss uint64 // number of the daemon, in the order in which they were lost
}

// memory is where buffers come from.
type memory interface{ Get(n int) *buf.Buf }

// Item is a queued message. Its payload is buf.B[off:off+length].
type Item struct {
	Buf    *buf.Buf    // nil for an empty payload
	From   *netip.Addr // the sender's host
	Seq    uint64
	Off    uint32
	Length uint32
	Peer   uint32 // number of the connection, for applications
	Sport  uint16
	Path   uint8
	Dest   bool // the message offers a region
}

const (
	minSlab    = 1 << 10
	MaxSlab    = 64 << 10
	maxShares  = MaxSlab // a slab is charged this many holders at first
	SlabInline = 8 << 10 // larger payloads get a buffer of their own

	// ItemCost is what a queued message counts for besides its payload when
	// memory is judged, so that empty messages are bounded too.
	ItemCost = 64
)

// PlaceLocked copies payload into the slab.
func (q *Queue) PlaceLocked(pool memory, payload []byte) (*buf.Buf, int) {
	if q.Source != nil {
		pool = q.Source
	}
	n := len(payload)
	if n > SlabInline {
		b := pool.Get(n)
		buf.Copy(b.B, payload)
		return b, 0
	}
	if q.Slab == nil || q.used+n > len(q.Slab.B) {
		q.RetireLocked()
		q.nextLen = min(max(2*q.nextLen, minSlab, n), MaxSlab)
		q.Slab = pool.Get(max(q.nextLen, n))
		q.Slab.B = q.Slab.B[:cap(q.Slab.B)]
		q.Slab.Retain(maxShares)
	}
	off := q.used
	copy(q.Slab.B[off:], payload)
	q.used += n
	q.shares++
	return q.Slab, off
}

// RetireLocked gives the slab to the messages in it.
func (q *Queue) RetireLocked() {
	if q.Slab != nil {
		q.Slab.ReleaseN(1 + maxShares - q.shares)
		q.Slab, q.used, q.shares = nil, 0, 0
	}
}

// Retire is RetireLocked if the slab is b.
func (q *Queue) Retire(b *buf.Buf) {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	if q.Slab == b {
		q.RetireLocked()
	}
}

// PushLocked appends a message. The caller updates bytes and count.
func (q *Queue) PushLocked(it Item) { q.In = append(q.In, it) }

// Next returns the oldest message without taking it, nil if there is none.
// The caller holds rmu.
func (q *Queue) Next() *Item {
	if q.OutPos < len(q.Out) {
		return &q.Out[q.OutPos]
	}
	q.Publish()
	if q.Count.Load() == 0 {
		return nil
	}
	q.Mu.Lock()
	spent := q.Out[:0]
	if len(q.In) >= cap(spent)/8 || cap(spent) <= 4096 {
		q.small = 0
	} else if q.small++; q.small == 4096 {
		spent, q.small = nil, 0 // the burst is over: release its memory
	}
	q.Out, q.In, q.OutPos = q.In, spent, 0
	q.OutDest, q.InDest = q.InDest, nil
	q.Mu.Unlock()
	if len(q.Out) == 0 {
		return nil
	}
	return &q.Out[0]
}

// Take removes the message that next returned. The caller holds rmu.
func (q *Queue) Take(it *Item) {
	q.Taken += int(it.Length)
	q.TakenN++
	if it.Dest {
		q.OutDest = q.OutDest[1:]
	}
	*it = Item{}
	q.OutPos++
}

// Publish subtracts what was taken from the totals. The caller holds rmu.
func (q *Queue) Publish() {
	if q.TakenN > 0 {
		q.Count.Add(-int64(q.TakenN))
		q.Bytes.Add(-int64(q.Taken))
		q.tell()
		q.Taken, q.TakenN = 0, 0
	}
}

// tell says in the cell what was taken of what the daemon has brought.
func (q *Queue) tell() {
	bytes, n := min(q.Taken, q.keep[0]), min(q.TakenN, q.keep[1])
	q.keep[0] -= bytes
	q.keep[1] -= n
	for i := range q.cuts {
		q.cuts[i].left -= q.TakenN
	}
	if q.Gone != nil {
		q.Gone.TakenBytes.Add(uint64(q.Taken - bytes))
		q.Gone.TakenMessages.Add(uint64(q.TakenN - n))
	}
}

// atCut tells whether all was taken that a lost daemon has brought. The caller holds rmu.
func (q *Queue) atCut() bool { return len(q.cuts) > 0 && q.TakenN >= q.cuts[0].left }

// pass is atCut, once for each daemon, and its number. The caller holds rmu.
func (q *Queue) pass() (loss uint64, passed bool) {
	if !q.atCut() {
		return 0, false
	}
	loss = q.cuts[0].loss
	q.cuts = q.cuts[1:]
	return loss, true
}

// CutOff follows the end of a daemon, which has brought what is in the queue behind what earlier
// ones have: the next one is not told when that is taken. Its number is loss.
func (q *Queue) CutOff(loss uint64) {
	q.TakeMu.Lock()
	defer q.TakeMu.Unlock()
	q.Publish()
	q.keep = [2]int{int(q.Bytes.Load()), int(q.Count.Load())}
	q.cuts, q.Gone = append(q.cuts, cut{q.keep[1], loss}), nil
}

// unpublished is the number of messages taken that count still includes.
func (q *Queue) unpublished() int {
	q.TakeMu.Lock()
	defer q.TakeMu.Unlock()
	return q.TakenN
}

// Drop empties the queue for good.
func (q *Queue) Drop() (messages int) {
	q.TakeMu.Lock()
	defer q.TakeMu.Unlock()
	q.Mu.Lock()
	defer q.Mu.Unlock()
	q.Closed = true
	for _, items := range [][]Item{q.Out[q.OutPos:], q.In} {
		for i := range items {
			if b := items[i].Buf; b != nil {
				b.Release()
			}
			messages++
		}
	}
	q.RetireLocked()
	q.Out, q.In, q.OutPos = nil, nil, 0
	q.OutDest, q.InDest = nil, nil
	q.Bytes.Store(0)
	q.Count.Store(0)
	q.Taken, q.TakenN = 0, 0
	return messages
}

func (q *Queue) IsClosed() bool {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	return q.Closed
}

// fill makes a Message of the item that next returned; the item's reference
// passes to it. The caller holds rmu.
func (q *Queue) fill(m *datagram.Message, it *Item) {
	m.Path = it.Path
	m.Hold(it.Buf)
	if it.Dest {
		m.HasDest, m.Dest = true, q.OutDest[0]
	}
	m.From = netip.AddrPortFrom(*it.From, it.Sport)
	if it.Buf != nil {
		m.Data = it.Buf.B[it.Off : it.Off+it.Length : it.Off+it.Length]
	}
}

// Each shows what nobody has taken, the newest message first, until f returns false.
func (q *Queue) Each(f func(*Item) bool) {
	q.TakeMu.Lock()
	defer q.TakeMu.Unlock()
	q.Mu.Lock()
	defer q.Mu.Unlock()
	for _, items := range [...][]Item{q.In, q.Out[q.OutPos:]} {
		for i := range slices.Backward(items) {
			if !f(&items[i]) {
				return
			}
		}
	}
}
