package rds

import (
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/gnetloop"
	"github.com/rds-go/rds/internal/loglimit"
	"github.com/rds-go/rds/internal/statefile"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/choice"
	"github.com/rds-go/rds/transport/loop"
	"github.com/rds-go/rds/transport/xrc"
)

// Node is a whole RDS stack inside this process: its addresses, its sockets,
// and one connection per peer host that all of them share.
type Node struct {
	cfg        Config
	inherited  *inheritance // what another process has left; nil: nothing
	log        *zap.Logger  // keeps to logLimit
	plainLog   *zap.Logger  // Config.Logger
	logLimit   *loglimit.Limiter
	wire       transport.Transport // carries messages to other hosts
	xrc        *xrc.Transport      // part of wire that speaks XRC, nil if it has none
	self       transport.Transport // carries messages between the node's own addresses
	loops      *gnetloop.Loops     // event loops of wire and of the service; nil: each has its own
	pool       *buf.Pool
	generation uint32
	pages      *pageSource // draws the page in which a cookie's offset begins
	suspicion  suspicionRates
	control    io.Closer
	counters   counters
	served     atomic.Pointer[serverBox]
	watchman   watchman
	index      peerIndex
	sequences  sequences
	strangers  strangers
	mapGen     atomic.Uint64 // grows with each congestion map received
	monitored  atomic.Bool   // some socket has had a congestion monitor
	succession succession
	allowed    atomic.Pointer[allowList] // addresses that the node has connections with; nil: everybody
	rejections rejections
	reports    reports
	leaving    atomic.Bool   // the node stops: its state file belongs to a successor
	askTimeout time.Duration // conn.Config.AskTimeout; tests set it

	admissionMu sync.Mutex // serialises changes of allowed; locked before all other locks

	mu            sync.RWMutex
	ending        bool          // Close has begun: no new sockets
	closed        bool          // no new connections either
	endedCounters conn.Counters // sum over the peers that have ended
	locals        map[netip.Addr]*localAddr
	peers         map[peerKey]*peer
	socks         map[*nodeSocket]struct{}
	opened        sync.Mutex // serialises listening on new addresses

	work sync.WaitGroup // dials and flushers
}

// peerKey names a connection. passive marks the accepting half of an address's
// connection to itself.
type peerKey struct {
	local, remote netip.Addr
	passive       bool
}

// NewNode starts a node. Close must be called to end it.
func NewNode(cfg Config) (*Node, error) { return newNode(cfg, nil) }

// inheritance is what a node takes over from another process when it is made.
type inheritance struct {
	generation uint32
	begin      chan struct{} // closed when the node may begin to serve
	sockets    *gnetloop.Inheritance
	stateFile  func() (*statefile.File, error) // nil file: the predecessor had none
	restore    func(*Node) error               // takes over addresses and connections
}

// newNode is NewNode for a node that takes over what another process has left; nil: nothing.
func newNode(cfg Config, in *inheritance) (*Node, error) {
	fail := func(err error) (*Node, error) { return nil, &OpError{Op: "node", Err: err} }
	if err := cfg.Validate(); err != nil {
		return fail(err)
	}
	cfg.setDefaults()
	n := &Node{
		inherited: in, plainLog: cfg.Logger, pool: new(buf.Pool), pages: newPageSource(), suspicion: suspicionRatesOf(cfg.Memory.PeerLookUps),
		locals: make(map[netip.Addr]*localAddr), peers: make(map[peerKey]*peer), socks: make(map[*nodeSocket]struct{}),
	}
	n.logLimit = loglimit.New(time.Now, n.listed)
	cfg.Logger = n.logLimit.Logger(cfg.Logger)
	n.cfg, n.log = cfg, cfg.Logger
	n.allowed.Store(newAllowList(&cfg.Admission))
	var sockets *gnetloop.Inheritance
	if in != nil {
		n.generation, sockets = in.generation, in.sockets
	}
	for n.generation == 0 {
		n.generation = rand.Uint32()
	}
	var err error
	if cfg.Serves && cfg.Transport == nil {
		if n.loops, err = gnetloop.NewLoops(cfg.TCP.EventLoops, 0); err != nil {
			return fail(err)
		}
	}
	if n.wire, n.xrc, err = n.wireTransport(&cfg, sockets); err != nil {
		_ = n.loops.Close()
		return fail(err)
	}
	own := loop.NewNetwork().Transport()
	if d, domain, err := n.regions(); err == nil {
		own.Expose(d, domain)
	}
	n.self = own
	if c, ok := n.wire.(*choice.Transport); ok {
		n.sequences.gone = c.Forget
		c.Watch(n.chosen)
		c.Moves(n.moves)
	}
	n.succeed()
	n.sequences.open(n.succession.file, n.now())
	n.watch()
	for _, a := range cfg.Addresses {
		if _, err := n.listen(a.Unmap()); err != nil {
			_ = n.Close()
			return nil, &OpError{Op: "listen", Local: netip.AddrPortFrom(a, 0), Err: err}
		}
	}
	if in != nil {
		if err := in.restore(n); err != nil {
			_ = n.Close()
			return fail(err)
		}
	}
	if cfg.Control != "" {
		c, err := serveControl(cfg.Control, n)
		if err != nil {
			_ = n.Close()
			return fail(err)
		}
		n.control = c
	}
	return n, nil
}

