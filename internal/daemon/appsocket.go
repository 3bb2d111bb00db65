package daemon

import (
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/rds/info"
)

// appSocket is the owner of an attached application's socket: what that has besides a socket
// of the node.
//
// Its receive queue is in the application: what has been put on the completion ring counts
// as queued until the application says, in the cell, that it has taken it. The queue of the
// node's socket has what finds no room there (hand.go).
type appSocket struct {
	sess *session
	s    *node.Socket
	id   uint32
	cell ipc.Cell

	arena     atomic.Int64 // bytes of the receive arena that hold this socket's messages
	heap      atomic.Int64 // messages in the receive queue that are in the node's memory
	gaveBytes atomic.Int64 // payload bytes put on the completion ring
	gaveCount atomic.Int64
	backlog   atomic.Int64 // this socket's part of the backlog of the session's queue

	// Guarded by completions.mu.
	queued bool   // on completions.waiting
	run    run    // what is being put on the ring, and is not shown
	pack   *block // slab for messages that came in the node's memory
	packed int    // bytes of it used

	closing bool // no more calls are accepted, but submissions are; guarded by sess.mu

	call  uint64                    // the application's call that waits for the socket's end, 0: none; constant from then on
	until atomic.Pointer[time.Time] // when the socket lingers no more

	gone atomic.Bool // the cell belongs to the slot's next socket; written under mu

	mu              lockorder.Mutex[appSocket] // guards the fields below and writes to the cell; a leaf
	held            int64                      // memory of messages for peers that are down, as shown in the segment
	bytes, messages uint64                     // settled bytes and messages, as shown in the cell
	before          [2]uint64                  // bytes and messages that an earlier daemon has settled; constant
	counted         tallies                    // the application's sums in the cell, as last read
}

// Get is the memory of the socket's slabs: the session's, or the node's when
// that is scarce.
func (a *appSocket) Get(n int) *buf.Buf {
	if b := a.get(n); b != nil {
		return b
	}
	return a.sess.node.Pool.Get(n)
}

// get returns memory of the session, nil if the socket shall have none. What
// follows a message in the node's memory goes there too: otherwise messages in
// the arena could wait behind one that waits for room in the arena.
func (a *appSocket) get(n int) *buf.Buf {
	if a.heap.Load() > 0 {
		return nil
	}
	if k := a.sess.mem.get(a, n, true); k != nil {
		return &k.Buf
	}
	return nil
}

// Place is get for a message that has come in part, from a stranger or not.
func (a *appSocket) Place(n int, stranger bool) *buf.Buf {
	switch {
	case !stranger:
		return a.get(n)
	case a.heap.Load() > 0:
		return nil
	}
	if k := a.sess.mem.begin(a, n); k != nil {
		return &k.Buf
	}
	return nil
}

// PlacedLocked follows the queueing of a message. The caller holds q.mu.
func (a *appSocket) PlacedLocked(b *buf.Buf) {
	if b == nil || b.Owner() != nil {
		return
	}
	if a.heap.Add(1) == 1 && a.s.Queue.Slab != nil && a.s.Queue.Slab.Owner() != nil {
		a.s.Queue.RetireLocked()
	}
}

// Outstanding is what the application has not taken yet of what it was given.
// It believes the application as far as that is possible: one that claims to
// have taken all is never congested, and its arena bounds what it gets.
func (a *appSocket) Outstanding() (bytes, count int64) {
	if a.gone.Load() {
		return 0, 0
	}
	bytes = a.gaveBytes.Load() - int64(a.cell.TakenBytes.Load())
	count = a.gaveCount.Load() - int64(a.cell.TakenMessages.Load())
	runtime.KeepAlive(a)
	return min(max(bytes, 0), a.gaveBytes.Load()), min(max(count, 0), a.gaveCount.Load())
}

// Waiting is what has come and the application has not taken. The lock of the
// queue is held while messages go from the queue to the application: they count once.
func (a *appSocket) Waiting() (bytes, count int64) {
	q := &a.s.Queue
	q.TakeMu.Lock()
	defer q.TakeMu.Unlock()
	bytes, count = a.Outstanding()
	return bytes + q.Bytes.Load(), count + q.Count.Load()
}

