package rds

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/driver"
	"github.com/rds-go/rds/transport"
)

// peer is a connection as the node knows it: the sockets and sessions that use it, and what
// of theirs waits outside its core. Its Driver does the rest.
type peer struct {
	node   *Node
	local  *localAddr
	remote netip.Addr
	key    peerKey
	own    bool   // the peer is one of the node's own addresses, and does not end
	index  uint32 // position in Node.index
	log    *zap.Logger

	waiters  waitQueue   // senders that wait for a congestion map or the budget
	down     atomic.Bool // no path has a link; written under the lock
	sharesMu sync.Mutex  // guards shares; a leaf
	shares   map[*share]struct{}
	partner  atomic.Bool              // a socket of ours has had something for the peer
	barred   atomic.Bool              // the allow-list does not name the peer; written under the lock
	users    atomic.Int32             // sockets, sessions and calls that hold the peer, see peerlife.go
	told     atomic.Bool              // sockets or sessions know the peer's number, see peerIndex
	stranger atomic.Bool              // the peer counts as a stranger, see strangers.go
	sequence atomic.Pointer[sequence] // what is remembered of the peer; nil: it has delivered nothing to a bound port
	records  recordsInUse
	paused   [conn.MaxPaths]atomic.Pointer[pausedFor] // the pauses of the links; nil: the link is read

	*driver.Driver // its lock guards the fields below, and it the core, links and timers

	flows    []*flow // flows of sessions with waiting messages, in the order of their turns
	mapsSeen uint32  // Core.MapVersion as shown to applications
	carries  carriage
	channels int         // how often channels want a connection
	turned   bool        // down, or what is held back, has changed and the sockets have not heard of the change
	ending   []parkedEnd // messages of sessions that end without the core: the link cannot carry them, or they expired in a flow
	limits   conn.Limits // time limits of messages in flows
	expired  uint64      // number of messages that expired in flows
	peerKeys
	marks   portMarks     // when the peer's congested ports were marked
	unbound []unboundPort // ports of the peer that refused messages; the last one to do so is last
}

var _ driver.Owner = (*driven)(nil)

func newPeer(n *Node, la *localAddr, key peerKey, role conn.Role) *peer {
	remote := key.remote
	p := &peer{
		node: n, local: la, remote: remote, key: key,
		log: n.log.With(zap.Stringer("local", la.addr), zap.Stringer("peer", remote)),
	}
	s, refused := p.findSequence()
	var legacy conn.Legacy
	if s != nil {
		legacy = s.legacy
		legacy.Generation = s.records[0].Generation.Load()
	}
	p.down.Store(true)
	p.users.Store(1) // whoever makes the peer holds it; its own addresses a node holds for ever
	p.Driver = driver.New(driver.Config{
		Owner: (*driven)(p), Runtime: driver.System{Work: &n.work}, Pool: n.pool, Burst: n.cfg.TCP.Burst,
		Core: conn.Config{
			Local: la.addr, Remote: remote, Role: role, Paths: n.cfg.Paths, OneOperation: p.own, Generation: n.generation, PeerGeneration: legacy.Generation,
			FirstSequence: uint64(n.now().UnixNano()), IgnorePings: n.cfg.DisablePing,
			ReconnectMin: n.cfg.ReconnectMin, ReconnectMax: n.cfg.ReconnectMax, AskTimeout: n.askTimeout, Budget: n.cfg.PeerBudget,
			Pool: n.pool, Rand: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), LocalMap: la.copyMap, OnRefused: p.refusedLocked,
		},
	})
	p.Core.Inherit(legacy)
	p.Sync()
	p.inherit(s, refused)
	return p
}

// enqueueLocked hands a message to the core. Commit is to follow.
func (p *peer) enqueueLocked(s *nodeSocket, m *conn.Message) error {
	if m.Extended() || m.Op != nil {
		if err := p.carriedLocked(p.Core.PathFor(m.Sport)); err != nil {
			return err
		}
	}
	if err := p.Enqueue(m); err != nil {
		return err
	}
	if m.Admitted && !p.Core.Admits(m.Dport) { // held back at once
		p.turned = true
	}
	if !s.sent.Load() {
		s.sent.Store(true)
	}
	return nil
}

// close ends the connection. Its links report their ends later.
func (p *peer) close() {
	p.Lock()
	p.limits = conn.Limits{}
	p.Unlock()
	p.Close()
}

// driven is a peer as its Driver knows it.
type driven peer

func (o *driven) peer() *peer { return (*peer)(o) }

// Needed is for driver.Owner, as are the other methods.
func (o *driven) Needed() bool { return o.users.Load() > 0 }

