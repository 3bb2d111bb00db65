package daemon

import (
	"cmp"
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/xrc"
)

// appQueue is an attached application as peers on XRC see it: a receive queue of its own on
// the one connection that all applications share. Peers learn that a port is the application's
// when messages for the port come by another queue. When more than its backlog waits for the
// application, which does not take it, the queue is not ready: peers keep what they have for
// it, and everybody else's messages go on.
//
// The session's event loop tells peers; others note what there is to tell.
type appQueue struct {
	queue   announcing   // nil: the application has no queue of its own
	number  uint32       // number of queue, 0 if there is none
	domain  *mr.Domain   // protection domain of the application's regions; nil: the node's own
	backlog atomic.Int64 // memory of messages that were received and not handed over
	limit   int64        // above this backlog the queue is not ready
	full    atomic.Bool  // peers were told that the queue is not ready
	fullAt  atomic.Int64 // when full last changed, in Unix nanoseconds

	mu    lockorder.Mutex[appQueueMu] // guards homes; a leaf
	homes map[homing]struct{}

	tell  lockorder.Mutex[appQueueTell] // locked before the locks of queue and of links, after no other lock
	ended bool                          // guarded by tell: the application is gone
}

// announcing is the xrc.Queue of an application.
type announcing interface {
	SetReady(ready bool) // tells peers whether the application takes messages
	Close()              // tells peers that the application is gone
}

// homing is a port to be told of on a link.
type homing struct {
	link transport.Link
	port uint16
}

// ReceiveQueue is for node.Owner.
func (a *appSocket) ReceiveQueue() uint32 { return cmp.Or(a.sess.queue.number, transport.FirstQueue) }

// Protection is for node.Owner.
func (a *appSocket) Protection() *mr.Domain { return a.sess.queue.domain }

// Home is for node.Owner. The session's goroutine tells the peer.
func (a *appSocket) Home(l transport.Link, port uint16) {
	if a.sess.queue.number == 0 {
		l.Home(port, transport.FirstQueue)
		return
	}
	a.sess.queue.misplaced(a.sess, l, port)
}

// Received counts what was queued for a of the application's messages, or with
// negative numbers handed over or dropped.
func (a *appSocket) Received(bytes, count int64) {
	if count > 0 {
		a.sess.node.Counters.RecvWaited.Add(uint64(count))
	}
	n := bytes + count*socket.ItemCost
	a.backlog.Add(n)
	a.sess.queue.add(a.sess, n)
}

// forgetBacklog follows the end of the socket's receive queue.
func (a *appSocket) forgetBacklog() { a.sess.queue.add(a.sess, -a.backlog.Swap(0)) }

// add changes the backlog by n and sees to it that peers hear if they must.
func (q *appQueue) add(x *session, n int64) {
	after := q.backlog.Add(n)
	if q.number != 0 && q.turns(after) {
		x.poke()
	}
}

// turns tells whether a backlog of n is not what peers were told.
func (q *appQueue) turns(n int64) bool {
	if q.full.Load() {
		return n <= q.limit/4
	}
	return n > q.limit
}

// turned is turns for the backlog as it is.
func (q *appQueue) turned() bool { return q.number != 0 && q.turns(q.backlog.Load()) }

// misplaced notes that messages for port came by another queue on a link.
func (q *appQueue) misplaced(x *session, l transport.Link, port uint16) {
	h := homing{l, port}
	q.mu.Lock()
	_, noted := q.homes[h]
	if !noted {
		if q.homes == nil {
			q.homes = make(map[homing]struct{})
		}
		q.homes[h] = struct{}{}
	}
	q.mu.Unlock()
	if !noted {
		x.poke()
	}
}

// announce tells peers what there is to tell, and whether there was anything.
func (q *appQueue) announce() bool {
	q.mu.Lock()
	homes := q.homes
	q.homes = nil
	q.mu.Unlock()
	if len(homes) == 0 && !q.turned() {
		return false
	}
	q.tell.Lock()
	defer q.tell.Unlock()
	if q.ended {
		return false
	}
	for h := range homes {
		h.link.Home(h.port, q.number)
	}
	for q.turned() { // Repeat: whoever changed the backlog before full was stored did not poke us.
		full := !q.full.Load()
		q.fullAt.Store(time.Now().UnixNano())
		q.full.Store(full)
		q.queue.SetReady(!full)
	}
	return true
}

// end tells peers that the application is gone.
func (q *appQueue) end() {
	q.tell.Lock()
	again := q.ended
	q.ended = true // announce tells nothing more
	q.tell.Unlock()
	if !again && q.queue != nil {
		q.queue.Close() // waits for an invalidation, which calls back
	}
}

// open gives the application a queue of its own, where peers are spoken to on XRC.
func (q *appQueue) open(t *xrc.Transport, name string) {
	if t == nil {
		return
	}
	if own, err := t.NewQueue(name); err == nil { // without one the application shares the node's
		q.queue, q.number, q.domain = own, own.Number(), own.Domain()
	}
}
