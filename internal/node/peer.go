package node

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/choice"
	"github.com/rds-go/rds/internal/driver"
	"github.com/rds-go/rds/internal/gnetloop"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

// Peer is a connection as the node knows it: the sockets and sessions that use it, and what
// of theirs waits outside its core. Its Driver does the rest.
type Peer struct {
	Node   *Node
	Local  *Local
	Remote netip.Addr
	key    PeerKey
	own    bool           // the peer is one of the node's own addresses, and does not end
	Choice *choice.Policy // Node.choice; nil: there is nothing to choose, or the peer is an own address
	Index  uint32         // position in Node.Index
	log    *zap.Logger

	waiters  socket.WaitQueue      // senders that wait for a congestion map or the budget
	Down     atomic.Bool           // no path has a link; written under the lock
	SharesMu lockorder.Mutex[Peer] // guards shares; a leaf
	shares   map[*share]struct{}
	partner  atomic.Bool              // a socket of ours has had something for the peer
	Barred   atomic.Bool              // the allow-list does not name the peer; written under the lock
	users    atomic.Int32             // sockets, sessions and calls that hold the peer, see peerlife.go
	Told     atomic.Bool              // sockets or sessions know the peer's number, see peerIndex
	stranger atomic.Bool              // the peer counts as a stranger, see strangers.go
	sequence atomic.Pointer[sequence] // what is remembered of the peer; nil: it has delivered nothing to a bound port
	records  recordsInUse
	paused   [conn.MaxPaths]atomic.Pointer[pausedFor] // the pauses of the links; nil: the link is read

	*driver.Driver // its lock guards the fields below, and it the core, links and timers

	Flows       []*flow     // flows of sessions with waiting messages, in the order of their turns
	sentTooLong atomic.Bool // the peer has sent a message that is longer than we take
	mapsSeen    uint32      // Core.MapVersion as shown to applications
	longest     wire.Limit  // Core.Longest as shown to applications
	Carries     Carriage
	channels    int         // how often channels want a connection
	turned      bool        // down, or what is held back, has changed and the sockets have not heard of the change
	limits      conn.Limits // time limits of messages in flows
	expired     uint64      // number of messages that expired in flows
	peerKeys
	marks   portMarks     // when the peer's congested ports were marked
	unbound []unboundPort // ports of the peer that refused messages; the last one to do so is last
}

var _ driver.Owner = (*driven)(nil)

func newPeer(n *Node, la *Local, key PeerKey, role conn.Role) *Peer {
	remote := key.Remote
	p := &Peer{
		Node: n, Local: la, Remote: remote, key: key,
		log: n.Log.With(zap.Stringer("local", la.Addr), zap.Stringer("peer", remote)),
	}
	s, refused := p.findSequence()
	if !p.own {
		p.Choice = n.choice
	}
	var legacy conn.Legacy
	if s != nil {
		legacy = s.legacy
		legacy.Generation = s.records[0].Generation
	}
	p.Down.Store(true)
	p.users.Store(1) // whoever makes the peer holds it; its own addresses a node holds for ever
	p.Driver = driver.New(driver.Config{
		Owner: (*driven)(p), Runtime: driver.System{Work: &n.work}, Pool: n.Pool, Burst: n.Config.TCP.Burst,
		Core: conn.Config{
			Local: la.Addr, Remote: remote, Role: role, Paths: n.Config.Paths, OneOperation: p.own, Generation: n.Generation, Limit: p.states(), PeerGeneration: legacy.Generation,
			FirstSequence: n.numbers.first(time.Now()), IgnorePings: n.Config.DisablePing,
			ReconnectMin: n.Config.ReconnectMin, ReconnectMax: n.Config.ReconnectMax, Pace: n.pace, AskTimeout: n.askTimeout, Budget: n.Config.PeerBudget,
			Pool: n.Pool, Rand: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), LocalMap: la.copyMap, OnRefused: p.refusedLocked,
		},
	})
	p.Core.Inherit(legacy)
	p.Sync()
	p.inherit(s, refused)
	return p
}

// states is what the peer is told that the node takes; 0: nothing, for it takes everything of RDS.
func (p *Peer) states() wire.Limit {
	if l := wire.LimitOf(p.Node.Config.MaxMessage); !p.own && l != wire.LimitAll {
		return l
	}
	return 0
}

// enqueueLocked hands a message to the core. Commit is to follow.
func (p *Peer) enqueueLocked(s *Socket, m *conn.Message) error {
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
	if !s.Sent.Load() {
		s.Sent.Store(true)
	}
	return nil
}

