package rds

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/ipc"
)

// appSocket is the owner of an attached application's socket: what that has besides a socket
// of the node.
//
// Its receive queue continues in the application: what has been put on the
// completion ring counts as queued until the application says, in the cell,
// that it has taken it.
type appSocket struct {
	sess *session
	s    *nodeSocket
	id   uint32
	cell ipc.Cell

	arena     atomic.Int64 // bytes of the receive arena that hold this socket's messages
	heap      atomic.Int64 // messages in the receive queue that are in the node's memory
	gaveBytes atomic.Int64 // payload bytes put on the completion ring
	gaveCount atomic.Int64
	backlog   atomic.Int64 // this socket's part of the backlog of the session's queue

	// Guarded by completions.mu.
	queued bool   // on completions.waiting
	pack   *block // slab for messages that came in the node's memory
	packed int    // bytes of it used

	closing bool // no more calls are accepted, but submissions are; guarded by sess.mu

	gone atomic.Bool // the cell belongs to the slot's next socket; written under mu

	mu              sync.Mutex // guards the fields below and writes to the cell; a leaf
	held            int64      // memory of messages for peers that are down, as shown in the segment
	bytes, messages uint64     // settled bytes and messages, as shown in the cell
	before          [2]uint64  // bytes and messages that an earlier daemon has settled; constant
	counted         tallies    // the application's sums in the cell, as last read
}

