package xrc

import (
	"context"
	"sync/atomic"

	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

// Queue is the shared receive queue of an application of RDS: that of a session, in RDS's
// domain, with a sink. Messages that peers send to it go where the links that bring them have
// a place for them. Peers learn of it by transport.Link.Home; each time a peer does, the session
// is registered with the target by which the peer's messages come.
type Queue struct {
	t       *Transport
	session *objects.Session
	domain  *objects.Domain
	pd      *objects.PD
	number  uint32
	sink    *iwarp.SRQ
	gone    atomic.Bool // the application has ended

	mu    lockorder.Mutex[Queue] // a leaf, but for the locks of links
	busy  bool                   // guarded by mu: peers keep back what is for the queue
	ended bool                   // guarded by mu: the application has ended, as gone says without it
	links map[*link]struct{}     // guarded by mu: links whose peers know of the queue
	with  map[uint32]struct{}    // guarded by mu; targets that the session is registered with
}

// NewQueue makes the queue of an application. The name is for logs and reports.
func (t *Transport) NewQueue(name string) (*Queue, error) {
	s, err := t.objects.NewSession(objects.SessionConfig{Name: name, Limits: objects.Limits{Registrations: maxRegistrations, Events: 2}})
	if err != nil {
		return nil, err
	}
	q := &Queue{t: t, session: s, links: make(map[*link]struct{}), with: make(map[uint32]struct{})}
	if err := q.make(); err != nil {
		q.Close()
		return nil, err
	}
	t.mu.Lock()
	t.queues[q.number] = q
	t.mu.Unlock()
	return q, nil
}

func (q *Queue) make() (err error) {
	if q.domain, err = q.session.ShareDomain(q.t.rds.domain); err != nil {
		return err
	}
	if q.pd, err = q.session.AllocPD(); err != nil {
		return err
	}
	srq, err := q.session.CreateSRQ(objects.SRQAttr{Domain: q.domain, PD: q.pd, Sink: true})
	if err == nil {
		q.number, q.sink = srq.Num(), srq.SRQ
	}
	return err
}

// Number is what peers name the queue by.
func (q *Queue) Number() uint32 { return q.number }

// Domain is the protection domain of the application's regions.
func (q *Queue) Domain() *mr.Domain { return q.pd.Domain() }

// SetReady says whether the application takes messages. While it does not, peers keep what
// they have for its ports, and send everything else. It does not block.
func (q *Queue) SetReady(ready bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.busy = !ready
	for l := range q.links {
		l.tellState(q.number, ready)
	}
}

// Close is the end of the application: peers hear that the queue is gone, and use the node's
// own queue for its ports.
func (q *Queue) Close() {
	q.mu.Lock()
	q.ended = true
	q.gone.Store(true)
	for l := range q.links {
		l.tellGone(q.number)
	}
	q.links = nil
	q.mu.Unlock()
	q.t.mu.Lock()
	if q.t.queues[q.number] == q {
		delete(q.t.queues, q.number)
	}
	q.t.mu.Unlock()
	_ = q.session.Close(context.Background())
}

// home tells the peer of a link that messages to a port belong to the queue.
func (q *Queue) home(l *link, port uint16) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return false
	}
	_, known := q.links[l]
	if !known {
		l.told.Store(q.number, q)
	}
	if !l.tellHome(port, q.number) || known {
		return known
	}
	q.links[l] = struct{}{}
	l.tellState(q.number, !q.busy)
	q.joinLocked(l)
	return true
}

// join is for a link that carries the queue pairs of its path from now on, and whose peer
// knows of the queue.
func (q *Queue) join(l *link) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.ended {
		q.joinLocked(l)
	}
}

// joinLocked registers the session with the target by which the peer's messages come.
func (q *Queue) joinLocked(l *link) {
	target := l.targetNumber.Load()
	if _, registered := q.with[target]; registered || target == 0 {
		return
	}
	if _, err := q.session.Register(q.domain, target); err == nil { // of a target that is ending nothing is to be held
		q.with[target] = struct{}{}
	}
}

// forget is for a link that has ended.
func (q *Queue) forget(l *link) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.links, l)
}

// unregister ends the registration with a target that ends.
func (q *Queue) unregister(ctx context.Context, target uint32) {
	q.mu.Lock()
	_, registered := q.with[target]
	delete(q.with, target)
	q.mu.Unlock()
	if registered {
		_ = q.session.Unregister(ctx, q.domain, target)
	}
}

// allQueues are the queues of applications.
func (t *Transport) allQueues() []*Queue {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]*Queue, 0, len(t.queues))
	for _, q := range t.queues {
		list = append(list, q)
	}
	return list
}

// unregisterAll ends the registrations of all applications with a target of RDS.
func (t *Transport) unregisterAll(ctx context.Context, target uint32) {
	for _, q := range t.allQueues() {
		q.unregister(ctx, target)
	}
}
