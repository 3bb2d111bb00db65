package daemon

import (
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/internal/statefile"
	"github.com/rds-go/rds/rds/config"
)

// session is one attached application.
//
// An event loop listens to its doorbell and takes submissions (Serve); calls come on the Unix
// socket to a goroutine. Both work under mu. What arrives for its sockets is put on the
// completion ring by the event loop that received it.
type session struct {
	svc     *Service
	node    *node.Node
	id      uint64
	cred    ipc.Credentials
	gids    []uint32
	command string
	since   time.Time
	log     *zap.Logger
	conn    *ipc.Conn
	seg     *sharedSegment
	segFile *os.File // the segment, for the process that takes the daemon's place
	mem     *receiveMemory
	ear     *ipc.WatchedEar // rung by the application
	self    *ipc.Bell       // the application's end of ear, which a daemon that takes over is given too
	sleeps  ipc.Flag        // the event loop takes nothing before a ring
	space   ipc.Flag        // the application wants OpSpace
	maps    ipc.Flag        // the application wants OpMaps
	hearing hearing
	out     completions
	queue   appQueue

	queued     atomic.Int64 // bytes of memory accepted and not settled
	promised   int          // budget that the application was told and keeps to, but for half of it that may wait for peers that are down
	budget     int64        // most memory that is taken: promised and that half
	held       atomic.Int64 // bytes of memory of queued for peers that are down or hold it back
	overBudget atomic.Bool  // submissions wait for queued to fall, or for fates to be read
	stalledAt  atomic.Int64 // when submissions began to wait, in Unix nanoseconds
	fatesFull  atomic.Bool  // submissions wait for fates to be read
	starving   atomic.Bool  // messages wait for returned memory

	sentMessages, sentBytes atomic.Uint64
	recvMessages, recvBytes atomic.Uint64 // messages and bytes taken by the application, as of the last tally

	congBlocked, congErrors, queueFull atomic.Uint64 // counts of sends, as of the last tally

	congestedMu lockorder.Mutex[session] // guards congested; a leaf
	congested   map[*appSocket]struct{}

	regions    sessionRegions
	xrc        atomic.Pointer[xrcSession] // nil until the application wants objects of XRC
	exposes    atomic.Bool                // the application has had regions, whose ends may be on the ring
	operations atomic.Int64               // operations taken and not ended: links may touch their memory
	quiet      socket.WaitQueue           // calls that wait for operations to be 0
	aside      chan struct{}              // one token for each call that takes its time
	leaving    atomic.Bool                // the service ends: the application hears when nothing has its memory

	user      *user                   // constant once reserve was called
	owner     *statefile.Owner        // who the application is, in the state file
	changed   atomic.Int64            // when the service listed the session, or its last call that a report shows took effect, in Unix nanoseconds
	heard     node.SlotSet            // numbers of peers that the application has looked up, or has messages of
	ending    atomic.Bool             // the session has begun to end: its memory is on its way back
	met       map[*node.Peer]struct{} // connections that the session uses; guarded by Service.mu
	holds     int                     // what keeps the session counted against the limits on sessions; guarded by Service.mu
	lingering atomic.Int32            // sockets that were closed and wait for what they have sent
	resumed   []*appSocket            // those of them that a predecessor has left, until they are waited for
	answers   answers

	mu      turnLock // guards the fields below; locked before all locks of the node
	sq      ipc.Consumer
	data    []byte
	bodies  []byte
	memory  []byte
	about   ipc.About    // what the submission at hand says besides its payload
	local   [][]byte     // local memory of the submission at hand
	sockets []*appSocket // sockets by index; nil: the index is free
	gens    []uint16     // generations of the indexes
	bound   atomic.Int32
	flows   node.FlowSet
	ahead   uint64     // what is no message has been taken below this index
	took    int        // payload bytes of the submissions that pump took last
	toward  *node.Peer // the peer of the last submission that was taken
	unread  *appSocket // the socket whose fates must be read before more is taken
	bad     error      // violation by the application: nothing more is taken
	last    bool       // the session is ending: submissions are taken whatever the budget
	moves   bool       // the application goes on in the process that takes the daemon's place; constant
	spills  bool       // the application finds what was spilled when the daemon has ended; constant
	slots   bool       // ipc.FeatureSlots: the application needs a slot until it has taken the entries that name the slot; constant
	again   bool       // the application submits to the next daemon what this one leaves
	left    bool       // nothing more is taken, and the application knows
	ended   bool
	endOnce sync.Once
	done    chan struct{}

	working atomic.Int32 // goroutines that work for the session: not those that are parked
}

