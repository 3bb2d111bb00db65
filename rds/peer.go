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
	"github.com/rds-go/rds/transport"
)

// peer drives one connection: it owns the core's lock and does what the core
// asks for.
type peer struct {
	node   *Node
	local  *localAddr
	remote netip.Addr
	key    peerKey
	own    bool   // the peer is one of the node's own addresses, and does not end
	index  uint32 // position in Node.index
	log    *zap.Logger

	waiters    waitQueue   // senders that wait for a congestion map or the budget
	down       atomic.Bool // no path has a link; written under mu
	sharesMu   sync.Mutex  // guards shares; a leaf
	shares     map[*share]struct{}
	partner    atomic.Bool   // a socket of ours has had something for the peer
	arrivals   atomic.Uint32 // grows with each burst received
	epoch      atomic.Uint32 // core.Epoch, for operations
	gone       atomic.Bool
	barred     atomic.Bool              // the allow-list does not name the peer; written under mu
	generation atomic.Uint32            // core.PeerGeneration, for receivers
	users      atomic.Int32             // sockets, sessions and calls that hold the peer, see peerlife.go
	told       atomic.Bool              // sockets or sessions know the peer's number, see peerIndex
	stranger   atomic.Bool              // the peer counts as a stranger, see strangers.go
	sequence   atomic.Pointer[sequence] // what is remembered of the peer; nil: it has delivered nothing to a bound port
	records    recordsInUse

	mu       sync.Mutex // guards the fields below
	core     *conn.Conn
	asks     uint8 // core.Asks, as told to the receivers
	path     [conn.MaxPaths]pathIO
	links    map[conn.LinkID]transport.Link
	nextLink conn.LinkID
	timer    *time.Timer // fires at core.Deadline
	timerAt  time.Time
	acks     *time.Timer // looks for acknowledgements while messages wait for them
	acksOn   bool
	acksWait time.Duration
	ackEager bool    // a sender waits for room
	wants    uint8   // bit i: path i has messages appended, and nobody is known to write them
	flows    []*flow // flows of sessions with waiting messages, in the order of their turns
	mapsSeen uint32  // core.MapVersion as shown to applications
	carries  carriage
	turned   bool          // down, or what is held back, has changed and the sockets have not heard of the change
	ending   []parkedEnd   // messages of sessions that end without the core: the link cannot carry them, or they expired in a flow
	limits   conn.Limits   // time limits of messages in flows
	expired  uint64        // number of messages that expired in flows
	parting  chan struct{} // wakes the stopping node, which waits for links to end or for answers; nil: it does not wait
	peerKeys
	holds   map[uint16]uint8 // bit i: path i says that the port takes no messages
	marks   portMarks        // when the peer's congested ports were marked
	unbound []unboundPort    // ports of the peer that refused messages; the last one to do so is last
}

// pathIO is what the driver keeps of a path.
type pathIO struct {
	in      conn.Inbound // used by the receiver only
	refused refusals     // used by the receiver only
	link    transport.Link
	id      conn.LinkID
	cancel  context.CancelFunc // cancels the dial under way
	tx      transmitter
	ended   *linkEnd      // the link's end, if it was reported while a writer was at work or operations were under way
	ops     int           // operations that the link has not finished
	nextRX  atomic.Uint64 // one more than the last sequence number received
	asked   atomic.Bool   // the core wants to hear when something arrives on the link

	history pathHistory
	paused  atomic.Pointer[pausedFor] // the pause of the link's receiver; nil: the link is read

	reserver transport.Link // the link, if its peer grants octets
	claimed  int            // octets claimed of reserver for messages that were picked and are not written
}

type linkEnd struct {
	cause error
	acked uint64
}

