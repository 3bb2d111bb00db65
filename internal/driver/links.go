package driver

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/transport"
)

// Link is the link of path i, nil if it has none that was started, with the lock.
func (d *Driver) Link(i int) transport.Link { return d.path[i].link }

// Carrying is the link that the core has given path i, started or not, nil if there is
// none, with the lock.
func (d *Driver) Carrying(i int) transport.Link { return d.links[d.Core.Link(i)] }

// Links are the links that have not ended, with the lock.
func (d *Driver) Links() []transport.Link {
	list := make([]transport.Link, 0, len(d.links))
	for _, l := range d.links {
		list = append(list, l)
	}
	return list
}

// Linked is the number of links that have not ended, with the lock.
func (d *Driver) Linked() int { return len(d.links) }

// Inbound is the receive sequence of path i. It is the receiver's, if there is a link.
func (d *Driver) Inbound(i int) *conn.Inbound { return &d.path[i].in }

// Refusals are what was refused on path i. They are the receiver's, if there is a link.
func (d *Driver) Refusals(i int) *Refusals { return &d.path[i].refused }

// NextRX is one more than the last sequence number that came on path i.
func (d *Driver) NextRX(i int) uint64 { return d.path[i].nextRX.Load() }

// Resume has path i go on receiving where a predecessor has stopped.
func (d *Driver) Resume(i int, list ...conn.Received) {
	io := &d.path[i]
	io.in = conn.InboundFrom(list...)
	io.nextRX.Store(io.in.Next())
}

func (d *Driver) dial(i int) {
	ctx, cancel := context.WithCancel(context.Background())
	d.mu.Lock()
	if d.gone.Load() {
		d.Core.DialFailed(d.rt.Now(), i)
		d.Commit()
		cancel()
		return
	}
	d.path[i].cancel = cancel
	d.path[i].history.wanted(d.rt.Now())
	d.owner.Dial(ctx, i)
	d.mu.Unlock()
}

// Dialed is the outcome of Owner.Dial: a link, or an error.
func (d *Driver) Dialed(i int, l transport.Link, err error) {
	d.mu.Lock()
	if cancel := d.path[i].cancel; cancel != nil {
		cancel()
		d.path[i].cancel = nil
	}
	dialed := err == nil
	if dialed {
		err = d.owner.Takes(l)
	}
	if err != nil {
		d.path[i].history.failed(err)
		d.needLocked()
		d.Core.DialFailed(d.rt.Now(), i)
	} else {
		d.Core.Dialed(d.rt.Now(), i, d.registerLocked(l))
	}
	d.partingLocked()
	d.armLocked()
	d.Commit()
	if dialed && err != nil {
		l.Close(transport.Abort)
	}
	d.owner.Idle()
}

func (d *Driver) registerLocked(l transport.Link) conn.LinkID {
	d.nextLink++
	d.links[d.nextLink] = l
	return d.nextLink
}

// Accepted offers a link that the peer has made, from a source port.
func (d *Driver) Accepted(l transport.Link, sport uint16) {
	d.mu.Lock()
	if path := l.Caps().Path; path >= 0 {
		d.Core.AcceptedFor(d.rt.Now(), d.registerLocked(l), path)
	} else {
		d.Core.Accepted(d.rt.Now(), d.registerLocked(l), sport)
	}
	d.armLocked()
	d.Commit()
}

// start puts a link to use.
func (d *Driver) start(i int, id conn.LinkID) {
	d.mu.Lock()
	l := d.links[id]
	p := &d.path[i]
	if l == nil || d.Core.Link(i) != id {
		d.mu.Unlock()
		return
	}
	p.link, p.id, p.caps, p.claimed = l, id, l.Caps(), 0
	p.history.opened(d.rt.Now())
	inbound := !d.Core.Outbound(i)
	p.tx.to(stepLink) // a link that is not started does not report that it has room
	if !p.caps.Operations {
		d.Core.Plain(i)
	}
	if p.caps.TellsLater {
		d.Core.ByTCP(i)
	} else {
		d.Core.Takes(i, p.caps.Limit)
	}
	d.owner.LinkUp(i, l)
	before := d.stateLocked()
	if p.caps.GenerationStated {
		d.Core.Meets(d.rt.Now(), i, p.caps.Generation)
		d.Sync()
	}
	now := d.stateLocked()
	d.release(nil)
	if now.Generation != before.Generation {
		d.owner.Met(before, State{now.Generation, before.Paths})
	}
	d.owner.Started(i, l, inbound)
	r := newReceiver(d, i, id, l)
	if err := l.Start(&handler{r}); err != nil {
		r.sink.Closed()
		l.Close(transport.Abort)
		d.linkEnded(i, id, err, 0)
		return
	}
	d.begin(i, id)
}

func (d *Driver) stateLocked() State { return State{d.Core.PeerGeneration(), d.Core.Paths()} }

// closeLink ends a link. One that was not started does not report its end: where it is a
// path's, because who is to start it has not come to that yet, the core hears of it here.
func (d *Driver) closeLink(id conn.LinkID) {
	d.mu.Lock()
	l, started := d.links[id], d.startedLocked(id)
	if !started {
		delete(d.links, id)
	}
	d.mu.Unlock()
	if l != nil {
		l.Close(transport.Drain)
	}
	if started {
		return
	}
	d.mu.Lock()
	d.Core.LinkClosed(d.rt.Now(), id, 0)
	d.partingLocked()
	d.armLocked()
	d.Commit()
	d.owner.Idle()
}

func (d *Driver) startedLocked(id conn.LinkID) bool {
	for i := range d.path {
		if d.path[i].id == id {
			return true
		}
	}
	return false
}

