package driver

import (
	"math"
	"math/bits"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/transport"
)

const (
	streamGap   = 50 * time.Microsecond  // writes closer than this belong to a stream
	flushPause  = 30 * time.Microsecond  // pause of the flusher; up to 1 ms where all processors are idle
	streamDelay = 100 * time.Microsecond // a sender writes itself when its stream has waited so long
	inlineBytes = 4 << 20                // octets written in one go before the flusher takes over
	pollBytes   = 128 << 10              // unacknowledged octets that make a writer look for acknowledgements
)

// dueLocked follows Enqueue: it sees to it that somebody writes what was appended. It
// returns the path that the caller is to write, whose phase is writing then; -1: none.
func (d *Driver) dueLocked() int {
	if d.wants == 0 {
		return -1
	}
	i := bits.TrailingZeros8(d.wants)
	d.wants &^= 1 << i
	d.othersLocked()
	t := &d.path[i].tx
	if t.busy() || t.phase == full {
		return -1
	}
	now := d.rt.Now()
	fresh := d.arrivals.Load() != t.seen
	switch {
	case t.left() && (t.since >= d.burst || t.phase == pausing && (fresh || t.count&7 == 0 && now.Sub(t.last) >= streamDelay)):
	case t.left():
		return -1
	case !fresh && now.Sub(t.last) < streamGap:
		d.leaveLocked(i)
		return -1
	}
	t.to(stepWrite)
	return i
}

// othersLocked leaves to the flusher what was appended to paths that nobody writes.
func (d *Driver) othersLocked() {
	wants := d.wants
	d.wants = 0
	for ; wants != 0; wants &= wants - 1 {
		j := bits.TrailingZeros8(wants)
		if t := &d.path[j].tx; !t.busy() && t.phase != full && d.Core.Ready(j) {
			d.leaveLocked(j)
		}
	}
}

// leaveLocked leaves the writing of path i to the flusher.
func (d *Driver) leaveLocked(i int) {
	t := &d.path[i].tx
	if t.stopped {
		return
	}
	t.to(stepLeave)
	if t.resting { // a sender has written for itself meanwhile, and is to go on so
		t.to(stepPause)
	}
	if t.flusher == nil {
		t.flusher = d.rt.Worker(func() (time.Duration, bool) { return d.flush(i) })
	}
	t.flusher.Wake()
}

// flush is what the flusher of path i does when it was woken, and after each pause.
func (d *Driver) flush(i int) (pause time.Duration, again bool) {
	t := &d.path[i].tx
	d.mu.Lock()
	t.resting = false
	if t.phase == pausing {
		if d.rt.Now().Sub(t.last) < flushPause && !t.stopped { // a sender writes for itself
			t.resting = true
			d.mu.Unlock()
			return flushPause, true
		}
		t.to(stepTurn)
	}
	if !t.left() || t.stopped {
		if t.left() {
			t.to(stepDone)
		}
		d.release(nil)
		return 0, false
	}
	t.to(stepWrite)
	d.mu.Unlock()
	d.write(i, 1)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !t.left() {
		return 0, false
	}
	t.to(stepPause)
	t.resting = true
	return flushPause, true
}

// Push writes what has been left to collect: a sender calls it before it waits
// for room, which those messages may be what it needs.
func (d *Driver) Push() {
	for i := range d.path {
		d.mu.Lock()
		t := &d.path[i].tx
		if !t.left() {
			d.mu.Unlock()
			continue
		}
		t.to(stepWrite)
		d.mu.Unlock()
		d.write(i, inlineBytes)
	}
}

// Transmit writes what path i has to write, unless somebody else does.
func (d *Driver) Transmit(i int) {
	d.mu.Lock()
	t := &d.path[i].tx
	if t.busy() || t.phase == full {
		d.release(nil)
		return
	}
	t.to(stepWrite)
	d.mu.Unlock()
	d.write(i, inlineBytes)
}

// begin lets writers at a link that has been started.
func (d *Driver) begin(i int, id conn.LinkID) {
	d.mu.Lock()
	p := &d.path[i]
	if p.id != id || p.tx.phase != full {
		d.release(nil)
		return
	}
	p.tx.to(stepRoom)
	p.tx.to(stepWrite)
	d.mu.Unlock()
	d.write(i, inlineBytes)
}

// writable continues after the link was full.
func (d *Driver) writable(i int, id conn.LinkID) {
	d.mu.Lock()
	p := &d.path[i]
	if p.id != id {
		d.release(nil)
		return
	}
	p.tx.to(stepRoom)
	if p.tx.busy() { // the writer has not heard yet that the link was full
		d.release(nil)
		return
	}
	p.tx.to(stepWrite)
	link := p.link
	d.mu.Unlock()
	acked := link.Acked()
	d.mu.Lock()
	d.Core.Acked(i, acked)
	d.mu.Unlock()
	d.write(i, math.MaxInt)
}