func newPeer(n *Node, la *localAddr, key peerKey, role conn.Role) *peer {
	remote := key.remote
	p := &peer{
		node: n, local: la, remote: remote, key: key, links: make(map[conn.LinkID]transport.Link),
		log: n.log.With(zap.Stringer("local", la.addr), zap.Stringer("peer", remote)),
	}
	legacy := p.inherit()
	p.generation.Store(legacy.Generation)
	p.down.Store(true)
	p.users.Store(1) // whoever makes the peer holds it; its own addresses a node holds for ever
	p.core = conn.New(conn.Config{
		Local: la.addr, Remote: remote, Role: role, Paths: n.cfg.Paths, Generation: n.generation, PeerGeneration: legacy.Generation,
		FirstSequence: uint64(n.now().UnixNano()), IgnorePings: n.cfg.DisablePing,
		ReconnectMin: n.cfg.ReconnectMin, ReconnectMax: n.cfg.ReconnectMax, AskTimeout: n.askTimeout, Budget: n.cfg.PeerBudget,
		Pool: n.pool, Rand: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), LocalMap: la.copyMap, OnRefused: p.refusedLocked, Begins: p.beginsLocked,
	})
	p.core.Inherit(legacy)
	return p
}

// enqueueLocked hands a message to the core.
func (p *peer) enqueueLocked(s *nodeSocket, m *conn.Message) error {
	i := p.core.PathFor(m.Sport)
	if m.Extended() || m.Op != nil {
		if err := p.carriedLocked(i); err != nil {
			return err
		}
	}
	var now time.Time // the core wants it of messages with a time limit
	limited := !m.Deadline.IsZero()
	if limited {
		now = p.node.now()
	}
	size := m.Size() // the payload of a message that has expired is released by Enqueue
	ready, err := p.core.Enqueue(now, i, m)
	if err != nil {
		return err
	}
	if limited {
		p.armLocked()
	}
	t := &p.path[i].tx
	t.since += size
	t.count++
	if ready {
		t.wanted = true
		p.wants |= 1 << i
	}
	if m.Admitted && !p.core.Admits(m.Dport) { // held back at once
		p.turned = true
	}
	if !s.sent.Load() {
		s.sent.Store(true)
	}
	return nil
}

// unlock releases p.mu and does what the core has asked for. On the event
// loop kick collects the paths to transmit on, for the end of the burst.
func (p *peer) unlock(kick *[conn.MaxPaths]bool) {
	if v := p.core.MapVersion(); v != p.mapsSeen {
		p.mapsSeen, p.turned = v, true
		p.marks.update(p.node.now(), p.core.RefusedPorts())
		p.node.showMap(p)
	}
	if p.turned {
		p.turned = false
		p.unlock(kick)
		p.reshare()
		return
	}
	if !p.core.HasOutput() && len(p.ending) == 0 {
		p.mu.Unlock()
		return
	}
	ending := p.ending
	p.ending = nil
	var (
		acts  [16]conn.Action
		freed [16]*conn.Account
		fates [16]conn.Fate
	)
	as := p.core.TakeActions(acts[:0])
	fs := p.core.TakeFreed(freed[:0])
	ft := p.core.TakeFates(fates[:0])
	p.armLocked()
	p.mu.Unlock()
	for _, a := range fs {
		s := a.Owner.(*nodeSocket)
		if s.app != nil {
			s.app.settled()
		}
		s.roomed()
	}
	for i, f := range ft {
		s := f.Account.Owner.(*nodeSocket)
		if f.Op == nil || !s.ops.defers(f) {
			s.ended(f)
		}
		if s.app != nil && (i == len(ft)-1 || ft[i+1].Account != f.Account) {
			s.app.deliver()
		}
	}
	for i := range ending {
		ending[i].end(ending[i].status)
	}
	for _, a := range as {
		if a.Kind == conn.Transmit && kick != nil {
			kick[a.Path] = true
			continue
		}
		p.perform(a)
	}
}

func (p *peer) perform(a conn.Action) {
	switch a.Kind {
	case conn.Dial:
		p.dial(a.Path)
	case conn.CancelDial:
		p.mu.Lock()
		cancel := p.path[a.Path].cancel
		p.mu.Unlock()
		if cancel != nil {
			cancel()
		}
	case conn.Start:
		p.start(a.Path, a.Link)
	case conn.CloseLink:
		p.closeLink(a.Link)
	case conn.Transmit:
		p.transmit(a.Path)
	case conn.WakeAll:
		p.serve()
		p.waiters.wake(-1)
	}
}