// Get is the memory of the socket's slabs: the session's, or the node's when
// that is scarce.
func (a *appSocket) Get(n int) *buf.Buf {
	if b := a.get(n); b != nil {
		return b
	}
	return a.sess.node.pool.Get(n)
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

// place is get for a message that has come in part, from a stranger or not.
func (a *appSocket) place(n int, stranger bool) *buf.Buf {
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

// placedLocked follows the queueing of a message. The caller holds q.mu.
func (a *appSocket) placedLocked(b *buf.Buf) {
	if b == nil || b.Owner() != nil {
		return
	}
	if a.heap.Add(1) == 1 && a.s.q.slab != nil && a.s.q.slab.Owner() != nil {
		a.s.q.retireLocked()
	}
}

// outstanding is what the application has not taken yet of what it was given.
// It believes the application as far as that is possible: one that claims to
// have taken all is never congested, and its arena bounds what it gets.
func (a *appSocket) outstanding() (bytes, count int64) {
	if a.gone.Load() {
		return 0, 0
	}
	bytes = a.gaveBytes.Load() - int64(a.cell.TakenBytes.Load())
	count = a.gaveCount.Load() - int64(a.cell.TakenMessages.Load())
	runtime.KeepAlive(a)
	return min(max(bytes, 0), a.gaveBytes.Load()), min(max(count, 0), a.gaveCount.Load())
}

// waiting is what has come and the application has not taken. The lock of the
// queue is held while messages go from the queue to the application: they count once.
func (a *appSocket) waiting() (bytes, count int64) {
	q := &a.s.q
	q.rmu.Lock()
	defer q.rmu.Unlock()
	bytes, count = a.outstanding()
	return bytes + q.bytes.Load(), count + q.count.Load()
}

// heard is for owner.
func (a *appSocket) heard(peer uint32) { a.sess.heard.add(peer) }

// flows is for owner.
func (a *appSocket) flows() *flowSet { return &a.sess.flows }

// who is for owner.
func (a *appSocket) who() application {
	c := &a.sess.cred
	return application{whose{true, c.UID}, c.PID, a.sess.command}
}

// rings is for owner: whoever rang has cleared the flag.
func (a *appSocket) rings() bool {
	a.tell(true)
	return true
}

// deliver moves what has come for the socket to the completion ring. It tells whether the
// application has all messages that had come.
func (a *appSocket) deliver() (all bool) {
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
	for a.s.fates.n.Load() > 0 {
		if !c.has() {
			return false
		}
		switch {
		case !a.s.fates.take(&f, false):
		case f.Op != nil:
			if op := f.Op.Work.(*operation); hushed(op) {
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
	var (
		q     = &a.s.q
		run   *block // block whose messages of this call are not lent yet
		n     int64
		bytes int64
		count int64
	)
	lend := func() {
		if run != nil {
			run.lent.Add(n)
		}
		run, n = nil, 0
	}
	q.rmu.Lock()
	defer q.rmu.Unlock()
	for {
		it := q.next()
		if it == nil {
			all = true
			break
		}
		if c.room == 0 {
			lend() // before has, which may publish what run has lent
		}
		if !c.mayAdd() {
			break
		}
		var k *block
		if it.buf != nil {
			if k, _ = it.buf.Owner().(*block); k == nil || k.mem != a.sess.mem {
				if k = a.copyIn(it); k == nil {
					break
				}
			}
		}
		if k != run {
			lend()
			run = k
		}
		off, block := uint32(0), uint32(ipc.NoBlock)
		if k != nil {
			off, block = k.off+it.off, k.off
			n++
		}
		bytes += int64(it.length)
		count++
		flags, token := it.path, it.seq
		if it.dest {
			flags, token = flags|ipc.FlagDest, uint64(q.outDest[0])
		}
		c.addMessage(ipc.MakeEntry(ipc.OpMessage, flags, it.sport, a.id, it.peer, it.length, off, block, token))
		q.take(it)
	}
	lend()
	a.gaveBytes.Add(bytes)
	a.gaveCount.Add(count)
	a.received(-bytes, -count)
	q.publish()
	a.s.spare()
	return all
}

// copyIn moves an item into the session's memory. If there is none it asks for
// the bell when memory is returned.
func (a *appSocket) copyIn(it *recvItem) *block {
	n := int(it.length)
	k, off := a.pack, a.packed
	switch {
	case n > slabInline:
		if k, off = a.sess.memoryFor(a, n), 0; k == nil {
			return nil
		}
	case k == nil || off+n > k.size:
		if k, off = a.sess.memoryFor(a, maxSlab), 0; k == nil {
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
	copy(k.B[off:], it.buf.B[it.off:it.off+it.length])
	if it.buf.Owner() == nil {
		a.heap.Add(-1)
	}
	it.buf.Release()
	it.buf, it.off = &k.Buf, uint32(off)
	return k
}

// unpack gives the slab of copyIn up.
func (a *appSocket) unpack() {
	if a.pack != nil {
		a.pack.Release()
		a.pack, a.packed = nil, 0
	}
}

// watch has the application ring when it takes messages, as long as the port is
// congested. It looks at the flag under the lock: of two changes at once the later one
// counts, in whatever order they get here.
func (a *appSocket) watch() {
	x := a.sess
	x.congestedMu.Lock()
	defer x.congestedMu.Unlock()
	on := a.s.congested.Load()
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
		a.sess.node.counters.recvDropDead.Add(uint64(left))
	}
	a.s.shut()
	a.forgetBacklog()
}

// finish ends a socket that has left: it lingers for its messages. Its error is
// ErrBusy, or nil.
func (a *appSocket) finish() (d *DroppedError, err error) {
	x := a.sess
	a.await(time.Duration(a.s.linger.Swap(0)))
	if err = a.s.finish(); err != nil {
		errors.As(err, &d)
		switch {
		case !errors.Is(err, ErrBusy):
			err = nil
		case x.leaving.Load():
			err = a.s.cut()
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

// await waits until everything the socket has sent is acknowledged: at most d,
// once the session has ended at most the node's linger time, and not at all
// when the service cuts off what lingers.
func (a *appSocket) await(d time.Duration) {
	if d <= 0 {
		return
	}
	s, svc, ended := a.s, a.sess.svc, a.sess.done
	until := time.Now().Add(d)
	timer := time.NewTimer(d)
	defer timer.Stop()
	s.account.Watch(1)
	defer s.account.Watch(-1)
	for late := false; !late; {
		w := s.writers.add()
		s.node.pollAcks(s.la)
		if s.account.Messages() == 0 {
			s.writers.done(w)
			s.writers.wake(-1) // other senders may wait for the same room
			return
		}
		select {
		case <-w.c:
		case <-timer.C:
			late = true
		case <-svc.cut:
			late = true
		case <-ended:
			ended = nil
			timer.Reset(min(time.Until(until), max(0, s.node.cfg.Linger)))
		}
		s.writers.done(w)
	}
}

// settled tells the application what has become of its messages.
func (a *appSocket) settled() {
	a.mu.Lock()
	b, m := a.s.account.Settled()
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
	a.sess.credit(int64(db + dm*itemCost))
	if want {
		a.sess.out.event(ipc.OpRoom, a.id)
	}
}

// showHeld tells the application what of what it has submitted waits for peers that are
// down or hold it back.
func (a *appSocket) showHeld() {
	a.mu.Lock()
	defer a.mu.Unlock()
	bytes, messages := a.s.account.Held()
	memory := int64(bytes) + int64(messages)*itemCost
	total := a.sess.held.Add(memory - a.held)
	a.held = memory
	if !a.gone.Load() {
		a.cell.Held.Store(uint64(bytes))
	}
	a.sess.seg.Held().Store(uint64(max(0, total)))
	runtime.KeepAlive(a)
}

// reshared is reshare for the application's senders.
func (a *appSocket) reshared() {
	a.showHeld()
	a.mu.Lock()
	want := !a.gone.Load() && a.cell.WantRoom.Take()
	a.mu.Unlock()
	if want {
		a.sess.out.event(ipc.OpRoom, a.id)
	}
	a.sess.spaceNews()
}