// close ends the connection. Its links report their ends later.
func (p *Peer) close() {
	p.Lock()
	p.limits = conn.Limits{}
	p.Unlock()
	p.Close()
}

// driven is a peer as its Driver knows it.
type driven Peer

func (o *driven) peer() *Peer { return (*Peer)(o) }

// Needed is for driver.Owner, as are the other methods.
func (o *driven) Needed() bool { return o.users.Load() > 0 }

// Deadline is the first time limit of the messages in flows.
func (o *driven) Deadline() time.Time { return o.limits.Next() }

// Tick ends the messages in flows whose time limit is over.
func (o *driven) Tick(now time.Time) { o.peer().expireLocked(now) }

// Serve moves messages from flows to the log, and asks for the connection that channels want.
func (o *driven) Serve() {
	if len(o.Flows) > 0 {
		o.peer().serveLocked()
	}
	if o.channels > 0 && o.Link(0) == nil {
		o.Core.Connect(time.Now())
	}
}

// Committing notes what is to be told when the lock is released.
func (o *driven) Committing() bool {
	if v := o.Core.MapVersion(); v != o.mapsSeen {
		o.mapsSeen, o.turned = v, true
		o.marks.update(time.Now(), o.Core.RefusedPorts())
		o.Node.Server().ShowMap(o.peer())
	}
	if l := o.Core.Longest(); l != o.longest {
		o.longest = l
		o.Node.Server().ShowLongest(o.peer())
	}
	return o.turned
}

// Committed tells sockets what has changed.
func (o *driven) Committed() {
	o.Lock()
	turned := o.turned
	o.turned = false
	o.Unlock()
	if turned {
		o.peer().reshare()
	}
}

// Freed wakes senders.
func (o *driven) Freed(a *conn.Account) {
	s := a.Owner.(*Socket)
	s.Owner.Settled()
	s.roomed()
}

// Fate reports what has become of a message.
func (o *driven) Fate(f conn.Fate, last bool) {
	s := f.Account.Owner.(*Socket)
	if f.Op == nil || !s.ops.defers(f) {
		s.Owner.Ended(f)
	}
	if last {
		s.Owner.Deliver()
	}
}

// WakeAll wakes those who wait for a map or the budget.
func (o *driven) WakeAll() {
	o.peer().serve()
	o.waiters.Wake(-1)
}

// Dial connects a path.
func (o *driven) Dial(ctx context.Context, i int) {
	ctx, cancel := o.Node.patience(ctx, o.Node.dialing.Add(1))
	o.Node.work.Go(func() {
		defer o.Node.dialing.Add(-1)
		defer cancel()
		var l transport.Link
		var err error
		select {
		case <-o.Node.Succession.opened:
			l, err = o.Node.dial(ctx, o.Local.Addr, o.Remote, i)
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
func (o *driven) Takes(l transport.Link) error { return o.peer().targets(l) }

// LinkUp follows the start of a link.
func (o *driven) LinkUp(i int, l transport.Link) {
	o.peer().turnLocked()
	o.peer().carriesLocked(i, l)
}

// LinkDown follows the end of one.
func (o *driven) LinkDown(int) { o.peer().turnLocked() }

// Started tells of a link.
func (o *driven) Started(i int, l transport.Link, inbound bool) {
	if inbound && o.Choice != nil {
		o.Choice.Taken(l)
	}
	o.waiters.Wake(-1) // senders that wait to know what the link carries
	o.log.Info("path up", zap.Int("path", i), zap.Stringer("from", l.LocalAddr()), zap.Stringer("to", l.RemoteAddr()))
}

// Ended tells of the end of a link.
func (o *driven) Ended(i int, cause error) {
	o.log.Info("path down", zap.Int("path", i), zap.Error(cause))
}

// Idle ends the peer, if nobody holds it.
func (o *driven) Idle() { o.Node.endIdle(o.peer()) }

// PortsChanged wakes those who wait for ports of the peer.
func (o *driven) PortsChanged() { o.Node.mapNews() }

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

// Dials under way of peers that do not answer hold sockets and memory: the more there are, the shorter each lasts,
// and it makes no second attempt.
const (
	patientDials  = 256
	leastPatience = 2 * time.Second
)

// patience bounds one of so many dials.
func (n *Node) patience(ctx context.Context, dials int64) (context.Context, context.CancelFunc) {
	if dials <= patientDials {
		return context.WithTimeout(ctx, dialTimeout)
	}
	return context.WithTimeout(gnetloop.Once(ctx), max(leastPatience, dialTimeout*patientDials/time.Duration(dials)))
}