// Heard is for node.Owner.
func (a *appSocket) Heard(peer uint32) { a.sess.heard.Add(peer) }

// Flows is for node.Owner.
func (a *appSocket) Flows() *node.FlowSet { return &a.sess.flows }

// Who is for node.Owner.
func (a *appSocket) Who() node.Application {
	c := &a.sess.cred
	return node.Application{Whose: info.Whose{App: true, UID: c.UID}, PID: c.PID, Command: a.sess.command}
}

// Rings is for node.Owner: whoever rang has cleared the flag.
func (a *appSocket) Rings() bool {
	a.tell(true)
	return true
}

// Deliver moves what has come for the socket to the completion ring. It tells whether the
// application has all messages that had come.
func (a *appSocket) Deliver() (all bool) {
	c := &a.sess.out
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.queued { // a is in the queue for its turn
		all = a.dataLocked()
	} else {
		all = a.deliverLocked()
	}
	c.publish()
	return all
}

// deliverLocked puts fates and messages on the ring. When it cannot put all,
// the socket waits its turn. It tells whether it has put all messages.
func (a *appSocket) deliverLocked() (all bool) {
	c := &a.sess.out
	if c.closed || a.gone.Load() {
		return false
	}
	fates := a.fatesLocked()
	if all = a.dataLocked(); !(fates && all) && !c.closed {
		a.queued = true
		c.waiting = append(c.waiting, a)
	}
	return all
}

func (a *appSocket) fatesLocked() bool {
	c := &a.sess.out
	var f conn.Fate
	for a.s.Fates.N.Load() > 0 {
		if !c.has() {
			return false
		}
		switch {
		case !a.s.Fates.Take(&f, false):
		case f.Op != nil:
			if op := f.Op.Work.(*node.Operation); hushed(op) {
				c.hush(completion(op, a.id, f.Status))
			} else {
				c.add(completion(op, a.id, f.Status))
			}
		default:
			c.add(ipc.MakeEntry(ipc.OpFate, 0, 0, a.id, 0, uint32(f.Status), 0, 0, f.Token))
		}
	}
	return true
}

func (a *appSocket) dataLocked() (all bool) {
	c := &a.sess.out
	if c.closed || a.gone.Load() {
		return false
	}
	q := &a.s.Queue
	q.TakeMu.Lock()
	defer q.TakeMu.Unlock()
	for {
		it := q.Next()
		if it == nil {
			all = true
			break
		}
		if c.room == 0 {
			a.run.lend() // before mayAdd, which may show what is on the ring
		}
		if !c.mayAdd() {
			break
		}
		var k *block
		if it.Buf != nil {
			heap := it.Buf.Owner() == nil
			if k = a.own(it); k == nil {
				break
			}
			if heap {
				a.heap.Add(-1)
			}
		}
		dest := datagram.Cookie(0)
		if it.Dest {
			dest = q.OutDest[0]
		}
		a.run.add(k, it.Length)
		c.addMessage(a.message(it, k, dest))
		q.Take(it)
	}
	a.Received(-a.run.bytes, -a.run.count)
	a.gaveLocked()
	q.Publish()
	a.s.Spare()
	return all
}

// own is the block of an item, which is moved into the session's memory if it is not there;
// nil: there is no room. The caller holds completions.mu.
func (a *appSocket) own(it *socket.Item) *block {
	if k, _ := it.Buf.Owner().(*block); k != nil && k.mem == a.sess.mem {
		return k
	}
	return a.copyIn(it)
}

// copyIn moves an item into the session's memory. If there is none it asks for
// the bell when memory is returned.
func (a *appSocket) copyIn(it *socket.Item) *block {
	n := int(it.Length)
	k, off := a.pack, a.packed
	switch {
	case n > socket.SlabInline:
		if k, off = a.sess.memoryFor(a, n), 0; k == nil {
			return nil
		}
	case k == nil || off+n > k.size:
		if k, off = a.sess.memoryFor(a, socket.MaxSlab), 0; k == nil {
			return nil
		}
		a.unpack()
		k.B = k.B[:k.size]
		a.pack = k
		fallthrough
	default:
		k.Retain(1)
		a.packed = off + n
	}
	copy(k.B[off:], it.Buf.B[it.Off:it.Off+it.Length])
	it.Buf.Release()
	it.Buf, it.Off = &k.Buf, uint32(off)
	return k
}

