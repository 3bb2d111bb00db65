package daemon

import (
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/datagram"
)

// A message goes from the event loop straight to the application's completion ring. It is
// queued in the daemon only if the ring or the arena has no room for it, or others are queued;
// what is queued follows when the application has made room (dataLocked).

// run counts messages that are put on the ring, one after the other.
type run struct {
	block *block // block of the latest messages, nil if they have none
	lent  int64  // messages in block that are not lent yet
	bytes int64  // payload bytes of all messages
	count int64  // number of all messages
}

// add counts a message, which is in k unless k is nil.
func (r *run) add(k *block, n uint32) {
	if k != r.block {
		r.lend()
		r.block = k
	}
	if k != nil {
		r.lent++
	}
	r.bytes += int64(n)
	r.count++
}

// lend has the application have the messages of the block: before it can see them.
func (r *run) lend() {
	if r.block != nil {
		r.block.lent.Add(r.lent)
	}
	r.block, r.lent = nil, 0
}

// gaveLocked ends a run.
func (a *appSocket) gaveLocked() {
	r := &a.run
	r.lend()
	a.gaveBytes.Add(r.bytes)
	a.gaveCount.Add(r.count)
	r.bytes, r.count = 0, 0
}

// message is the entry of a message in k, or of an empty one.
func (a *appSocket) message(it *socket.Item, k *block, dest datagram.Cookie) ipc.Entry {
	off, block := uint32(0), uint32(ipc.NoBlock)
	if k != nil {
		off, block = k.off+it.Off, k.off
	}
	flags, token := it.Path, it.Seq
	if it.Dest {
		flags, token = flags|ipc.FlagDest, uint64(dest)
	}
	return ipc.MakeEntry(ipc.OpMessage, flags, it.Sport, a.id, it.Peer, it.Length, off, block, token)
}

// Enter is for node.Owner: it locks completions.mu until Left if messages can be handed over.
func (a *appSocket) Enter() bool {
	c := &a.sess.out
	if a.s.Queue.Count.Load() > 0 {
		return false
	}
	c.mu.Lock()
	if c.closed || a.gone.Load() || len(c.left) > 0 || c.spill.Len() > 0 {
		c.mu.Unlock()
		return false
	}
	return true
}

// Hand is for node.Owner. What else may be on the ring by then is not shown: Left does that.
func (a *appSocket) Hand(it socket.Item, dest datagram.Cookie) bool {
	c := &a.sess.out
	if c.room == 0 && !c.look() {
		return false
	}
	var k *block
	if it.Buf != nil {
		if k = a.own(&it); k == nil {
			return false
		}
	}
	a.run.add(k, it.Length)
	c.add(a.message(&it, k, dest))
	return true
}

// Left is for node.Owner. The application is woken by Deliver, at the end of the burst.
func (a *appSocket) Left() {
	c := &a.sess.out
	a.gaveLocked()
	c.ring.Publish()
	c.mu.Unlock()
}
