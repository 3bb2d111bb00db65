package rds

import (
	"math"
	"runtime"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/transport"
)

// transmitter is the sending half of a path, guarded by peer.mu.
//
// One goroutine at a time writes (net/rds/send.c, RDS_IN_XMIT); the others
// only append. Who finds the path idle writes at once, from its own goroutine:
// that is the fast way for a single message. A sender that comes back without
// anything having arrived in between, and soon, is streaming: its messages
// are left to collect until Config.TCP.Burst bytes have, and it writes them itself, or
// until the flusher has had its turn behind all goroutines that could run. A
// flusher that finds more when it has written does not compete with a sender
// that is quick enough to fill a write by itself: it pauses, and then writes
// only what a sender has left behind.
type transmitter struct {
	busy    bool // a writer is at work
	blocked bool // the link is full; Writable continues
	again   bool // the link has room again since the write under way began
	wanted  bool // a message was appended
	delayed bool // the flusher has been woken
	told    bool // the link has acknowledged something since the write under way began
	paused  bool // the flusher sleeps: a sender is filling a whole write by itself
	batch   conn.Batch

	seen  uint32 // peer.arrivals at the last write
	last  time.Time
	since int // bytes appended since the last write
	count int // messages appended since the last write

	flusher chan struct{} // wakes the flusher; nil before it is needed
	stopped bool
}

const (
	streamGap     = 50 * time.Microsecond  // writes closer than this belong to a stream
	flushPause    = 30 * time.Microsecond  // pause of the flusher; up to 1 ms where all processors are idle
	streamDelay   = 100 * time.Microsecond // a sender writes itself when its stream has waited so long
	inlineBytes   = 4 << 20                // bytes written in one go before the flusher takes over
	operationCost = 4 << 10                // bytes that an operation counts for in a write besides its memory
	pollBytes     = 128 << 10              // unacknowledged bytes that make a writer look for acknowledgements
)

// reset is for a new link.
func (t *transmitter) reset() { t.busy, t.blocked, t.wanted = false, false, false }

// stop ends the flusher.
func (t *transmitter) stop() {
	t.stopped = true
	if t.flusher != nil {
		close(t.flusher)
		t.flusher = nil
	}
}

// kickLocked follows Enqueue: it writes, or sees to it that somebody will. It
// unlocks p.mu.
func (p *peer) kickLocked(port int) {
	i := p.core.PathFor(uint16(port))
	t := &p.path[i].tx
	p.othersLocked(i)
	if !t.wanted || t.busy || t.blocked {
		p.unlock(nil)
		return
	}
	t.wanted = false
	fresh := p.arrivals.Load() != t.seen
	switch {
	case t.delayed && (t.since >= p.node.cfg.TCP.Burst || t.paused && (fresh || t.count&7 == 0 && time.Since(t.last) >= streamDelay)):
	case t.delayed:
		p.unlock(nil)
		return
	case !fresh && time.Since(t.last) < streamGap:
		p.delayLocked(i)
		p.unlock(nil)
		return
	}
	p.transmitLocked(i, inlineBytes)
}

// othersLocked sees to it that somebody writes the paths other than i that were
// appended to: an application's messages, taken from its ring or from its flow in
// one go, are of any path.
func (p *peer) othersLocked(i int) {
	wants := p.wants &^ (1 << i)
	p.wants = 0
	if wants == 0 {
		return
	}
	for j := range p.path {
		if t := &p.path[j].tx; j != i && wants&(1<<j) != 0 && !t.busy && !t.blocked && p.path[j].link != nil && p.core.Ready(j) {
			p.delayLocked(j)
		}
	}
}

// delayLocked leaves the writing to the flusher.
func (p *peer) delayLocked(i int) {
	t := &p.path[i].tx
	if t.stopped {
		return
	}
	t.delayed = true
	if t.flusher == nil {
		t.flusher = make(chan struct{}, 1)
		p.node.work.Add(1)
		go p.flush(i, t.flusher)
	}
	select {
	case t.flusher <- struct{}{}:
	default:
	}
}