// Deadline is the first time limit of the messages in flows.
func (o *driven) Deadline() time.Time { return o.limits.Next() }

// Tick ends the messages in flows whose time limit is over.
func (o *driven) Tick(now time.Time) { o.peer().expireLocked(now) }

// Serve moves messages from flows to the log, and asks for the connection that channels want.
func (o *driven) Serve() {
	if len(o.flows) > 0 {
		o.peer().serveLocked()
	}
	if o.channels > 0 && o.Link(0) == nil {
		o.Core.Connect(o.node.now())
	}
}

// Committing notes what is to be told when the lock is released.
func (o *driven) Committing() bool {
	if v := o.Core.MapVersion(); v != o.mapsSeen {
		o.mapsSeen, o.turned = v, true
		o.marks.update(o.node.now(), o.Core.RefusedPorts())
		o.node.server().showMap(o.peer())
	}
	return o.turned || len(o.ending) > 0
}

// Committed tells sockets what has changed.
func (o *driven) Committed() {
	o.Lock()
	ending, turned := o.ending, o.turned
	o.ending, o.turned = nil, false
	o.Unlock()
	for i := range ending {
		ending[i].end(ending[i].status)
	}
	if turned {
		o.peer().reshare()
	}
}

// Freed wakes senders.
func (o *driven) Freed(a *conn.Account) {
	s := a.Owner.(*nodeSocket)
	s.owner.settled()
	s.roomed()
}

// Fate reports what has become of a message.
func (o *driven) Fate(f conn.Fate, last bool) {
	s := f.Account.Owner.(*nodeSocket)
	if f.Op == nil || !s.ops.defers(f) {
		s.owner.ended(f)
	}
	if last {
		s.owner.deliver()
	}
}

// WakeAll wakes those who wait for a map or the budget.
func (o *driven) WakeAll() {
	o.peer().serve()
	o.waiters.wake(-1)
}

// Dial connects a path.
func (o *driven) Dial(ctx context.Context, i int) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	o.node.work.Go(func() {
		defer cancel()
		var l transport.Link
		var err error
		select {
		case <-o.node.succession.opened:
			l, err = o.node.dial(ctx, o.local.addr, o.remote, i)
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			if ce := o.log.Check(zap.DebugLevel, "dial failed"); ce != nil {
				ce.Write(zap.Int("path", i), zap.Error(err))
			}
		}
		o.Dialed(i, l, err)
	})
}

// Takes refuses a link if the pair of hosts has moved to the other wire meanwhile.
func (o *driven) Takes(l transport.Link) error {
	if !o.peer().targets(l) {
		return errMoved
	}
	return nil
}

// LinkUp follows the start of a link.
func (o *driven) LinkUp(i int, l transport.Link) {
	o.peer().turnLocked()
	o.peer().carriesLocked(i, l)
}

// via returns the transport that reaches the peer.
func (p *peer) via() transport.Transport {
	if p.own {
		return p.node.self
	}
	return p.node.wire
}

// LinkDown follows the end of one.
func (o *driven) LinkDown(int) { o.peer().turnLocked() }

// Started tells of a link.
func (o *driven) Started(i int, l transport.Link, inbound bool) {
	if inbound {
		o.peer().taken(l)
	}
	o.waiters.wake(-1) // senders that wait to know what the link carries
	o.log.Info("path up", zap.Int("path", i), zap.Stringer("from", l.LocalAddr()), zap.Stringer("to", l.RemoteAddr()))
}

// Ended tells of the end of a link.
func (o *driven) Ended(i int, cause error) {
	o.log.Info("path down", zap.Int("path", i), zap.Error(cause))
}

// Idle ends the peer, if nobody holds it.
func (o *driven) Idle() { o.node.endIdle(o.peer()) }

// PortsChanged wakes those who wait for ports of the peer.
func (o *driven) PortsChanged() { o.node.mapNews() }

// Met tells who the peer says that it is.
func (o *driven) Met(before, now driver.State) {
	if now.Paths > 0 {
		o.log.Info("handshake", zap.Int("paths", now.Paths), zap.Uint32("generation", now.Generation))
	}
	if before.Generation != 0 && now.Generation != before.Generation {
		o.log.Info("peer restarted", zap.Uint32("generation", now.Generation), zap.Uint32("before", before.Generation))
	}
}

// Sink takes what a link brings.
func (o *driven) Sink(r *driver.Receiver) driver.Sink { return newSink(o.peer(), r) }

// dialTimeout bounds one attempt to connect; Linux leaves it to TCP's SYN
// retries, some two minutes, which a restarted peer would have to wait out.
const dialTimeout = 15 * time.Second
