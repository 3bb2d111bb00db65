package xrc

import (
	"context"
	"time"

	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/xrc/objects"
)

// path is one path of a pair of hosts: an initiator, by which this side's RDS sends, and a
// target, by which it receives. They belong to the transport's session, and outlive
// connections: one that is lost suspends them, the next one resumes them, and the grace of
// package rds/xrc/objects ends them. RDS sends again by itself what was lost.
type path struct {
	p     *peer
	index uint8

	mu        lockorder.Mutex[path] // taken before all others; no call back takes it
	initiator *objects.Initiator    // guarded by mu, nil: there is none
	target    *objects.Target       // guarded by mu, as initiator
	ref       objects.Ref           // guarded by mu: name of target
	theirs    hello                 // guarded by mu: what the peer has said of its queue pairs; not paired: nothing was connected yet
	life      uint64                // guarded by mu: the peer's incarnation with theirs
	link      *link                 // guarded by mu: connection that carries the queue pairs, nil while they are suspended
	waits     bool                  // guarded by mu: counted in Transport.suspended
	opening   int                   // guarded by mu: links that have told the peer of the queue pairs, and were not put to use
}

// Attributes of RDS's queue pairs.
const (
	pathMTU   = 65535
	pathDepth = 128 // reads and atomics of all operations
)

// initiating are the attributes of an initiator.
func initiating(mtu, depth int) objects.Attr {
	return objects.Attr{PathMTU: mtu, MaxRdAtomic: depth, Timeout: 14, RetryCount: 7, RNRRetry: 7}
}

// offer returns the queue pairs of the path for the hello of a connection to be, making them
// where there are none.
func (x *path) offer() (initiator, target objects.Ref, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.makeLocked(); err != nil {
		return initiator, target, err
	}
	x.opening++
	return x.initiator.Ref(), x.ref, nil
}

// answering is the path for a connection that the peer makes, which is for the queue pairs in
// its hello: if these are others than before, it is one that takes the place of x when the
// connection is put to use. Whoever made it may be somebody else, and x goes on until then.
func (x *path) answering(theirs hello, life uint64) *path {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.theirs.paired() && !x.meansLocked(theirs, life) {
		return &path{p: x.p, index: x.index}
	}
	return x
}

// use puts x in its place, and ends the one that was there, if that is another.
func (p *peer) use(x *path) {
	p.t.mu.Lock()
	old := p.paths[x.index]
	p.paths[x.index] = x
	p.t.mu.Unlock()
	if old != x {
		old.end()
	}
}

// meansLocked tells whether the queue pairs are connected to those of theirs.
func (x *path) meansLocked(theirs hello, life uint64) bool {
	return x.theirs.initiator == theirs.initiator && x.theirs.target == theirs.target && x.life == life
}

func (x *path) makeLocked() error {
	t := x.p.t
	if x.initiator != nil && (x.initiator.State() == objects.StateError || x.target.State() == objects.StateError) {
		x.endLocked()
	}
	if x.initiator != nil {
		return nil
	}
	i, err := t.session.CreateInitiator(objects.InitiatorAttr{PD: t.rds.pd, SendCQ: t.rds.cq, MaxSend: t.opts.Operations, Implied: true})
	if err != nil {
		return err
	}
	x.initiator = i
	if x.ref, err = t.session.CreateTarget(objects.TargetAttr{Domain: t.rds.domain, Implied: true}); err == nil {
		x.target, err = t.objects.Target(x.ref)
	}
	if err != nil {
		x.endLocked()
	}
	return err
}

// dropped is for a connection that offer was for and that came to nothing.
func (x *path) dropped() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.opening--
	x.spareLocked()
}

// spareLocked ends queue pairs that were never connected and that no connection is set up for.
func (x *path) spareLocked() {
	if x.opening == 0 && !x.theirs.paired() {
		x.endLocked()
	}
}