// flush is the flusher of path i.
func (p *peer) flush(i int, wake <-chan struct{}) {
	defer p.node.work.Done()
	t := &p.path[i].tx
	for range wake {
		runtime.Gosched() // lets goroutines that can run add to the batch
		p.mu.Lock()
		for t.delayed && !t.busy && !t.blocked && !t.stopped && p.path[i].link != nil {
			p.transmitLocked(i, 1)
			p.mu.Lock()
			if !t.delayed {
				break
			}
			for t.paused = true; t.paused; { // repeat as long as a sender writes for itself
				p.mu.Unlock()
				time.Sleep(flushPause)
				p.mu.Lock()
				t.paused = t.delayed && time.Since(t.last) < flushPause && !t.stopped
			}
		}
		t.delayed = false
		p.unlock(nil)
	}
}

// push writes what has been left to collect: a sender calls it before it waits
// for room, which those messages may be what it needs.
func (p *peer) push() {
	for i := range p.path {
		p.mu.Lock()
		if t := &p.path[i].tx; t.delayed && !t.busy && !t.blocked {
			p.transmitLocked(i, inlineBytes)
		} else {
			p.mu.Unlock()
		}
	}
}

// transmit writes what path i has to write, unless somebody else does.
func (p *peer) transmit(i int) {
	p.mu.Lock()
	if t := &p.path[i].tx; t.busy || t.blocked {
		p.unlock(nil)
		return
	}
	p.transmitLocked(i, inlineBytes)
}

// transmitLocked writes until nothing is left, the link is full, or limit
// bytes are out, in which case the flusher goes on. Senders append without
// writing while it is busy, so only a Fill under the same hold of the lock that
// ends busy may say that nothing is left. It unlocks p.mu.
func (p *peer) transmitLocked(i int, limit int) {
	io := &p.path[i]
	t := &io.tx
	link, id := io.link, io.id
	if link == nil {
		p.unlock(nil)
		return
	}
	t.busy, t.delayed, t.wanted, t.since, t.count = true, false, false, 0, 0
	t.seen = p.arrivals.Load() // before the write: an answer may come before the write returns
	if len(p.flows) > 0 {
		p.serveLocked()
	}
	for p.fillLocked(i, t) {
		t.again = false
		p.mu.Unlock()
		n, err := link.Send(t.batch.Frames)
		p.given(&t.batch, n)
		p.mu.Lock()
		limit -= p.wroteLocked(i, n, err) + t.batch.Cost
		if err != nil && !aboutFrame(err) {
			p.core.LinkFailed(id)
			break
		}
		if n.Frames < len(t.batch.Frames) && err == nil && !t.again {
			t.blocked = io.ended == nil
			break
		}
		t.since = 0
		if len(p.flows) > 0 {
			p.serveLocked()
		}
		if p.core.Unacked(i) >= pollBytes {
			p.mu.Unlock()
			acked := link.Acked()
			p.mu.Lock()
			p.core.Acked(i, acked)
		}
		if io.ended != nil {
			break
		}
		if limit <= 0 {
			if p.core.Ready(i) {
				p.delayLocked(i)
			}
			break
		}
	}
	if t.told {
		t.told = false
		p.core.Acked(i, link.Acked()) // Acked is quick here: the link has told us
	}
	p.unclaimLocked(i)
	t.busy = false
	t.last = time.Now()
	p.othersLocked(i)
	if p.core.Unacked(i) > 0 {
		p.watchAcksLocked()
	}
	switch e := io.ended; {
	case e == nil:
	case io.ops > 0:
		p.core.LinkFailed(id) // the last operation to end goes on with the link's end
	default:
		io.ended = nil
		p.endedLocked(i, id, e.cause, e.acked)
		return
	}
	p.unlock(nil)
}

// begin lets writers at a link that has been started.
func (p *peer) begin(i int, id conn.LinkID) {
	p.mu.Lock()
	io := &p.path[i]
	if io.id != id || io.tx.busy {
		p.unlock(nil)
		return
	}
	io.tx.blocked = false
	p.transmitLocked(i, inlineBytes)
}

// writable continues after the link was full.
func (p *peer) writable(i int, id conn.LinkID) {
	p.mu.Lock()
	io := &p.path[i]
	if io.id != id {
		p.unlock(nil)
		return
	}
	io.tx.blocked = false
	if io.tx.busy {
		io.tx.again = true // the writer has not heard yet that the link was full
		p.unlock(nil)
		return
	}
	p.core.Acked(i, p.ackedUnlocked(io.link))
	if io.id != id || io.tx.busy {
		p.unlock(nil)
		return
	}
	p.transmitLocked(i, math.MaxInt)
}

