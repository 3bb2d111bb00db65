package daemon

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/internal/work"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/transport/xrc"
	"github.com/rds-go/rds/xrc/objects"
)

// xrcSession is what an application, or the process of the node itself, has of XRC: a session of the
// node's device, and a table of its objects. Work requests and receives are on queues in the owner's
// memory, and are taken by the event loop that takes an application's submissions; completions go to
// queues there from the loop that has them.
type xrcSession struct {
	owner xrcOwner
	t     *xrc.Transport
	s     *objects.Session
	stop  context.CancelFunc // ends calls under way
	ctx   context.Context
	over  atomic.Bool
	hears atomic.Bool // a call waits for an event

	turns lockorder.Mutex[xrcSessionTurns] // held in a turn
	posts *ipc.Queue                       // of queues with new records; for the event loop
	due   []worker                         // queues to look at, each once; for the event loop
	isDue map[worker]struct{}              // the queues in due
	batch *batch                           // for the event loop

	mu     lockorder.Mutex[xrcSession] // guards the fields below; a leaf
	sends  int                         // requests that all initiators may have outstanding
	last   uint32
	table  map[uint32]any
	queues []*xrcCQ                 // completion queues in table
	unread map[uint64]objects.Event // events that the application has and has not acknowledged, by serial
	serial uint64
}

// xrcOwner is who has an xrcSession: an attached application (session), or the node's own process
// (OwnObjects).
type xrcOwner interface {
	piece(off, n uint32) []byte // n bytes of the owner's memory, nil if there are none
	poke()                      // has turn and tell called soon
	tellWork(cq uint32)         // tells of completions that the owner waits for
	drop()                      // nothing of the owner's memory is touched any more for the session

	objectUser() (u objects.User, bound bool) // bound: by the shares of a user
	mayAdvertise(service uint64) error
	advertised(service uint64) (withdrawn func()) // the owner has a service id, until withdrawn is called
}

// worker is a queue of which the event loop takes records: no more than limit of them. It
// tells how many it has taken, and whether there are more.
type worker interface {
	takeRecords(b *batch, limit int) (n int, more bool, err error)
}

// Bounds of one application. Requests and receives take memory of the daemon.
var xrcLimits = objects.Limits{
	Domains: 64, Initiators: 1024, Targets: 4096, Registrations: 16384, SRQs: 64, Receives: 1 << 16, CQs: 128, PDs: 64, Services: 64, Events: 256,
}

// maxXRCSends bounds the requests that all initiators of an application may have outstanding.
const maxXRCSends = 1 << 16

// How long calls take at most.
const (
	connectWait = 10 * time.Second
	destroyWait = 5 * time.Second
)

var (
	errNoObject = fmt.Errorf("no such object: %w", syscall.EINVAL)
	errNoPlace  = fmt.Errorf("no room for the queue there: %w", syscall.EFAULT)
	errNoXRC    = fmt.Errorf("the daemon has no XRC: %w", syscall.EOPNOTSUPP)
)

// newXRCSession begins objects of XRC. The first call, c, says where the queue of posts is.
func newXRCSession(o xrcOwner, t *xrc.Transport, name string, c *ipc.XRCCall) (*xrcSession, error) {
	if t == nil {
		return nil, errNoXRC
	}
	posts, err := workQueue(o, c, work.PostSize, false)
	if err != nil {
		return nil, err
	}
	xs := &xrcSession{owner: o, t: t, posts: posts, batch: new(batch), isDue: make(map[worker]struct{}), table: make(map[uint32]any), unread: make(map[uint64]objects.Event)}
	user, bound := o.objectUser()
	if xs.s, err = t.Objects().NewSession(objects.SessionConfig{Name: name, User: user, Limits: xrcLimits, Unbound: !bound}); err != nil {
		return nil, err
	}
	xs.ctx, xs.stop = context.WithCancel(context.Background())
	return xs, nil
}

// openXRC begins an application's objects of XRC.
func (x *session) openXRC(c *ipc.XRCCall) error {
	xs, err := newXRCSession(x, x.node.Xrc, fmt.Sprintf("application %d", x.id), c)
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended || !x.xrc.CompareAndSwap(nil, xs) {
		xs.stop()
		_ = xs.s.Close(xs.ctx)
		return fmt.Errorf("objects of XRC were begun before: %w", syscall.EEXIST)
	}
	x.seg.hold()
	return nil
}

