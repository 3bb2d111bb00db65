package daemon

import (
	"slices"
	"sync/atomic"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/internal/socket"
)

// completions is the daemon's end of a session's completion ring. What finds
// the ring full stays where it is, and the ring's consumer is asked to ring. Messages are
// spilled: the application has them whatever becomes of the daemon.
type completions struct {
	sess   *session
	bell   *ipc.Bell
	sleeps ipc.Flag
	want   ipc.Flag // WantCompletions

	mu      lockorder.Mutex[completions] // guards the fields below, but for broken; locked before socket.Queue.TakeMu
	ring    ipc.Producer
	put     int          // entries since the last publish
	hushed  int          // entries of put that the application need not hear of at once
	quiet   int          // hushed entries since the application was last woken
	room    int          // entries known to be free
	left    []ipc.Entry  // fates that an earlier daemon has left; they go before anything else
	frees   []uint32     // offsets of the send arena to give back
	events  []ipc.Entry  // retired, exposed, and one-shot flags: at most one event of each kind and socket
	retired int          // number of OpRetired in events: beyond maxRetired nothing is exposed
	exposed int          // number of OpExposed in events, at most ipc.MaxExposing
	waiting []*appSocket // sockets with messages or fates, in the order of their turns
	spill   ipc.Spill    // messages that found the ring full; they go there before other messages
	limit   int          // longest frees may get: the number of blocks of the send arena
	closed  bool
	broken  atomic.Bool // the application does what no correct one does
}

func (c *completions) init(x *session, bell *ipc.Bell) {
	seg := x.seg
	c.sess, c.bell, c.ring, c.spill = x, bell, seg.Complete(), seg.Spill()
	c.sleeps, c.want = seg.ApplicationSleeps(), seg.WantCompletions()
	c.limit = seg.Send / ipc.MinBlock
}

// violated ends the session: its event loop finds broken. The caller holds mu.
func (c *completions) violated() {
	c.broken.Store(true)
	c.closed, c.room = true, 0
	c.left, c.frees, c.events, c.waiting = nil, nil, nil, nil
	c.sess.poke()
}

// has tells whether an entry fits.
func (c *completions) has() bool {
	if c.room > 0 {
		return true
	}
	if c.closed || len(c.left) > 0 && !c.pass() {
		return false
	}
	for range 2 {
		if c.look() {
			return true
		}
		if c.closed {
			return false
		}
		c.publish() // let the application see what fills it
		c.want.Set()
		if c.quiet > 0 {
			c.wake()
		}
	}
	return false
}

// look finds out how many entries fit, and tells whether one does.
func (c *completions) look() bool {
	n, err := c.ring.Free(1)
	if err != nil {
		c.violated()
		return false
	}
	c.room = n
	return n > 0
}

// pass puts what an earlier daemon has left on the ring, and tells whether that is all.
func (c *completions) pass() bool {
	left := c.left
	c.left = nil
	for len(left) > 0 && c.has() {
		c.add(left[0])
		left = left[1:]
	}
	if c.left = left; len(left) == 0 {
		c.left = nil
	}
	return len(left) == 0
}

// add appends an entry, for which there is room.
func (c *completions) add(e ipc.Entry) {
	c.ring.Put(e)
	c.room--
	c.put++
}

// mayAdd tells whether a message can be added.
func (c *completions) mayAdd() bool {
	if c.spill.Len() == 0 && c.has() {
		return true
	}
	if !c.sess.spills || c.closed {
		return false
	}
	if c.spill.Full() {
		off, ok := c.sess.mem.spill()
		if !ok {
			return false
		}
		c.spill.Grow(off)
	}
	return true
}

// addMessage adds a message, for which mayAdd was true.
func (c *completions) addMessage(e ipc.Entry) {
	if c.spill.Len() == 0 && c.room > 0 {
		c.add(e)
		return
	}
	e[0] |= ipc.FlagSpilled << 8
	c.spill.Put(e)
	c.sess.queue.add(c.sess, socket.ItemCost)
}

// unspill puts on the ring what was spilled.
func (c *completions) unspill() {
	n := 0
	for ; c.spill.Len() > 0 && c.has(); n++ {
		c.add(c.spill.Take())
	}
	if n == 0 {
		return
	}
	c.publish()
	for off, ok := c.spill.Freed(); ok; off, ok = c.spill.Freed() {
		c.sess.mem.unspill(off)
	}
	c.sess.queue.add(c.sess, -int64(n)*socket.ItemCost)
}

