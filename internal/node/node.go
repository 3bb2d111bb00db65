package node

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
	"github.com/rds-go/rds/internal/address"
	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/choice"
	"github.com/rds-go/rds/internal/gnetloop"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/internal/loglimit"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/loop"
	"github.com/rds-go/rds/transport/xrc"
)

// Node is a whole RDS stack inside this process: its addresses, its sockets,
// and one connection per peer host that all of them share.
type Node struct {
	Config     config.Node
	inherited  *Inheritance // what another process has left; nil: nothing
	Log        *zap.Logger  // keeps to LogLimit
	plainLog   *zap.Logger  // config.Node.Logger
	LogLimit   *loglimit.Limiter
	wires      []transport.Transport // carry messages to other hosts; of two, the first one is preferred
	choice     *choice.Policy        // which of two wires serves a peer; nil: there is only one
	Listeners  []gnetloop.Sockets    // of the wires that have some, which another process can take over
	Xrc        *xrc.Transport        // wire that speaks XRC, nil if there is none
	domain     *mr.Domain            // protection domain of this process's sockets; nil: no wire carries operations
	self       transport.Transport   // carries messages between the node's own addresses
	Loops      *gnetloop.Loops       // event loops of the wires and of the service; nil: each has its own
	Pool       *buf.Pool
	Generation uint32
	pages      *pageSource // draws the page in which a cookie's offset begins
	suspicion  suspicionRates
	control    io.Closer
	Counters   counters
	served     atomic.Pointer[serverBox]
	watchman   watchman
	Index      peerIndex
	Sequences  sequences
	strangers  strangers
	mapGen     atomic.Uint64 // grows with each congestion map received
	monitored  atomic.Bool   // some socket has had a congestion monitor
	Succession succession
	numbers    numbers
	allowed    atomic.Pointer[allowList] // addresses that the node has connections with; nil: everybody
	rejections rejections
	reports    reports
	Leaving    atomic.Bool   // the node stops: its state file belongs to a successor
	askTimeout time.Duration // conn.Config.AskTimeout; tests set it
	pace       *conn.Pace    // of dials that have failed
	dialing    atomic.Int64  // dials under way

	admissionMu lockorder.Mutex[nodeAdmissionMu] // serialises changes of allowed; locked before all other locks

	Mu            lockorder.RWMutex[nodeMu]
	ending        bool          // Close has begun: no new sockets
	closed        bool          // no new connections either
	endedCounters conn.Counters // sum over the peers that have ended
	locals        map[netip.Addr]*Local
	Peers         map[PeerKey]*Peer
	socks         map[*Socket]struct{}
	sessions      map[OwnSession]struct{}
	opened        lockorder.Mutex[nodeOpened] // serialises listening on new addresses
	halfOpen      map[netip.Addr]int          // guarded by opened; how many transports listen on an address after an error

	work sync.WaitGroup // dials and flushers
}

// PeerKey names a connection. passive marks the accepting half of an address's
// connection to itself.
type PeerKey struct {
	Local, Remote netip.Addr
	Passive       bool
}

// New is NewNode of package rds.
func New(cfg config.Node) (*Node, error) { return NewHeir(cfg, nil) }

// NewHeir is New for a node that takes over what another process has left; nil: nothing.
func NewHeir(cfg config.Node, in *Inheritance) (*Node, error) {
	return newNode(cfg, in, choice.Times{}, nil)
}