// closeLink ends a link. One that was not started does not report its end: where it is a
// path's, because who is to start it has not come to that yet, the core hears of it here.
func (p *peer) closeLink(id conn.LinkID) {
	p.mu.Lock()
	l, started := p.links[id], p.startedLocked(id)
	if !started {
		delete(p.links, id)
	}
	p.mu.Unlock()
	if l != nil {
		l.Close(transport.Drain)
	}
	if started {
		return
	}
	p.mu.Lock()
	p.core.LinkClosed(p.node.now(), id, 0)
	p.partingLocked()
	p.armLocked()
	p.unlock(nil)
	p.node.endIdle(p)
}

func (p *peer) startedLocked(id conn.LinkID) bool {
	for i := range p.path {
		if p.path[i].id == id {
			return true
		}
	}
	return false
}

func (p *peer) dial(i int) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	p.mu.Lock()
	if p.gone.Load() {
		p.core.DialFailed(p.node.now(), i)
		p.unlock(nil)
		cancel()
		return
	}
	p.path[i].cancel = cancel
	p.path[i].history.wanted(p.node.now())
	p.node.work.Add(1)
	p.mu.Unlock()
	go func() {
		defer p.node.work.Done()
		defer cancel()
		var l transport.Link
		var err error
		select {
		case <-p.node.succession.opened:
			l, err = p.node.dial(ctx, p.local.addr, p.remote, i)
		case <-ctx.Done():
			err = ctx.Err()
		}
		p.mu.Lock()
		p.path[i].cancel = nil
		if err == nil && !p.targets(l) { // the pair of hosts has moved to the other wire meanwhile
			l.Close(transport.Abort)
			err = errMoved
		}
		if err != nil {
			if ce := p.log.Check(zap.DebugLevel, "dial failed"); ce != nil {
				ce.Write(zap.Int("path", i), zap.Error(err))
			}
			p.path[i].history.failed(err)
			p.needLocked()
			p.core.DialFailed(p.node.now(), i)
		} else {
			p.core.Dialed(p.node.now(), i, p.registerLocked(l))
		}
		p.partingLocked()
		p.armLocked()
		p.unlock(nil)
		p.node.endIdle(p)
	}()
}

// dialTimeout bounds one attempt to connect; Linux leaves it to TCP's SYN
// retries, some two minutes, which a restarted peer would have to wait out.
const dialTimeout = 15 * time.Second

func (p *peer) registerLocked(l transport.Link) conn.LinkID {
	p.nextLink++
	p.links[p.nextLink] = l
	return p.nextLink
}

func (p *peer) accepted(l transport.Link, sport uint16) {
	p.mu.Lock()
	p.core.Accepted(p.node.now(), p.registerLocked(l), sport)
	p.armLocked()
	p.unlock(nil)
}

// start puts a link to use.
func (p *peer) start(i int, id conn.LinkID) {
	p.mu.Lock()
	l := p.links[id]
	io := &p.path[i]
	if l == nil || p.core.Link(i) != id {
		p.mu.Unlock()
		return
	}
	io.link, io.id = l, id
	io.history.opened(p.node.now())
	caps := l.Caps()
	io.reserver = nil
	if caps.Reserves {
		io.reserver = l
	}
	io.claimed = 0
	inbound := !p.core.Outbound(i)
	p.turnLocked()
	io.tx.reset()
	io.tx.blocked = true // a link that is not started does not report that it has room
	p.carriesLocked(i, l)
	if caps.GenerationStated {
		before := p.core.PeerGeneration()
		p.core.Meets(p.node.now(), i, caps.Generation)
		p.met(before, p.core.PeerGeneration())
		p.epoch.Store(p.core.Epoch())
		p.generation.Store(p.core.PeerGeneration())
	}
	p.unlock(nil)
	if inbound {
		p.taken(l)
	}
	p.waiters.wake(-1) // senders that wait to know what the link carries
	p.log.Info("path up", zap.Int("path", i), zap.Stringer("from", l.LocalAddr()), zap.Stringer("to", l.RemoteAddr()))
	rx := &receiver{peer: p, path: i, id: id, io: io, operator: carriageOf(l) == operators, arrived: transport.FirstQueue}
	if caps.Queues {
		rx.sorter = l
	}
	if caps.Pauses {
		rx.pause.link = l
	}
	if caps.Reserves {
		rx.reserver = l
		p.local.join(l)
	}
	if caps.Refuses {
		rx.refuser = l
	}
	if err := l.Start(rx); err != nil {
		if rx.reserver != nil {
			p.local.leave(rx.reserver)
		}
		l.Close(transport.Abort)
		p.ended(i, id, err, 0)
		return
	}
	p.begin(i, id)
}