// tell follows a turn: it answers what the application, or memory it has
// returned, has made possible. It tells whether there was
// anything the application may have rung for.
func (x *session) tell() (some bool) {
	some = x.out.flush()
	x.congestedMu.Lock()
	socks := make([]*appSocket, 0, 8)
	for a := range x.congested {
		socks = append(socks, a)
	}
	x.congestedMu.Unlock()
	for _, a := range socks {
		a.s.Uncongest()
	}
	return some || len(socks) > 0
}

// pump takes up to limit submissions, and tells whether more of those that were there may be taken. The
// caller holds mu. What it returns as an error it returns again: the event loop
// has the session end.
func (x *session) pump(limit int) (taken int, more bool, err error) {
	if err := x.overLocked(); err != nil {
		return 0, false, err
	}
	defer func() { x.bad = err }()
	x.took = 0
	ready, err := x.sq.Ready()
	if err != nil {
		return 0, false, err
	}
	var (
		p      *node.Peer // locked
		bytes  int
		n      int
		sent   uint64
		amount uint64
	)
	unlock := func() {
		if p != nil {
			p.CommitWithin(writeBytes)
			p = nil
		}
	}
	limit = min(limit, ready)
	x.seg.Taking().Store(x.sq.Head() + uint64(limit) + 1) // before anything is sent
	for n < limit && bytes < pumpBytes {
		e := x.sq.Peek(n) // a copy, because the application may go on writing
		switch e.Op() {
		case ipc.OpSend, ipc.OpSendBlock:
		case ipc.OpReturn, ipc.OpExpose, ipc.OpConceal:
			n++
			if x.sq.Head()+uint64(n) <= x.ahead {
				continue
			}
			unlock() // it takes locks that come before a peer's
			if err = x.takePrompt(&e); err != nil {
				return n, false, err
			}
			continue
		default:
			unlock()
			return n, false, errViolation
		}
		if x.left || !x.last && (x.queued.Load() >= x.budget && x.stallLocked() || x.fatesUnread(&e)) {
			unlock()
			if x.left {
				x.overBudget.Store(true) // for good: an application that submits need not ring
			}
			if err = x.takePrompts(n); err != nil {
				return n, false, err
			}
			break
		}
		n++
		var (
			m conn.Message
			a *appSocket
			q *node.Peer
		)
		if a, q, err = x.admit(&e, &m); err != nil {
			unlock()
			return n, false, err
		}
		if a == nil {
			continue // the message's socket was closed meanwhile
		}
		if q != p {
			unlock()
			p, x.toward = q, q
			p.Lock()
		}
		size := m.Size()
		p.AcceptLocked(&x.flows, a.s, &m)
		bytes += size
		sent++
		amount += uint64(size)
	}
	unlock()
	x.out.show()
	x.sq.Next(n)
	x.sq.Publish()
	if n < limit {
		x.seg.Taking().Store(x.sq.Head() + 1)
	}
	if n > 0 && x.space.Take() {
		x.out.event(ipc.OpSpace, 0)
	}
	x.took = bytes
	x.sentMessages.Add(sent)
	x.sentBytes.Add(amount)
	return n, n < ready && !x.overBudget.Load(), nil
}

// leaveLocked takes what was submitted, as far as the budget goes, and leaves all that
// comes later to the next daemon if the application can go there.
func (x *session) leaveLocked() {
	_ = x.catchUp()
	if x.again && !x.ended && x.bad == nil {
		x.left = true
		x.seg.Left().Set()
	}
}

// overLocked is why nothing is taken any more, nil if it is.
func (x *session) overLocked() error {
	if x.ended {
		return net.ErrClosed
	}
	return x.bad
}

// stallLocked leaves the submissions where they are until enough is settled.
func (x *session) stallLocked() bool {
	x.halt(false)
	if x.queued.Load() < x.budget && x.overBudget.Swap(false) { // enough was settled in between
		return false
	}
	return true
}

// halt notes that submissions wait, and whether it is for fates to be read.
func (x *session) halt(fates bool) {
	if !x.overBudget.Load() || x.fatesFull.Load() != fates {
		x.stalledAt.Store(time.Now().UnixNano())
	}
	x.fatesFull.Store(fates)
	x.overBudget.Store(true)
}