// hush adds an entry that the application need not hear of at once.
func (c *completions) hush(e ipc.Entry) {
	c.add(e)
	c.hushed++
}

// quietEntries is how many of those the application is not woken for.
const quietEntries = 64

// publish shows what was added and wakes the application if it sleeps.
func (c *completions) publish() {
	if c.put == 0 {
		return
	}
	c.quiet += c.hushed
	loud := c.put > c.hushed || c.quiet >= quietEntries
	c.put, c.hushed = 0, 0
	c.ring.Publish()
	if loud {
		c.wake()
	}
}

// wake wakes the application if it sleeps.
func (c *completions) wake() {
	c.quiet = 0
	if c.sleeps.Take() {
		c.bell.Ring()
	}
}

// freed reports that memory of the send arena is not used any more.
func (c *completions) freed(off uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	if len(c.frees) > 0 || !c.has() {
		if len(c.frees) == c.limit { // the application has lent some memory twice
			c.violated()
		}
		if !c.closed {
			c.frees = append(c.frees, off)
		}
		return
	}
	c.add(ipc.MakeEntry(ipc.OpFreed, 0, 0, 0, 0, 0, off, 0, 0))
	c.publish()
}

// event reports something the application has asked for.
func (c *completions) event(op ipc.Op, socket uint32) {
	c.report(ipc.MakeEntry(op, 0, 0, socket, 0, 0, 0, 0, 0))
}

// report is event for what is not only about a socket.
func (c *completions) report(e ipc.Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	if len(c.events) > 0 || !c.has() {
		if !c.closed && (e.Op() == ipc.OpRetired || !slices.Contains(c.events, e)) { // an application can raise a flag again meanwhile
			c.events = append(c.events, e)
			if e.Op() == ipc.OpRetired {
				c.retired++
			}
		}
		return
	}
	c.add(e)
	c.publish()
}

// answer tells of a region that was asked for. The application hears of it with show.
func (c *completions) answer(e ipc.Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
	case len(c.events) == 0 && c.has():
		c.add(e)
	case c.exposed == ipc.MaxExposing: // the application asks for more than it may before it reads the answers
		c.violated()
	default:
		c.events = append(c.events, e)
		c.exposed++
	}
}

// show publishes answers.
func (c *completions) show() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.publish()
}

// maxRetired bounds the keys whose end the application has not been told of.
const maxRetired = 4096

// crowded tells whether the application has left that many unread.
func (c *completions) crowded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.retired >= maxRetired
}

// flush goes on with everything that found the ring full, or no memory, and
// tells whether there was any.
func (c *completions) flush() (some bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	some = len(c.left)+len(c.frees)+len(c.events)+len(c.waiting)+c.spill.Len() > 0
	if len(c.left) > 0 {
		c.pass()
	}
	for len(c.frees) > 0 && c.has() {
		c.add(ipc.MakeEntry(ipc.OpFreed, 0, 0, 0, 0, 0, c.frees[0], 0, 0))
		c.frees = c.frees[1:]
	}
	for len(c.events) > 0 && c.has() {
		switch c.events[0].Op() {
		case ipc.OpRetired:
			c.retired--
		case ipc.OpExposed:
			c.exposed--
		}
		c.add(c.events[0])
		c.events = c.events[1:]
	}
	c.unspill()
	for n := len(c.waiting); n > 0 && !c.closed; n-- {
		a := c.waiting[0]
		c.waiting = c.waiting[1:]
		a.queued = false
		a.deliverLocked()
	}
	c.publish()
	return some
}

// forget drops what concerns a socket that has ended.
func (c *completions) forget(a *appSocket) {
	c.mu.Lock()
	c.events = slices.DeleteFunc(c.events, func(e ipc.Entry) bool { return e.Socket() == a.id && e.Op() == ipc.OpRoom })
	c.waiting = slices.DeleteFunc(c.waiting, func(b *appSocket) bool { return b == a })
	a.queued = false
	a.unpack()
	c.mu.Unlock()
}

// end lets nothing through any more.
func (c *completions) end() {
	c.mu.Lock()
	c.closed, c.room = true, 0
	c.left, c.frees, c.events, c.waiting = nil, nil, nil, nil
	c.mu.Unlock()
}