// Bind makes a socket bound to addr: one unicast address of this host, and a
// port, 0 for a free one. Without an IP address, as in netip.AddrPortFrom(netip.Addr{},
// 4000), it takes the node's only address: that of Config.Addresses, or what has been bound
// before. The first socket of an address makes the node listen
// there; ErrAddressInUse may therefore also mean that another process owns the
// address's RDS port.
func (n *Node) Bind(addr netip.AddrPort) (*Socket, error) {
	addr = unmap(addr)
	s, err := n.bind(addr, nil)
	if err != nil {
		return nil, &OpError{Op: "bind", Local: addr, Err: err}
	}
	return newSocket(s), nil
}

// bind makes a socket; prepare, if any, sees it before anybody else does.
func (n *Node) bind(addr netip.AddrPort, prepare func(*nodeSocket)) (*nodeSocket, error) {
	addr, err := n.bindable(addr)
	if err != nil {
		return nil, err
	}
	la, err := n.listen(addr.Addr())
	if err != nil {
		return nil, err
	}
	s := newNodeSocket(n, la)
	s.account.Owner = s
	s.account.SetLimit(n.cfg.SendBuffer)
	s.linger.Store(int64(n.cfg.Linger))
	s.news.Store(n.mapGen.Load())
	if prepare != nil {
		prepare(s)
	}
	n.mu.Lock()
	if n.ending {
		n.mu.Unlock()
		return nil, net.ErrClosed
	}
	met, err := la.bind(s, addr.Port())
	if err == nil {
		n.socks[s] = struct{}{}
	}
	n.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if met > 0 {
		s.congest() // messages that came for the port before fill the socket
		la.expectFewer()
		la.announce(n)
		n.succession.met(met)
	}
	return s, nil
}

func (n *Node) forget(s *nodeSocket) {
	n.mu.Lock()
	delete(n.socks, s)
	n.mu.Unlock()
}

// listen returns the state of a local address, listening on it if that is new.
func (n *Node) listen(a netip.Addr) (*localAddr, error) {
	n.mu.RLock()
	la, closed := n.locals[a], n.ending
	n.mu.RUnlock()
	if la != nil && !closed {
		return la, nil
	}
	n.opened.Lock()
	defer n.opened.Unlock()
	n.mu.RLock()
	la, closed = n.locals[a], n.ending
	n.mu.RUnlock()
	switch {
	case closed:
		return nil, net.ErrClosed
	case la != nil:
		return la, nil
	}
	la = &localAddr{addr: a}
	la.leaving.Store(n.leaving.Load())
	n.succession.introduce(la)
	n.mu.Lock()
	n.locals[a] = la // before the first link can arrive
	n.mu.Unlock()
	err := n.wire.Listen(a, func(l transport.Link) { n.accept(la, l, false) })
	if err == nil {
		err = n.self.Listen(a, func(l transport.Link) { n.accept(la, l, true) })
	}
	if err != nil {
		n.mu.Lock()
		delete(n.locals, a)
		n.mu.Unlock()
		return nil, listenError(err)
	}
	n.chosen(a) // no wire is chosen for our own address
	n.enforce() // an own address is allowed
	level := zap.InfoLevel
	if sharing(&n.cfg).Has(a) { // there may be thousands
		level = zap.DebugLevel
	}
	n.log.Log(level, "listening", append([]zap.Field{zap.Stringer("address", a)}, portFields(&n.cfg)...)...)
	return la, nil
}

// via is the transport to a remote address, which may be one of our own.
func (n *Node) via(remote netip.Addr) transport.Transport {
	if n.local(remote) != nil {
		return n.self
	}
	return n.wire
}

func (n *Node) local(a netip.Addr) *localAddr {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.locals[a]
}

// peer finds or makes the connection from la to a remote address, which the caller has to
// release.
func (n *Node) peer(la *localAddr, remote netip.Addr) (*peer, error) {
	return n.peerByKey(la, peerKey{local: la.addr, remote: remote})
}

func (n *Node) peerByKey(la *localAddr, key peerKey) (*peer, error) {
	p, _, err := n.findOrMake(la, key, false)
	return p, err
}

