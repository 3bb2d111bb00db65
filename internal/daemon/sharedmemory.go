package daemon

import (
	"errors"
	"math/bits"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/lockorder"
)

// sharedSegment is a session's memory in the daemon, and how many still need
// what is in it: the session, bodies being sent from it, blocks of received
// payloads. When nobody does, its pages are given back; the address space
// follows when the garbage collector finds that nothing points to it any more,
// so that no reader of a cell ever meets an unmapped page.
type sharedSegment struct {
	*ipc.Segment
	holds atomic.Int64
	// spare leaves the pages to the application: the service ends, not the
	// application, which may go on reading what it was given.
	spare atomic.Bool
	file  *os.File // the segment's, for ipc.Touched
	gone  func()   // called when the pages have been given back
}

func newSharedSegment(s *ipc.Segment) *sharedSegment {
	g := &sharedSegment{Segment: s, gone: func() {}}
	g.holds.Store(1)
	runtime.AddCleanup(g, func(s *ipc.Segment) { _ = s.Close() }, s)
	return g
}

func (g *sharedSegment) hold() { g.holds.Add(1) }

func (g *sharedSegment) drop() {
	if g.holds.Add(-1) == 0 {
		if !g.spare.Load() {
			g.Discard()
		}
		g.gone()
	}
	runtime.KeepAlive(g) // the range of addresses is given away afterwards
}

// receiveMemory allocates the receive arena of a session. What it holds is the
// application's whatever becomes of the daemon: so it has room for all that peers may
// have under way, beyond soft bytes, which are what the application may have without
// peers being told to keep what they have for it.
type receiveMemory struct {
	sess *session
	seg  *sharedSegment
	area []byte
	soft int

	mu      lockorder.Mutex[receiveMemory] // a leaf
	arena   *ipc.Arena
	blocks  map[uint32]*block // allocated, by offset
	spare   []*block
	ended   bool
	touched int // end of what was ever allocated and not given back
	begun   int // bytes of blocks for messages that strangers have begun

	late atomic.Bool // more than soft bytes are in use
}

// block is an allocated piece of a receive arena: a slab of small messages, or
// one large one.
type block struct {
	buf.Buf
	mem  *receiveMemory
	sock *appSocket
	off  uint32
	size int
	lent atomic.Int64 // messages the application has and has not returned
	late bool         // the block was allocated when soft bytes were in use
	// begun: the block counts in receiveMemory.begun. Until whole it belongs to the event
	// loop that fills it.
	begun bool
}

func newReceiveMemory(x *session, soft int) *receiveMemory {
	return &receiveMemory{sess: x, seg: x.seg, area: x.seg.ReceiveArea(), soft: soft, arena: ipc.NewArena(x.seg.Receive), blocks: make(map[uint32]*block)}
}

// receiveArea is the size of a receive arena that has room for soft bytes, the backlog of
// its session, and twice what peers may have under way: what a message takes is up to
// twice its length.
func receiveArea(soft, backlog int, overrun int64) int {
	n := min(int64(soft)+int64(backlog)+2*overrun, maxReceiveArea)
	return 1 << bits.Len64(uint64(n-1))
}

// maxReceiveArea is the largest receive arena that internal/ipc knows.
const maxReceiveArea = 1 << 30

// allocLocked allocates n bytes.
func (r *receiveMemory) allocLocked(n int) (off, size int, ok bool) {
	if off, size, ok = r.arena.Alloc(n); !ok {
		return 0, 0, false
	}
	if !r.mayTouch(off, size) {
		r.arena.Release(off)
		return 0, 0, false
	}
	r.account(size)
	return off, size, true
}

// releaseLocked frees what allocLocked has allocated. Pages beyond soft bytes go back to
// the system when much less than that is in use.
func (r *receiveMemory) releaseLocked(off, size int) {
	r.arena.Release(off)
	r.account(-size)
	if off >= r.soft && !r.ended && r.arena.Empty(off) && r.arena.Size()-r.arena.Free() <= off/2 {
		r.seg.DiscardChunk(off)
	}
}

// account adds what of a change of n bytes lies beyond soft to the session's backlog.
func (r *receiveMemory) account(n int) {
	after := r.arena.Size() - r.arena.Free() - r.soft
	late := max(0, after) - max(0, after-n)
	if late == 0 {
		return
	}
	r.sess.queue.add(r.sess, int64(late))
	if was := r.late.Swap(after > 0); !was && after > 0 {
		r.sess.awaitReturns()
	}
}

// spill allocates a block of spilled completions.
func (r *receiveMemory) spill() (off uint32, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return 0, false
	}
	n, _, ok := r.allocLocked(ipc.SpillBlock)
	return uint32(n), ok
}

// unspill frees such a block.
func (r *receiveMemory) unspill(off uint32) {
	r.mu.Lock()
	r.releaseLocked(int(off), ipc.SpillBlock)
	r.mu.Unlock()
}

