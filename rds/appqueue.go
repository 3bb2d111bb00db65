package rds

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/transport"
)

// appQueue is an attached application as peers see it, on links that are
// transport.Links: a receive queue of its own on the one connection that all
// applications share. Peers learn that a port is the application's when messages for
// the port come by another queue. When more than its backlog waits for the
// application, which does not take it, the queue is not ready: peers keep what they
// have for it, and everybody else's messages go on.
//
// The session's goroutine tells peers; others note what there is to tell.
type appQueue struct {
	number  uint32       // number of the receive queue, from transport.FirstQueue+1 on; 0: the application has no queue of its own
	backlog atomic.Int64 // memory of messages that were received and not handed over
	limit   int64        // above this backlog the queue is not ready
	full    atomic.Bool  // peers were told that the queue is not ready
	fullAt  atomic.Int64 // when full last changed, in Unix nanoseconds

	mu    sync.Mutex // guards homes; a leaf
	homes map[homing]struct{}

	tell  sync.Mutex                  // locked before the locks of links, after no other lock
	links map[transport.Link]struct{} // guarded by tell: the links whose peers know of the queue
	ended bool                        // guarded by tell: the application is gone
}

// homing is a port to be told of on a link.
type homing struct {
	link transport.Link
	port uint16
}

// queue is for owner.
func (a *appSocket) queue() uint32 { return cmp.Or(a.sess.queue.number, transport.FirstQueue) }

// home is for owner. The session's goroutine tells the peer.
func (a *appSocket) home(l transport.Link, port uint16) {
	if a.sess.queue.number == 0 {
		l.Home(port, transport.FirstQueue)
		return
	}
	a.sess.queue.misplaced(a.sess, l, port)
}

// received counts what was queued for a of the application's messages, or with
// negative numbers handed over or dropped.
func (a *appSocket) received(bytes, count int64) {
	n := bytes + count*itemCost
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
		if !h.link.Home(h.port, q.number) {
			continue
		}
		if _, known := q.links[h.link]; known {
			continue
		}
		if q.links == nil {
			q.links = make(map[transport.Link]struct{})
		}
		q.links[h.link] = struct{}{}
		h.link.Ready(q.number, !q.full.Load())
	}
	for q.turned() { // Repeat: whoever changed the backlog before full was stored did not poke us.
		full := !q.full.Load()
		q.fullAt.Store(time.Now().UnixNano())
		q.full.Store(full)
		for l := range q.links {
			l.Ready(q.number, !full)
		}
	}
	return true
}

// forget is for a link that has ended.
func (q *appQueue) forget(l transport.Link) {
	q.tell.Lock()
	delete(q.links, l)
	q.tell.Unlock()
}

// end tells peers that the application is gone.
func (q *appQueue) end() {
	q.tell.Lock()
	defer q.tell.Unlock()
	for l := range q.links {
		l.Gone(q.number)
	}
	q.links, q.ended = nil, true
}

// numberLocked finds a session a queue of its own.
func (s *Service) numberLocked(x *session) {
	for n := range s.queues {
		if s.queues[n] == nil {
			s.queues[n] = x
			x.queue.number = uint32(n) + transport.FirstQueue + 1
			return
		}
	}
	if n := uint32(len(s.queues)) + transport.FirstQueue + 1; n <= transport.Queues {
		s.queues = append(s.queues, x)
		x.queue.number = n
	}
}

// unnumberLocked gives the number back.
func (s *Service) unnumberLocked(x *session) {
	if n := x.queue.number; n != 0 {
		s.queues[n-transport.FirstQueue-1] = nil
	}
}