// findOrMake is peerByKey for what may be a stranger, and tells whether it has made the peer.
func (n *Node) findOrMake(la *localAddr, key peerKey, stranger bool) (p *peer, made bool, err error) {
	n.mu.RLock()
	p, closed := n.peers[key], n.closed
	held := p != nil && p.retain()
	n.mu.RUnlock()
	switch {
	case closed:
		if held {
			p.release()
		}
		return nil, false, net.ErrClosed
	case held:
		return p, false, nil
	case !n.allows(key.remote):
		n.counters.sendNotAllowed.Add(1)
		return nil, false, &notAllowedError{key.remote}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, false, net.ErrClosed
	}
	if p := n.peers[key]; p != nil && p.retain() {
		return p, false, nil
	}
	role := conn.ByAddress
	if key.local == key.remote {
		role = conn.Connector
		if key.passive {
			role = conn.Acceptor
		}
	}
	p = newPeer(n, la, key, role)
	p.stranger.Store(stranger)
	if p.own {
		p.retain() // a peer of the node's own addresses never ends
	}
	if l := n.allowed.Load(); l != nil && n.locals[key.remote] == nil && !l.has(key.remote) { // The list has just changed.
		p.barred.Store(true)
		p.Core.Bar()
	}
	n.peers[key] = p
	n.indexLocked(p)
	la.mu.Lock()
	la.peers = append(la.peers[:len(la.peers):len(la.peers)], p) // copied, because mark reads peers without the lock
	la.mu.Unlock()
	return p, true, nil
}

func (n *Node) eachPeer(f func(*peer)) {
	n.mu.RLock()
	peers := make([]*peer, 0, len(n.peers))
	for _, p := range n.peers {
		peers = append(peers, p)
	}
	n.mu.RUnlock()
	for _, p := range peers {
		f(p)
	}
}

// sockets are the open sockets.
func (n *Node) sockets() []*nodeSocket {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return slices.Collect(maps.Keys(n.socks))
}

// allLocals are the node's addresses.
func (n *Node) allLocals() []*localAddr {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return slices.Collect(maps.Values(n.locals))
}

// pollAcks looks for acknowledgements on all connections of an address.
func (n *Node) pollAcks(la *localAddr) {
	la.mu.Lock()
	peers := la.peers
	la.mu.Unlock()
	for _, p := range peers {
		p.PollAcks()
		p.Pressed()
	}
}

// accept gives an inbound link to the connection it belongs to.
func (n *Node) accept(la *localAddr, l transport.Link, own bool) {
	remote := l.RemoteAddr()
	a := remote.Addr()
	switch {
	case own != (n.local(a) != nil):
		l.Close(transport.Abort) // A link from outside to our own address is not ours to take (net/rds/tcp_listen.c).
		return
	case !gate{n}.Admits(a): // The list may have changed since the transport took the link.
		l.Close(transport.Abort)
		return
	case n.succession.gated(func() { n.accept(la, l, own) }, func() { l.Close(transport.Abort) }):
		return
	}
	p := n.accepting(la, peerKey{local: la.addr, remote: a, passive: la.addr == a})
	if p == nil {
		l.Close(transport.Abort)
		return
	}
	p.Accepted(l, remote.Port())
	p.release()
}

// Close closes all sockets, lingering for their unacknowledged messages, then
// all connections. It waits a second at most for peers that have not ended theirs.
func (n *Node) Close() error {
	n.mu.Lock()
	if n.ending {
		n.mu.Unlock()
		return &OpError{Op: "close", Err: net.ErrClosed}
	}
	n.ending = true
	n.leaving.Store(n.succession.file != nil)
	socks := make([]*nodeSocket, 0, len(n.socks))
	for s := range n.socks {
		socks = append(socks, s)
	}
	n.mu.Unlock()
	n.unwatch()

	var linger []*nodeSocket // sockets that have sent something; others have nothing to wait for
	for _, s := range socks {
		if s.account.Messages() == 0 {
			_ = s.close()
		} else {
			linger = append(linger, s)
		}
	}
	total := closeAll(linger)

	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	if n.control != nil {
		_ = n.control.Close()
	}
	for _, la := range n.allLocals() {
		la.giveUp() // otherwise a link that waits for room in a port would go on waiting
	}
	n.eachPeer((*peer).close)
	n.awaitLinks()
	n.succession.open()                                // inbound links that wait are refused
	err := errors.Join(n.self.Close(), n.wire.Close()) // self before wire: the memory regions end with wire
	_ = n.loops.Close()
	n.work.Wait()
	n.endSuccession()
	if total.Messages > 0 {
		err = errors.Join(&total, err)
	}
	if err != nil {
		return &OpError{Op: "close", Err: err}
	}
	return nil
}

// now is the node's clock.
func (n *Node) now() time.Time { return time.Now() }

// known is the connection from la to a remote address, nil if there is none.
func (n *Node) known(la *localAddr, remote netip.Addr) *peer {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.peers[peerKey{local: la.addr, remote: remote}]
}

// addresses is the number of addresses listened on.
func (n *Node) addresses() int {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return len(n.locals)
}

// over tells whether Close was called.
func (n *Node) over() bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.ending
}