// fatesUnread tells whether a submission asks for a fate while the application
// has left too many unread: the ring is full of them, and more wait behind it.
// Then submissions stay where they are. The caller holds mu.
func (x *session) fatesUnread(e *ipc.Entry) bool {
	if e.Flags()&(ipc.FlagNotify|ipc.FlagAbout) == 0 {
		return false
	}
	a, _ := x.socket(e.Socket())
	if a == nil || !a.s.Fates.Full() {
		return false
	}
	x.unread = a
	x.halt(true)
	return true
}

// credit follows the settling of messages worth n bytes of memory.
func (x *session) credit(n int64) {
	left := x.queued.Add(-n)
	x.spaceNews()
	if left < x.budget-x.budget/4 && x.overBudget.Load() && x.overBudget.Swap(false) {
		x.poke()
	}
}

// admit makes the core's message of a submission, and charges it.
func (x *session) admit(e *ipc.Entry, m *conn.Message) (*appSocket, *node.Peer, error) {
	a, ok := x.socket(e.Socket())
	if !ok {
		return nil, nil, errViolation
	}
	p := x.node.PeerAt(e.Peer())
	n := int(e.Length())
	switch {
	case p == nil || n > config.MaxMessage:
		return nil, nil, errViolation
	case e.Op() == ipc.OpSend:
		if n > conn.InlineMax || int(e.Offset()) > len(x.data)-n {
			return nil, nil, errViolation
		}
	case int(e.Offset()) > len(x.bodies)-n:
		return nil, nil, errViolation
	}
	if a == nil {
		if e.Op() == ipc.OpSendBlock {
			x.out.freed(e.Offset())
		}
		return nil, nil, nil
	}
	if p.Local != a.s.At {
		return nil, nil, errViolation
	}
	*m = conn.Message{
		Sport: a.s.Port, Dport: e.Port(), Account: &a.s.Share(p).Account, Token: e.Token(),
		Notify: e.Flags()&ipc.FlagNotify != 0, Failure: a.s.RecvErrOn.Load(), Admitted: true,
	}
	off := int(e.Offset())
	if e.Op() == ipc.OpSend {
		m.Payload = x.data[off : off+n : off+n]
	} else {
		b := sendBodies.Get().(*sendBody)
		b.sess, b.off = x, e.Offset()
		x.seg.hold()
		b.Lend(x.bodies[off:off+n:off+n], b)
		m.Body = &b.Buf
	}
	if e.Flags()&ipc.FlagAbout != 0 {
		if err := x.special(e, a, p, m); err != nil {
			if m.Body != nil {
				m.Body.Release()
			}
			return nil, nil, err
		}
	}
	m.Account.Admit(n)
	if p.Down.Load() {
		a.showHeld()
	}
	x.queued.Add(int64(n + socket.ItemCost))
	return a, p, nil
}

// socket finds a socket by its number: an index and, above it, how many had
// the index before. It is nil if that socket was closed; ok is false if there
// never was one.
func (x *session) socket(id uint32) (a *appSocket, ok bool) {
	i := int(id & 0xffff)
	if i >= len(x.sockets) {
		return nil, false
	}
	if a := x.sockets[i]; a != nil && a.id == id {
		return a, true
	}
	return nil, true
}

// spaceNews tells the application that waits for space or for its budget to look again.
func (x *session) spaceNews() {
	if x.seg != nil && x.space.Take() {
		x.out.event(ipc.OpSpace, 0)
	}
	runtime.KeepAlive(x)
}

// mapNews tells the application that a congestion map has arrived.
func (x *session) mapNews() {
	if x.maps.Take() {
		x.out.event(ipc.OpMaps, 0)
	}
	runtime.KeepAlive(x)
}

// takeAll takes what the application had submitted when it was called, the way
// its limits allow. More may come all the time: that is for the next turn. The
// caller holds mu.
func (x *session) takeAll() error {
	if err := x.overLocked(); err != nil {
		return err
	}
	ready, err := x.sq.Refresh()
	if err != nil {
		x.bad = err
	}
	for n, more := 0, true; ready > 0 && more && err == nil; ready -= n {
		if x.last && x.queued.Load() >= x.most() {
			break
		}
		n, more, err = x.pump(min(ready, pumpEntries))
		more = more || x.last
	}
	return err
}

// most is what an application can have queued that lends each byte of its
// memory once: what a session may pass its budget by at its end.
func (x *session) most() int64 {
	return x.budget + int64(x.seg.Send+x.seg.Data*pieceCost/ipc.PieceSize+x.seg.Submissions*(socket.ItemCost+opCost))
}
