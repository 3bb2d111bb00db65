package driver

import (
	"time"

	"github.com/rds-go/rds/conn"
)

// Intervals at which acknowledgements are looked for: TCP tells of them
// without being asked only when its buffer was full.
const (
	ackEagerly = 100 * time.Microsecond // somebody waits for room
	ackFirst   = time.Millisecond
	ackLast    = 4 * time.Millisecond

	trimAfter = time.Second // a connection that is silent for so long gives memory back
)

// ackWatch looks for acknowledgements while messages wait for them.
type ackWatch struct {
	timer Timer
	on    bool
	wait  time.Duration
	eager bool // a sender waits for room
}

func (w *ackWatch) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// acked follows acknowledgements on path i's link, which tells of them by itself.
func (d *Driver) acked(i int, id conn.LinkID) {
	d.mu.Lock()
	if p := &d.path[i]; p.link != nil && p.id == id && !p.tx.busy() { // a writer looks itself, once what it writes counts as written
		d.Core.Acked(i, p.link.Acked()) // Acked is quick here
	}
	d.release(nil)
}

// idleLocked tells whether nothing was written for a while.
func (d *Driver) idleLocked() bool {
	now := d.rt.Now()
	for i := range d.path {
		if now.Sub(d.path[i].tx.last) < trimAfter {
			return false
		}
	}
	return true
}

// watchAcksLocked sets the timer that looks for acknowledgements.
func (d *Driver) watchAcksLocked() {
	w := &d.acks
	if w.on || d.gone.Load() {
		return
	}
	w.on, w.wait = true, ackFirst
	for i := range d.path {
		d.path[i].history.progress = d.path[i].tx.last // nothing was unacknowledged before
	}
	d.setAcksLocked()
}

func (d *Driver) setAcksLocked() {
	w := &d.acks
	wait := w.wait
	if w.eager {
		wait = min(wait, ackEagerly)
	}
	if w.timer == nil {
		w.timer = d.rt.AfterFunc(wait, d.lookForAcks)
	} else {
		w.timer.Reset(wait)
	}
}

// Pressed says that somebody waits for room: look for acknowledgements soon.
func (d *Driver) Pressed() {
	d.mu.Lock()
	if d.acks.eager {
		d.askLocked()
	}
	d.Press()
	d.mu.Unlock()
}

// Press is Pressed for who is going to wait soon, with the lock.
func (d *Driver) Press() {
	w := &d.acks
	if !w.eager && w.on {
		d.askLocked()
		w.eager, w.wait = true, ackEagerly
		d.setAcksLocked()
	}
}

// askLocked asks the peer for the acknowledgements that it has not sent.
func (d *Driver) askLocked() {
	for i := range d.path {
		if l := d.path[i].link; l != nil && d.Core.Unacked(i) > 0 {
			l.Ask()
		}
	}
}

func (d *Driver) lookForAcks() {
	if d.gone.Load() {
		return
	}
	progress := d.PollAcks()
	d.mu.Lock()
	w := &d.acks
	w.eager = false
	switch {
	case !d.unacked(): // asked under the lock that a writer holds when it looks at on
		w.on = false
		if d.idleLocked() {
			d.Core.Trim()
		} else {
			w.timer.Reset(trimAfter) // looks again later; a writer sets an earlier time
		}
	case progress:
		w.wait = ackFirst
		d.setAcksLocked()
	default:
		w.wait = min(2*w.wait, ackLast)
		d.setAcksLocked()
	}
	d.mu.Unlock()
}

// unacked tells whether messages wait for acknowledgement, with the lock.
func (d *Driver) unacked() bool {
	for i := range d.path {
		if d.Core.Unacked(i) > 0 {
			return true
		}
	}
	return false
}

// PollAcks looks for acknowledgements now and tells whether there were any.
func (d *Driver) PollAcks() (progress bool) {
	for i := range d.path {
		d.mu.Lock()
		p := &d.path[i]
		before, link, id := d.Core.Unacked(i), p.link, p.id
		d.mu.Unlock()
		if link == nil || before == 0 {
			continue
		}
		acked := link.Acked()
		d.mu.Lock()
		if p.id == id {
			d.Core.Acked(i, acked)
		}
		progress = progress || d.Core.Unacked(i) < before
		p.history.saw(d.Core.AckedBytes(i), d.rt.Now())
		d.mu.Unlock()
	}
	d.mu.Lock()
	d.release(nil)
	return progress
}