// write writes until nothing is left, the link is full, or limit octets are out, in which
// case the flusher goes on. The caller has set the phase to writing. Senders append without
// writing while it is that, so only a Fill under the same hold of the lock that ends it may
// say that nothing is left.
func (d *Driver) write(i int, limit int) {
	d.mu.Lock()
	p := &d.path[i]
	t := &p.tx
	link, id := p.link, p.id
	d.wants &^= 1 << i
	t.since, t.count = 0, 0
	t.seen = d.arrivals.Load() // before the write: an answer may come before the write returns
	d.owner.Serve()
	for d.fillLocked(i) {
		t.to(stepWrite)
		d.mu.Unlock()
		n, err := link.Send(t.batch.Frames)
		d.tellOwner(&t.batch, n)
		d.mu.Lock()
		limit -= d.wroteLocked(i, n, err) + t.batch.Cost
		if err != nil && !aboutFrame(err) {
			d.Core.LinkFailed(id)
			break
		}
		if n.Frames < len(t.batch.Frames) && err == nil && t.phase != roomy {
			d.shortLocked(i)
			break
		}
		t.since = 0
		d.owner.Serve()
		if d.Core.Unacked(i) >= pollBytes {
			d.mu.Unlock()
			acked := link.Acked()
			d.mu.Lock()
			d.Core.Acked(i, acked)
		}
		if p.ended != nil {
			break
		}
		if limit <= 0 {
			if d.Core.Ready(i) {
				d.wants |= 1 << i
			}
			break
		}
	}
	ended, news, cause := d.endWriteLocked(i)
	d.release(nil)
	if ended {
		d.ended(i, cause, news)
	}
}

// shortLocked ends a write on a link that is full. A link that has ended says no more that it has
// room.
func (d *Driver) shortLocked(i int) {
	if p := &d.path[i]; p.ended == nil {
		p.tx.to(stepShort)
	}
}

// endWriteLocked is the end of a write. What is wanted is left to the flusher. It tells
// whether the link has ended meanwhile.
func (d *Driver) endWriteLocked(i int) (ended, news bool, cause error) {
	p := &d.path[i]
	t := &p.tx
	if p.caps.AcksTold && p.link != nil {
		d.Core.Acked(i, p.link.Acked()) // Acked is quick here
	}
	d.unclaimLocked(i)
	if t.busy() {
		t.to(stepDone)
	}
	t.last = d.rt.Now()
	p.history.Wrote = t.last
	d.othersLocked()
	d.partingLocked()
	if d.Core.Unacked(i) > 0 {
		d.watchAcksLocked()
	}
	e := p.ended
	switch {
	case e == nil:
		return false, false, nil
	case p.ops > 0:
		d.Core.LinkFailed(p.id) // the last operation to end goes on with the link's end
		return false, false, nil
	}
	return true, d.endLocked(i, p.id, e.cause, e.acked), e.cause
}

// tellOwner tells the owner which operations of a batch have begun. The caller is the writer.
func (d *Driver) tellOwner(b *conn.Batch, n transport.Taken) {
	for i, begun := 0, begunOf(b, n); i < len(b.Ops); i++ {
		if i < begun {
			d.owner.Begun(b.Ops[i].Op)
		} else {
			d.owner.NotBegun(b.Ops[i].Op)
		}
	}
}

// begunOf is how many of the operations of a batch a link has begun.
func begunOf(b *conn.Batch, n transport.Taken) (begun int) {
	for begun < len(b.Ops) && (b.Ops[begun].Frame < n.Frames || b.Ops[begun].Frame == n.Frames && n.Ops) {
		begun++
	}
	return begun
}

// aboutFrame tells whether an error of Send is about a frame, and not about the link.
func aboutFrame(err error) bool {
	_, ok := err.(*transport.FrameError)
	return ok
}

// fillLocked is conn.Conn.Fill, within the octets that the link of a path was granted, if
// it grants any. With too few of them for the next message the path waits for Writable.
//
// Credit on XRC is a reservation: a peer's node grants octets before they are sent
// (transport.Link.Claim), and a message gets its sequence number only with the octets for it
// in hand. What has none the core can hold back, if the peer says that a socket is full.
func (d *Driver) fillLocked(i int) bool {
	p := &d.path[i]
	b := &p.tx.batch
	l := p.link
	if !p.caps.Reserves {
		return l != nil && d.Core.Fill(i, b)
	}
	for {
		fresh := l.Claim()
		filled := d.Core.FillWithin(i, b, p.claimed, fresh)
		p.claimed += b.Octets
		l.Unclaim(fresh - b.Octets)
		if filled || b.Short == 0 {
			return filled
		}
		p.tx.to(stepWrite)
		if !l.Want(b.Short) {
			d.shortLocked(i)
			return false
		}
	}
}

// wroteLocked is conn.Conn.Wrote for the batch at hand, and ends the message of an operation
// that no link takes. It returns how many octets the link has taken.
func (d *Driver) wroteLocked(i int, n transport.Taken, err error) int {
	p := &d.path[i]
	b := &p.tx.batch
	octets := b.Taken(n)
	begun := begunOf(b, n)
	p.ops -= len(b.Ops) - begun
	d.Core.Wrote(i, n)
	if p.caps.Reserves {
		p.claimed -= octets
	}
	if aboutFrame(err) && begun < len(b.Ops) {
		d.Core.OpRefused(b.Ops[begun].Op)
	}
	return octets
}

// unclaimLocked gives back octets of messages that were picked and then canceled.
func (d *Driver) unclaimLocked(i int) {
	if p := &d.path[i]; p.claimed > 0 && p.link != nil && p.caps.Reserves && !d.Core.Picked(i) {
		p.link.Unclaim(p.claimed)
		p.claimed = 0
	}
}