// tellWork is for xrcOwner.
func (x *session) tellWork(cq uint32) { x.out.event(ipc.OpWork, cq) }

// drop is for xrcOwner.
func (x *session) drop() { x.seg.drop() }

// objectUser is for xrcOwner.
func (x *session) objectUser() (u objects.User, bound bool) {
	return objects.User{UID: x.owner.UID, Place: x.owner.Place}, x.svc.config().Users.Binds(x.cred.UID)
}

// mayAdvertise is for xrcOwner.
func (x *session) mayAdvertise(service uint64) error {
	if !permits(x.svc.config().Services, service, x.cred.UID, x.gids) {
		return datagram.ErrPermission
	}
	return x.node.MayAdvertise(service, x.owner)
}

// advertised is for xrcOwner.
func (x *session) advertised(service uint64) (withdrawn func()) {
	return x.node.Advertised(service, x.owner)
}

// workQueue is the daemon's end of the queue that a call tells of.
func workQueue(o xrcOwner, c *ipc.XRCCall, record int, produces bool) (*ipc.Queue, error) {
	if c.Entries < 1 || c.Entries > ipc.MaxQueue {
		return nil, errNoPlace
	}
	mem := o.piece(c.Offset, uint32(ipc.QueueSize(record, c.Entries)))
	if mem == nil {
		return nil, errNoPlace
	}
	q, ok := ipc.NewQueue(mem, record, c.Entries, produces)
	if !ok {
		return nil, errNoPlace
	}
	return q, nil
}

// end destroys all objects. It returns when nothing of the owner's memory is touched any more
// for them.
func (xs *xrcSession) end() {
	xs.turns.Lock() // the turn under way is the last one
	again := xs.over.Swap(true)
	xs.turns.Unlock()
	if again {
		return
	}
	xs.stop()
	_ = xs.s.Close(context.Background()) // what it leaves is in the log
	xs.mu.Lock()
	queues := xs.queues
	xs.queues = nil
	clear(xs.table)
	xs.mu.Unlock()
	for _, cq := range queues {
		cq.close()
	}
	xs.owner.drop()
}

// add gives an object its number in the session.
func (xs *xrcSession) add(o any) uint32 {
	xs.mu.Lock()
	defer xs.mu.Unlock()
	xs.last++
	xs.table[xs.last] = o
	if cq, ok := o.(*xrcCQ); ok {
		cq.id = xs.last
		xs.queues = append(xs.queues, cq)
	}
	return xs.last
}

func (xs *xrcSession) remove(n uint32) {
	xs.mu.Lock()
	cq, ok := xs.table[n].(*xrcCQ)
	delete(xs.table, n)
	if ok {
		xs.queues = slices.DeleteFunc(xs.queues, func(c *xrcCQ) bool { return c == cq })
	}
	xs.mu.Unlock()
}

// get is the object of a number, which must be of the kind wanted.
func get[T any](xs *xrcSession, n uint32) (T, error) {
	xs.mu.Lock()
	defer xs.mu.Unlock()
	o, ok := xs.table[n].(T)
	if !ok {
		return o, errNoObject
	}
	return o, nil
}

// turn takes up to limit records of the queues that the application has posted to, and of the numbers
// of queues themselves. A look at a queue without records counts as one: a turn takes no longer for
// an application that says of the same queues again and again that it has posted to them. It is for the event loop.
func (xs *xrcSession) turn(limit int) (n int, more bool, err error) {
	xs.turns.Lock()
	defer xs.turns.Unlock()
	if xs.over.Load() {
		return 0, false, nil
	}
	ready, err := xs.posts.Ready(1)
	if err != nil {
		return 0, false, err
	}
	taken := min(ready, limit)
	for range taken {
		q, err := get[worker](xs, work.LoadPost(xs.posts.Record(0)))
		xs.posts.Advance(1)
		if _, due := xs.isDue[q]; err == nil && !due { // with an error the object has ended meanwhile
			xs.isDue[q] = struct{}{}
			xs.due = append(xs.due, q)
		}
	}
	for len(xs.due) > 0 && n < limit {
		k, left, err := xs.due[0].takeRecords(xs.batch, limit-n)
		if err != nil {
			return n, false, err
		}
		n += max(k, 1)
		if left { // the others first
			xs.due = append(xs.due, xs.due[0])
		} else {
			delete(xs.isDue, xs.due[0])
		}
		xs.due = xs.due[1:]
	}
	if len(xs.due) == 0 {
		xs.due = nil
	}
	return n + taken, len(xs.due) > 0 || ready > taken, nil
}