// acked follows acknowledgements on path i's link.
func (p *peer) acked(i int, id conn.LinkID) {
	p.mu.Lock()
	io := &p.path[i]
	if io.link != nil && io.id == id {
		if io.tx.busy {
			io.tx.told = true // the writer passes it on once what it writes counts as written
		} else {
			p.core.Acked(i, io.link.Acked()) // Acked is quick here: the link has told us
		}
	}
	p.unlock(nil)
}

// ackedUnlocked asks a link for its acknowledgements with p.mu released.
func (p *peer) ackedUnlocked(l transport.Link) uint64 {
	p.mu.Unlock()
	defer p.mu.Lock()
	return l.Acked()
}

// Intervals at which acknowledgements are looked for: TCP tells of them
// without being asked only when its buffer was full.
const (
	ackEagerly = 100 * time.Microsecond // somebody waits for room
	ackFirst   = time.Millisecond
	ackLast    = 4 * time.Millisecond

	trimAfter = time.Second // a connection that is silent for so long gives memory back
)

// idleLocked tells whether nothing was written for a while.
func (p *peer) idleLocked() bool {
	for i := range p.path {
		if time.Since(p.path[i].tx.last) < trimAfter {
			return false
		}
	}
	return true
}

// watchAcksLocked sets the timer that looks for acknowledgements.
func (p *peer) watchAcksLocked() {
	if p.acksOn || p.gone.Load() {
		return
	}
	p.acksOn, p.acksWait = true, ackFirst
	for i := range p.path {
		p.path[i].history.progress = p.path[i].tx.last // nothing was unacknowledged before
	}
	p.setAcksLocked()
}

func (p *peer) setAcksLocked() {
	d := p.acksWait
	if p.ackEager {
		d = min(d, ackEagerly)
	}
	if p.acks == nil {
		p.acks = time.AfterFunc(d, p.lookForAcks)
	} else {
		p.acks.Reset(d)
	}
}

// pressed says that somebody waits for room: look for acknowledgements soon.
func (p *peer) pressed() {
	p.mu.Lock()
	if p.ackEager {
		p.askLocked()
	}
	p.pressedLocked()
	p.mu.Unlock()
}

func (p *peer) pressedLocked() {
	if !p.ackEager && p.acksOn {
		p.askLocked()
		p.ackEager = true
		p.acksWait = ackEagerly
		p.setAcksLocked()
	}
}

// askLocked asks the peer for the acknowledgements that it has not sent.
func (p *peer) askLocked() {
	for i := range p.path {
		if l := p.path[i].link; l != nil && p.core.Unacked(i) > 0 {
			l.Ask()
		}
	}
}

func (p *peer) lookForAcks() {
	if p.gone.Load() {
		return
	}
	progress := p.pollAcks()
	p.mu.Lock()
	switch {
	case !p.unackedLocked(): // asked under the lock that a writer holds when it looks at acksOn
		p.acksOn = false
		p.ackEager = false
		if p.idleLocked() {
			p.core.Trim()
		} else {
			p.acks.Reset(trimAfter) // looks again later; a writer sets an earlier time
		}
	case progress:
		p.ackEager = false
		p.acksWait = ackFirst
		p.setAcksLocked()
	default:
		p.acksWait = min(2*p.acksWait, ackLast)
		p.ackEager = false
		p.setAcksLocked()
	}
	p.mu.Unlock()
}

// unackedLocked tells whether messages wait for acknowledgement.
func (p *peer) unackedLocked() bool {
	for i := range p.path {
		if p.core.Unacked(i) > 0 {
			return true
		}
	}
	return false
}

// pollAcks looks for acknowledgements now and tells whether there were any.
func (p *peer) pollAcks() (progress bool) {
	p.mu.Lock()
	for i := range p.path {
		io := &p.path[i]
		before := p.core.Unacked(i)
		if io.link == nil || before == 0 {
			continue
		}
		id := io.id
		acked := p.ackedUnlocked(io.link)
		if io.id == id {
			p.core.Acked(i, acked)
		}
		progress = progress || p.core.Unacked(i) < before
		io.history.saw(p.core.AckedBytes(i), p.node.now())
	}
	p.unlock(nil)
	return progress
}