// ended reports the end of a link to the core, once no writer is at work and
// the link has given back all operations.
func (p *peer) ended(i int, id conn.LinkID, cause error, acked uint64) {
	p.mu.Lock()
	io := &p.path[i]
	if io.id == id && (io.tx.busy || io.ops > 0) {
		io.ended = &linkEnd{cause, acked}
		if !io.tx.busy {
			p.core.LinkFailed(id)
		}
		p.unlock(nil)
		return
	}
	p.endedLocked(i, id, cause, acked)
}

// endedLocked unlocks p.mu.
func (p *peer) endedLocked(i int, id conn.LinkID, cause error, acked uint64) {
	io := &p.path[i]
	delete(p.links, id)
	if io.id == id {
		io.history.lost(p.node.now(), cause)
		if io.reserver != nil && acked > 0 { // acknowledged by the peer's RDS, which has taken the link
			p.core.Proved(p.node.now(), i)
		}
		io.link, io.id = nil, 0
		io.reserver, io.claimed = nil, 0
		p.turnLocked()
		io.tx.reset()
	}
	ports := p.core.MapVersion()
	p.needLocked()
	p.core.LinkClosed(p.node.now(), id, acked)
	p.partingLocked()
	p.holdLocked(i, nil, false) // holds were the word of this link
	news := p.core.MapVersion() != ports
	p.serveLocked() // Messages in flows go to the log, from where the next link sends them.
	p.armLocked()
	p.log.Info("path down", zap.Int("path", i), zap.Error(cause))
	p.unlock(nil)
	if news {
		p.node.mapNews()
	}
	p.node.endIdle(p)
}

// armLocked sets the timer for the core's next deadline.
func (p *peer) armLocked() {
	p.needLocked()
	if asks := p.core.Asks(); asks != p.asks {
		p.asks = asks
		for i := range p.path {
			p.path[i].asked.Store(asks>>i&1 != 0)
		}
	}
	at := p.core.Deadline()
	if next := p.limits.Next(); !next.IsZero() && (at.IsZero() || next.Before(at)) {
		at = next
	}
	if at.Equal(p.timerAt) {
		return
	}
	p.timerAt = at
	switch {
	case at.IsZero():
		p.timer.Stop()
	case p.timer == nil:
		p.timer = time.AfterFunc(time.Until(at), p.tick)
	default:
		p.timer.Reset(time.Until(at))
	}
}

func (p *peer) tick() {
	p.mu.Lock()
	p.timerAt = time.Time{}
	now := p.node.now()
	if !p.gone.Load() {
		p.core.Tick(now)
	}
	p.expireLocked(now)
	p.armLocked()
	p.unlock(nil)
}

// close ends the connection. Its links report their ends later.
func (p *peer) close() {
	p.mu.Lock()
	if p.gone.Swap(true) {
		p.mu.Unlock()
		return
	}
	p.core.Close()
	p.limits = conn.Limits{}
	for i := range p.path {
		p.path[i].tx.stop()
	}
	if p.timer != nil {
		p.timer.Stop()
	}
	if p.acks != nil {
		p.acks.Stop()
	}
	p.unlock(nil)
}