// newNode is NewHeir with times of the policy that chooses a wire (Patience is that of cfg) and
// with a network that brings the sockets of the wires; nil: the host's.
func newNode(cfg config.Node, in *Inheritance, times choice.Times, network gnetloop.Network) (*Node, error) {
	fail := func(err error) (*Node, error) { return nil, &datagram.OpError{Op: "node", Err: err} }
	if err := cfg.Validate(); err != nil {
		return fail(err)
	}
	cfg.SetDefaults()
	n := &Node{
		inherited: in, plainLog: cfg.Logger, Pool: new(buf.Pool), pages: newPageSource(), suspicion: suspicionRatesOf(cfg.Memory.PeerLookUps),
		locals: make(map[netip.Addr]*Local), Peers: make(map[PeerKey]*Peer), socks: make(map[*Socket]struct{}),
		sessions: make(map[OwnSession]struct{}),
		halfOpen: make(map[netip.Addr]int),
		pace:     conn.NewPace(time.Now()),
	}
	n.LogLimit = loglimit.New(time.Now, n.listed)
	cfg.Logger = n.LogLimit.Logger(cfg.Logger)
	n.Config, n.Log = cfg, cfg.Logger
	n.allowed.Store(newAllowList(&cfg.Admission))
	var sockets *gnetloop.Inheritance
	if in != nil {
		n.Generation, sockets = in.Generation, in.Sockets
	}
	for n.Generation == 0 {
		n.Generation = rand.Uint32()
	}
	var err error
	if cfg.Serves && cfg.Transport == nil && network == nil {
		if n.Loops, err = gnetloop.NewLoops(cfg.TCP.EventLoops, 0); err != nil {
			return fail(err)
		}
	}
	if err = n.openWires(sockets, times, network); err != nil {
		_ = n.Loops.Close()
		return fail(err)
	}
	own := loop.NewNetwork().Transport()
	if n.domain != nil {
		own.Expose(n.memoryAt)
	}
	n.self = own
	n.succeed()
	n.Sequences.open(n.Succession.File, time.Now())
	if in != nil {
		n.numbers.highest = in.Number
	}
	n.numbers.open(n.Succession.File)
	n.watch()
	for _, a := range cfg.Addresses {
		if _, err := n.Listen(a.Unmap()); err != nil {
			_ = n.Close()
			return nil, &datagram.OpError{Op: "listen", Local: netip.AddrPortFrom(a, 0), Err: err}
		}
	}
	if in != nil {
		if err := in.Restore(n); err != nil {
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

// Bind is Node.Bind of package rds.
func (n *Node) Bind(addr netip.AddrPort) (*socket.Socket, error) {
	addr = address.Unmap(addr)
	s, err := n.BindFor(addr, nil, nil)
	if err != nil {
		return nil, &datagram.OpError{Op: "bind", Local: addr, Err: err}
	}
	return socket.New(s), nil
}

// Listen returns the state of a local address, listening on it if that is new.
func (n *Node) Listen(a netip.Addr) (*Local, error) {
	return n.listenWith(a, func(*Local) error { return nil })
}

// listenWith is Listen; first is called with the state of a new address before the node listens on it.
func (n *Node) listenWith(a netip.Addr, first func(*Local) error) (*Local, error) {
	n.Mu.RLock()
	la, closed := n.locals[a], n.ending
	n.Mu.RUnlock()
	if la != nil && la.listens.Load() && !closed {
		return la, nil
	}
	n.opened.Lock()
	defer n.opened.Unlock()
	n.Mu.RLock()
	la, closed = n.locals[a], n.ending
	n.Mu.RUnlock()
	switch {
	case closed:
		return nil, net.ErrClosed
	case la != nil:
		return la, nil
	}
	la = &Local{Addr: a}
	la.Leaving.Store(n.Leaving.Load())
	n.Succession.introduce(la)
	n.Mu.Lock()
	n.locals[a] = la // before the first link can arrive
	n.Mu.Unlock()
	err := first(la)
	if err == nil {
		err = listenError(n.listen(a))
	}
	if err != nil {
		n.Mu.Lock()
		delete(n.locals, a)
		n.Mu.Unlock()
		return nil, err
	}
	la.listens.Store(true)
	n.chosen(a) // no wire is chosen for our own address
	n.enforce() // an own address is allowed
	level := zap.InfoLevel
	if sharing(&n.Config).Has(a) { // there may be thousands
		level = zap.DebugLevel
	}
	n.Log.Log(level, "listening", append([]zap.Field{zap.Stringer("address", a)}, portFields(&n.Config)...)...)
	return la, nil
}

func (n *Node) Local(a netip.Addr) *Local {
	n.Mu.RLock()
	defer n.Mu.RUnlock()
	return n.locals[a]
}

// Peer finds or makes the connection from la to a remote address, which the caller has to
// release.
func (n *Node) Peer(la *Local, remote netip.Addr) (*Peer, error) {
	return n.PeerByKey(la, PeerKey{Local: la.Addr, Remote: remote})
}

func (n *Node) PeerByKey(la *Local, key PeerKey) (*Peer, error) {
	p, _, err := n.findOrMake(la, key, false)
	return p, err
}

// findOrMake is PeerByKey for what may be a stranger, and tells whether it has made the peer.
func (n *Node) findOrMake(la *Local, key PeerKey, stranger bool) (p *Peer, made bool, err error) {
	n.Mu.RLock()
	p, closed := n.Peers[key], n.closed
	held := p != nil && p.Retain()
	n.Mu.RUnlock()
	switch {
	case closed:
		if held {
			p.Release()
		}
		return nil, false, net.ErrClosed
	case held:
		return p, false, nil
	case !n.Allows(key.Remote):
		n.Counters.SendNotAllowed.Add(1)
		return nil, false, &socket.NotAllowedError{Peer: key.Remote}
	}
	n.Mu.Lock()
	defer n.Mu.Unlock()
	if n.closed {
		return nil, false, net.ErrClosed
	}
	if p := n.Peers[key]; p != nil && p.Retain() {
		return p, false, nil
	}
	role := conn.ByAddress
	if key.Local == key.Remote {
		role = conn.Connector
		if key.Passive {
			role = conn.Acceptor
		}
	}
	p = newPeer(n, la, key, role)
	p.stranger.Store(stranger)
	if p.own {
		p.Retain() // a peer of the node's own addresses never ends
	}
	if l := n.allowed.Load(); l != nil && n.locals[key.Remote] == nil && !l.has(key.Remote) { // The list has just changed.
		p.Barred.Store(true)
		p.Core.Bar()
	}
	n.Peers[key] = p
	n.indexLocked(p)
	la.Mu.Lock()
	la.peers = append(la.peers, p) // mark reads what was there before without the lock
	la.Mu.Unlock()
	return p, true, nil
}

func (n *Node) EachPeer(f func(*Peer)) {
	n.Mu.RLock()
	peers := make([]*Peer, 0, len(n.Peers))
	for _, p := range n.Peers {
		peers = append(peers, p)
	}
	n.Mu.RUnlock()
	for _, p := range peers {
		f(p)
	}
}

// Sockets are the open sockets.
func (n *Node) Sockets() []*Socket {
	n.Mu.RLock()
	defer n.Mu.RUnlock()
	return slices.Collect(maps.Keys(n.socks))
}

// AllLocals are the node's addresses.
func (n *Node) AllLocals() []*Local {
	n.Mu.RLock()
	defer n.Mu.RUnlock()
	return slices.Collect(maps.Values(n.locals))
}

// PollAcks looks for acknowledgements on all connections of an address.
func (n *Node) PollAcks(la *Local) {
	la.Mu.Lock()
	peers := la.peers
	la.Mu.Unlock()
	for _, p := range peers {
		p.PollAcks()
		p.Pressed()
	}
}

// accept gives an inbound link of a local address to the connection it belongs to. own tells
// whether the link has come by Node.self.
func (n *Node) accept(local netip.Addr, l transport.Link, own bool) {
	remote := l.RemoteAddr()
	a := remote.Addr()
	la := n.Local(local)
	switch {
	case la == nil: // not all transports listen there
		l.Close(transport.Abort)
		return
	case own != (n.Local(a) != nil):
		l.Close(transport.Abort) // A link from outside to our own address is not ours to take (net/rds/tcp_listen.c).
		return
	case !gate{n}.Admits(a): // The list may have changed since the transport took the link.
		l.Close(transport.Abort)
		return
	case n.Succession.gated(func() { n.accept(local, l, own) }, func() { l.Close(transport.Abort) }):
		return
	case n.choice != nil && !own && !n.choice.Accepts(l):
		l.Close(transport.Abort)
		return
	}
	p := n.accepting(la, PeerKey{Local: la.Addr, Remote: a, Passive: la.Addr == a})
	if p == nil {
		l.Close(transport.Abort)
		return
	}
	p.Accepted(l, remote.Port())
	p.Release()
}

// Close is Node.Close of package rds.
func (n *Node) Close() error {
	n.Mu.Lock()
	if n.ending {
		n.Mu.Unlock()
		return &datagram.OpError{Op: "close", Err: net.ErrClosed}
	}
	n.ending = true
	n.Leaving.Store(n.Succession.File != nil)
	socks := make([]*Socket, 0, len(n.socks))
	for s := range n.socks {
		socks = append(socks, s)
	}
	n.Mu.Unlock()
	n.unwatch()
	n.EndSessions()

	var linger []*Socket // sockets that have sent something; others have nothing to wait for
	for _, s := range socks {
		if s.Account.Messages() == 0 {
			_ = s.Close()
		} else {
			linger = append(linger, s)
		}
	}
	total := socket.CloseAll(linger)

	n.Mu.Lock()
	n.closed = true
	n.Mu.Unlock()
	if n.control != nil {
		_ = n.control.Close()
	}
	for _, la := range n.AllLocals() {
		la.giveUp() // otherwise a link that waits for room in a port would go on waiting
	}
	if n.Xrc != nil {
		n.Xrc.Farewell() // links end next, by which peers would be told
	}
	n.endLinks()
	n.Succession.Open()                                // inbound links that wait are refused
	err := errors.Join(n.self.Close(), n.closeWires()) // self before wires: the memory regions end with a wire
	_ = n.Loops.Close()
	n.work.Wait()
	n.endSuccession()
	if total.Messages > 0 {
		err = errors.Join(&total, err)
	}
	if err != nil {
		return &datagram.OpError{Op: "close", Err: err}
	}
	return nil
}

// Known is the connection from a local to a remote address, nil if there is none.
func (n *Node) Known(local, remote netip.Addr) *Peer {
	n.Mu.RLock()
	defer n.Mu.RUnlock()
	return n.Peers[PeerKey{Local: local, Remote: remote}]
}

// Addresses is the number of addresses listened on.
func (n *Node) Addresses() int {
	n.Mu.RLock()
	defer n.Mu.RUnlock()
	return len(n.locals)
}

// Over tells whether Close was called.
func (n *Node) Over() bool {
	n.Mu.RLock()
	defer n.Mu.RUnlock()
	return n.ending
}