// carry makes a connection that is put to use carry the queue pairs.
func (x *path) carry(l *link) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.opening--
	if err := x.makeLocked(); err != nil {
		return err
	}
	if x.link != nil {
		x.suspendLocked(x.p.t.now())
	}
	if err := x.connectLocked(l); err != nil {
		x.endLocked()
		return err
	}
	x.awaitedLocked()
	x.theirs, x.life, x.link = l.hello, l.incarnation, l
	l.targetNumber.Store(x.ref.Number)
	l.told.Range(func(_, q any) bool {
		q.(*Queue).join(l)
		return true
	})
	return nil
}

// connectLocked connects the queue pairs to those of a connection, or resumes them.
func (x *path) connectLocked(l *link) error {
	t, c := x.p.t, &carriedPath{l}
	initiator := objects.Peer{Host: x.p.remote, Incarnation: l.incarnation, QP: l.hello.initiator}
	target := objects.Peer{Host: x.p.remote, Incarnation: l.incarnation, QP: l.hello.target}
	initiator.QP.Kind, target.QP.Kind = objects.KindInitiator, objects.KindTarget
	if x.theirs.paired() { // suspended; the peer's queue pairs are those of before, or new ones
		if err := x.initiator.Rename(target); err != nil {
			return err
		}
	} else {
		if _, err := t.session.EnsureConnected(t.rds.domain, x.ref.Number, objects.Attr{Host: x.p.remote, PathMTU: pathMTU,
			DestQPN: initiator.QP.Number, MaxDestRdAtomic: pathDepth, MinRNRTimer: 1}); err != nil {
			return err
		}
		if err := x.initiator.Connect(target, initiating(pathMTU, pathDepth)); err != nil {
			return err
		}
	}
	if err := x.target.Rename(initiator); err != nil {
		return err
	}
	if err := x.target.Attach(c); err != nil {
		return err
	}
	return x.initiator.Attach(c)
}

// lost suspends the queue pairs, if the connection carried them.
func (x *path) lost(l *link) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.link == l {
		x.suspendLocked(x.p.t.now())
	}
}

// maxSuspended is how many paths wait for a connection. RDS does without: it has their queue
// pairs made anew.
const maxSuspended = 1024

func (x *path) suspendLocked(now time.Time) {
	x.link.targetNumber.Store(0)
	x.link = nil
	if x.p.t.suspended.Load() >= maxSuspended {
		x.endLocked()
		return
	}
	if x.target.Suspend(now) != nil || x.initiator.Suspend(now) != nil {
		x.endLocked() // one of the queue pairs has ended while it was carried
		return
	}
	x.waits = true
	x.p.t.suspended.Add(1)
}

// sweep ends what grace has ended. It tells whether nothing is left.
func (x *path) sweep() (empty bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.initiator != nil && x.opening == 0 && x.link == nil && x.initiator.State() == objects.StateError {
		x.endLocked()
	}
	return x.initiator == nil && x.opening == 0
}

// end ends the queue pairs.
func (x *path) end() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.endLocked()
}

// endLocked ends the queue pairs, and with them all registrations with the target: of those
// who are registered nobody has to do anything for that.
func (x *path) endLocked() {
	t := x.p.t
	ctx := context.Background() // nobody reads the events of these sessions, so that nothing waits
	if x.link != nil {
		x.link.targetNumber.Store(0) // before registrations end, so that no application is registered again
	}
	if x.initiator != nil {
		_ = x.initiator.Destroy(ctx)
	}
	if x.target != nil {
		t.unregisterAll(ctx, x.ref.Number)
		_ = t.session.Unregister(ctx, t.rds.domain, x.ref.Number)
	}
	x.awaitedLocked()
	x.initiator, x.target, x.ref, x.theirs, x.life, x.link = nil, nil, objects.Ref{}, hello{}, 0, nil
}

// awaitedLocked ends the wait for a connection.
func (x *path) awaitedLocked() {
	if x.waits {
		x.waits = false
		x.p.t.suspended.Add(-1)
	}
}

// Changed follows a change of attributes, of which RDS's queue pairs have none that matter.
func (c *carriedPath) Changed() {}

// carriedPath is how a connection carries queue pairs of RDS, as objects.Connection: they end
// with it, and it with them.
type carriedPath struct{ l *link }

func (c *carriedPath) Close(cause error) {
	if cause != objects.ErrDestroyed {
		c.l.t.work.Go(func() { c.l.abort() })
	}
}