// linkEnded reports the end of a link to the core, once no writer is at work and
// the link has given back all operations.
func (d *Driver) linkEnded(i int, id conn.LinkID, cause error, acked uint64) {
	d.mu.Lock()
	p := &d.path[i]
	if p.id == id && (p.tx.busy() || p.ops > 0) {
		p.ended = &linkEnd{cause, acked}
		if !p.tx.busy() {
			d.Core.LinkFailed(id)
		}
		d.release(nil)
		return
	}
	news := d.endLocked(i, id, cause, acked)
	d.release(nil)
	d.ended(i, cause, news)
}

// endLocked is the end of a link for the core. It tells whether the ports of the peer that
// take messages have changed. ended is to follow.
func (d *Driver) endLocked(i int, id conn.LinkID, cause error, acked uint64) (news bool) {
	p := &d.path[i]
	delete(d.links, id)
	if p.id == id {
		now := d.rt.Now()
		p.history.lost(now, cause)
		if p.caps.Reserves && acked > 0 { // acknowledged by the peer's RDS, which has taken the link
			d.Core.Proved(now, i)
		}
		p.link, p.id, p.caps, p.claimed, p.ended = nil, 0, transport.Caps{}, 0, nil
		p.tx.to(stepLink)
		d.owner.LinkDown(i)
	}
	ports := d.Core.MapVersion()
	d.needLocked()
	d.Core.LinkClosed(d.rt.Now(), id, acked)
	d.partingLocked()
	d.holdLocked(i, nil, false) // holds were the word of this link
	news = d.Core.MapVersion() != ports
	d.owner.Serve()  // what waits outside the core goes to its log, from where the next link sends it
	d.othersLocked() // some of that may be for paths that are up
	d.armLocked()
	return news
}

func (d *Driver) ended(i int, cause error, news bool) {
	d.owner.Ended(i, cause)
	if news {
		d.owner.PortsChanged()
	}
	d.owner.Idle()
}

// OpDone says how an operation on path i that had begun has ended.
func (d *Driver) OpDone(i int, o *conn.Operation, status conn.Status) {
	d.mu.Lock()
	p := &d.path[i]
	p.ops--
	if status == conn.Dropped {
		d.Core.LinkFailed(p.id) // before the link's end is heard: messages that wait are for the next link
	}
	d.Core.OpDone(i, o, status)
	d.partingLocked()
	e := p.ended
	if e == nil || p.ops > 0 || p.tx.busy() {
		d.release(nil)
		return
	}
	news := d.endLocked(i, p.id, e.cause, e.acked)
	d.release(nil)
	d.ended(i, e.cause, news)
}

// Introduced tells whether each link that was started has carried its first message to the
// peer, with the lock. On a link that Reserves the peer's RDS acknowledges, so the peer needs no
// message to know that its own were taken.
func (d *Driver) Introduced() bool {
	for i := range d.path {
		if p := &d.path[i]; p.link != nil && !p.caps.Reserves && !d.Core.Introduced(i) {
			return false
		}
	}
	return true
}

// Await waits for a condition, which is looked at with the lock each time a link, a dial, a
// write or an answer of the peer has come to its end. It is false if late or cut is closed before.
func (d *Driver) Await(late, cut <-chan struct{}, ok func() bool) bool {
	news := make(chan struct{}, 1)
	d.mu.Lock()
	d.parting = news
	done := ok()
	d.mu.Unlock()
	for !done {
		select {
		case <-news:
		case <-late:
			return false
		case <-cut:
			return false
		}
		d.mu.Lock()
		done = ok()
		d.mu.Unlock()
	}
	return true
}

// partingLocked wakes who is in Await.
func (d *Driver) partingLocked() {
	if d.parting == nil {
		return
	}
	select {
	case d.parting <- struct{}{}:
	default:
	}
}

// History is since when a path is as it is, for reports and the log.
type History struct {
	Up, Down time.Time // when the present link came up; when it was lost, or the first attempt to connect was made
	Tries    int       // attempts to connect that failed since
	Err      error     // error of the last attempt
	Wrote    time.Time // when something was written last

	acked    uint64    // octets acknowledged on the present link, as last seen
	progress time.Time // when acked was last seen to grow, or nothing was unacknowledged
}

// History is that of path i, with the lock.
func (d *Driver) History(i int) *History { return &d.path[i].history }

// Progress is when the path was last seen to move: acked octets are acknowledged now.
func (h *History) Progress(acked uint64, now time.Time) time.Time {
	h.saw(acked, now)
	return h.progress
}

// saw notes how much of the present link is acknowledged.
func (h *History) saw(acked uint64, now time.Time) {
	if acked != h.acked {
		h.acked, h.progress = acked, now
	}
}

// opened follows the start of a link, and proved the first word of the peer on it.
func (h *History) opened(now time.Time) { h.Up, h.acked, h.progress = now, 0, now }

func (h *History) proved() { h.Down, h.Tries, h.Err = time.Time{}, 0, nil }

// lost follows the end of a link, and failed an attempt to connect that came to nothing.
// A link on which the peer said nothing does not count: the path has been down before it.
func (h *History) lost(now time.Time, cause error) {
	h.wanted(now)
	if cause != nil && !errors.Is(cause, io.EOF) {
		h.Err = cause
	}
}

func (h *History) failed(cause error) {
	h.Tries++
	h.Err = cause
}

// wanted precedes an attempt to connect.
func (h *History) wanted(now time.Time) {
	if h.Down.IsZero() {
		h.Down = now
	}
}