// get returns a block of n bytes for a socket, nil if there is none for it. If
// it is to be fair, a socket may have as much as is left free: however many are
// slow, there is always some left for one that has little (the dynamic
// threshold of shared packet buffers).
func (r *receiveMemory) get(a *appSocket, n int, fair bool) *block {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.getLocked(a, n, fair)
}

// strangersPart is the part of the arena that messages may have together that strangers have
// begun. A message is begun with its header and finished when its sender likes.
const strangersPart = 8

// begin is get for a message that a stranger has begun; whole ends that.
func (r *receiveMemory) begin(a *appSocket, n int) *block {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.begun+n > r.soft/strangersPart {
		return nil
	}
	k := r.getLocked(a, n, true)
	if k != nil {
		k.begun = true
		r.begun += k.size
	}
	return k
}

// Whole says that the message in the block has come whole.
func (k *block) Whole() {
	if !k.begun {
		return
	}
	k.mem.mu.Lock()
	k.wholeLocked()
	k.mem.mu.Unlock()
}

func (k *block) wholeLocked() {
	if k.begun {
		k.begun = false
		k.mem.begun -= k.size
	}
}

func (r *receiveMemory) getLocked(a *appSocket, n int, fair bool) *block {
	if r.ended || fair && int(a.arena.Load()) >= r.arena.Free() {
		return nil
	}
	off, size, ok := r.allocLocked(n)
	if !ok {
		return nil
	}
	var k *block
	if i := len(r.spare) - 1; i >= 0 {
		k, r.spare = r.spare[i], r.spare[:i]
	} else {
		k = &block{mem: r}
	}
	k.sock, k.off, k.size, k.late = a, uint32(off), size, r.late.Load()
	a.arena.Add(int64(size))
	r.blocks[k.off] = k
	r.seg.hold()
	k.Lend(r.area[off:off+n:off+size], k)
	return k
}

// maxSpareBlocks bounds the records kept for new blocks.
const maxSpareBlocks = 64

// Put is for buf: the last hold of the block is gone.
func (k *block) Put(*buf.Buf) {
	r := k.mem
	r.mu.Lock()
	k.wholeLocked()
	delete(r.blocks, k.off)
	r.releaseLocked(int(k.off), k.size)
	k.sock.arena.Add(-int64(k.size))
	k.sock = nil
	if len(r.spare) < maxSpareBlocks {
		r.spare = append(r.spare, k)
	}
	r.mu.Unlock()
	r.seg.drop()
}

// memoryFor is receiveMemory.get that has the application ring when it returns
// memory, if there is none.
func (x *session) memoryFor(a *appSocket, n int) *block {
	k := x.mem.get(a, n, false)
	if k == nil {
		x.awaitReturns()
		k = x.mem.get(a, n, false)
	}
	return k
}

// awaitReturns has the application ring when it returns memory.
func (x *session) awaitReturns() {
	x.seg.WantReturns().Set() // set even if it was set: a ring may have come before the return that it was for
	if !x.starving.Swap(true) {
		x.poke() // returns from before the flag was set have not been seen
	}
}

// errViolation ends the session of an application that does what no correct
// one does.
var errViolation = errors.New("rds: protocol violation")

// returned takes back n messages in the block at off, whose number the
// application says: it can only return what it has.
func (r *receiveMemory) returned(off uint32, n uint64) error {
	r.mu.Lock()
	k := r.blocks[off]
	if k == nil || n == 0 || n > uint64(k.lent.Load()) {
		r.mu.Unlock()
		return errViolation
	}
	k.lent.Add(-int64(n))
	a, late := k.sock, k.late
	r.mu.Unlock()
	k.ReleaseN(int(n))
	if late { // the session's backlog is to fall with what is returned
		a.s.Queue.Retire(&k.Buf)
	}
	return nil
}

// end takes everything back. Nothing is lent afterwards.
func (r *receiveMemory) end() {
	r.mu.Lock()
	r.ended = true
	var lent []*block
	for _, k := range r.blocks {
		if k.lent.Load() > 0 {
			lent = append(lent, k)
		}
	}
	r.mu.Unlock()
	for _, k := range lent {
		k.ReleaseN(int(k.lent.Swap(0)))
	}
}

// used is the number of bytes allocated.
func (r *receiveMemory) used() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.arena.Size() - r.arena.Free()
}

// sendBody is a payload that is sent from the application's arena.
type sendBody struct {
	buf.Buf
	sess *session
	off  uint32
}

// Put tells the application that the memory is its own again.
func (b *sendBody) Put(*buf.Buf) {
	x := b.sess
	x.out.freed(b.off)
	x.seg.drop()
	b.sess = nil
	sendBodies.Put(b)
}

// sendBodies are those not in use.
var sendBodies = sync.Pool{New: func() any { return new(sendBody) }}