// tell tells the application of the completions that it waits for. It is for the event loop.
func (xs *xrcSession) tell() (some bool) {
	xs.mu.Lock()
	var list []uint32
	for _, cq := range xs.queues {
		if cq.wants.Load() && cq.wants.Swap(false) {
			list = append(list, cq.id)
		}
	}
	xs.mu.Unlock()
	for _, id := range list {
		xs.owner.tellWork(id)
	}
	return len(list) > 0
}

// idle tells whether nothing was posted, after the flag was set that has the application ring.
func (xs *xrcSession) idle() (bool, error) {
	xs.turns.Lock()
	defer xs.turns.Unlock()
	if xs.over.Load() {
		return true, nil
	}
	n, err := xs.posts.Ready(1)
	return n == 0, err
}

// xrcCQ is a completion queue of an application. It has promised room for each request that may
// be outstanding, and for each receive that was taken: a receive for which there is no room is
// left on its queue, so that the shared receive queue runs dry instead of this one over.
type xrcCQ struct {
	*objects.CQ
	owner xrcOwner
	id    uint32

	wants atomic.Bool // the application is to hear that there are completions

	mu     lockorder.Mutex[xrcCQ] // guards the fields below; a leaf
	ring   *ipc.Queue
	over   bool
	sends  int // promised to requests
	taken  int // promised to receives
	queues map[uint32]*xrcSRQ
}

// deliver is for iwarp.CQ.
func (c *xrcCQ) deliver(list []iwarp.Completion) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over { // the memory is the application's again
		return true
	}
	if free, err := c.ring.Ready(len(list)); err != nil || free < len(list) {
		return false
	}
	news := false
	for i := range list {
		news = news || work.News(&list[i])
		work.PutCompletion(c.ring.Record(i), &list[i])
		if list[i].Initiator == 0 {
			if q := c.queues[list[i].Queue]; q != nil {
				q.taken--
				c.taken--
			}
		}
	}
	c.ring.Advance(len(list))
	if news && c.ring.Asked.Take() { // the caller has locks that come behind those of the completion ring
		c.wants.Store(true)
		c.owner.poke()
	}
	return true
}

// close has nothing more delivered.
func (c *xrcCQ) close() {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
}

// promise promises room for up to n completions to receives of q. If that is not all, the application is
// to tell when it has taken some.
func (c *xrcCQ) promise(q *xrcSRQ, n int) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	room, err := c.roomLocked(n)
	if room < n && err == nil {
		c.ring.Wanted.Set()
		room, err = c.roomLocked(n)
	}
	room = max(min(n, room), 0)
	c.taken += room
	q.taken += room
	return room, err
}

func (c *xrcCQ) roomLocked(want int) (int, error) {
	free, err := c.ring.Ready(want + c.sends + c.taken)
	return free - c.sends - c.taken, err
}

// unpromise takes back what q has not used.
func (c *xrcCQ) unpromise(q *xrcSRQ, n int) {
	c.mu.Lock()
	q.taken -= n
	c.taken -= n
	c.mu.Unlock()
}

// reserve promises room to n requests of an initiator, or takes the promise back.
func (c *xrcCQ) reserve(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sends+n > c.ring.Len() {
		return false
	}
	c.sends += n
	return true
}

// takeRecords is for a post that tells of completions taken: there may be room for receives.
func (c *xrcCQ) takeRecords(b *batch, limit int) (n int, more bool, err error) {
	c.mu.Lock()
	list := make([]*xrcSRQ, 0, len(c.queues))
	for _, q := range c.queues {
		list = append(list, q)
	}
	c.mu.Unlock()
	for _, q := range list {
		if n >= limit {
			return n, true, nil
		}
		k, left, err := q.takeRecords(b, limit-n)
		n, more = n+max(k, 1), more || left
		if err != nil {
			return n, false, err
		}
	}
	return n, more, nil
}

// forget is for a shared receive queue that has ended: its receives complete no more.
func (c *xrcCQ) forget(q *xrcSRQ) {
	c.mu.Lock()
	delete(c.queues, q.Num())
	c.taken -= q.taken
	c.mu.Unlock()
}