// unpack gives the slab of copyIn up.
func (a *appSocket) unpack() {
	if a.pack != nil {
		a.pack.Release()
		a.pack, a.packed = nil, 0
	}
}

// Watch has the application ring when it takes messages, as long as the port is
// congested. It looks at the flag under the lock: of two changes at once the later one
// counts, in whatever order they get here.
func (a *appSocket) Watch() {
	x := a.sess
	x.congestedMu.Lock()
	defer x.congestedMu.Unlock()
	on := a.s.Congested.Load()
	if on && !a.gone.Load() { // otherwise finish has removed a from congested
		x.congested[a] = struct{}{}
	} else {
		delete(x.congested, a)
	}
	a.tell(on)
}

// tell sets or clears the flag in the cell.
func (a *appSocket) tell(on bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.gone.Load():
	case on:
		a.cell.Tell.Set()
	default:
		a.cell.Tell.Clear()
	}
}

// leave is the socket's end but for what it has sent: its port, and its cell,
// are free. The caller has it linger (Service.linger).
func (a *appSocket) leave() {
	a.mu.Lock()
	left := a.tallyLocked()
	a.gone.Store(true)
	a.mu.Unlock()
	if !a.sess.leaving.Load() { // while the session leaves, the application goes on receiving what is on the ring
		a.sess.node.Counters.RecvDropDead.Add(uint64(left))
	}
	a.s.Shut()
	a.forgetBacklog()
}

// finish ends a socket that has left: it lingers for its messages. Its error is
// ErrBusy, or nil.
func (a *appSocket) finish() (d *datagram.DroppedError, err error) {
	x := a.sess
	a.await(time.Duration(a.s.Linger.Swap(0)))
	if err = a.s.Finish(); err != nil {
		errors.As(err, &d)
		switch {
		case !errors.Is(err, datagram.ErrBusy):
			err = nil
		case x.leaving.Load():
			err = a.s.Cut()
		}
	}
	a.showHeld()
	x.out.forget(a)
	a.forgetBacklog()
	x.congestedMu.Lock()
	delete(x.congested, a)
	x.congestedMu.Unlock()
	x.lingering.Add(-1)
	x.svc.lingered(a, d)
	return d, err
}

// Settled tells the application what has become of its messages.
func (a *appSocket) Settled() {
	a.mu.Lock()
	b, m := a.s.Account.Settled()
	b, m = b+a.before[0], m+a.before[1]
	db, dm := b-a.bytes, m-a.messages
	a.bytes, a.messages = b, m
	want := false
	if !a.gone.Load() {
		a.cell.FreedBytes.Store(b)
		a.cell.FreedMessages.Store(m)
		want = a.cell.WantRoom.Take()
	}
	held := a.held
	a.mu.Unlock()
	if held != 0 {
		a.showHeld() // before the application hears of room
	}
	a.sess.credit(int64(db + dm*socket.ItemCost))
	if want {
		a.sess.out.event(ipc.OpRoom, a.id)
	}
}

// showHeld tells the application what of what it has submitted waits for peers that are
// down or hold it back. One that has ended elsewhere sees nothing.
func (a *appSocket) showHeld() {
	if a.sess.seg == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	bytes, messages := a.s.Account.Held()
	memory := int64(bytes) + int64(messages)*socket.ItemCost
	total := a.sess.held.Add(memory - a.held)
	a.held = memory
	if !a.gone.Load() {
		a.cell.Held.Store(uint64(bytes))
	}
	a.sess.seg.Held().Store(uint64(max(0, total)))
	runtime.KeepAlive(a)
}

// Reshared is reshare for the application's senders.
func (a *appSocket) Reshared() {
	a.showHeld()
	a.mu.Lock()
	want := !a.gone.Load() && a.cell.WantRoom.Take()
	a.mu.Unlock()
	if want {
		a.sess.out.event(ipc.OpRoom, a.id)
	}
	a.sess.spaceNews()
}
