package daemon

import (
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rds-go/rds/internal/ipc"

	"github.com/rds-go/rds/internal/client"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/rds/info"
)

// budget has the daemon take no more than n bytes from a session. Its application does not
// know, and does not keep to that, as hostile ones do.
func budget(x *session, n int64) *session {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.budget = n
	return x
}

// restarted is a daemon that can be ended and started again at its path.
type restarted struct {
	testing.TB
	node *node.Node
	svc  *Service
	path string
}

func newRestarted(t testing.TB, l *lab) *restarted {
	t.Helper()
	n, svc, path := served(t, l, config.Node{}, config.Service{})
	r := &restarted{t, n, svc, path}
	t.Cleanup(func() { _ = r.svc.Close() })
	return r
}

func (r *restarted) stop() {
	r.Helper()
	var d *datagram.DroppedError
	if err := r.svc.Close(); err != nil && !errors.As(err, &d) {
		r.Fatal(err)
	}
}

func (r *restarted) start() {
	r.Helper()
	svc, err := New(r.node, config.Service{Path: r.path})
	rdstest.Must(r, err)
	r.svc = svc
}

// client attaches, and again and again if that is asked for.
func (r *restarted) client(again bool) *client.Client {
	r.Helper()
	c, err := client.New(config.Client{Path: r.path, Reconnect: again, ReconnectMin: time.Millisecond, ReconnectMax: 10 * time.Millisecond})
	rdstest.Must(r, err)
	r.Cleanup(func() { _ = c.Close() })
	return c
}

// lab makes nodes that reach each other, over TCP or in memory.
type lab struct{ rdstest.Lab }

func newLab(t testing.TB) *lab { return &lab{rdstest.NewLab(t)} }

func newLoopLab(t testing.TB) *lab { return &lab{rdstest.NewLoopLab(t)} }

func (l *lab) node(cfg config.Node) *node.Node {
	l.Helper()
	return rdstest.Start(&l.Lab, node.New, cfg)
}

// bind makes a socket on a node, at a new address unless one is given.
func (l *lab) bind(n *node.Node, addr ...netip.AddrPort) *socket.Socket {
	l.Helper()
	return rdstest.Bind(l.TB, n, addr...)
}

// pair is a socket on each of two nodes; a's address is the smaller one.
func (l *lab) pair(cfg config.Node) (a, b *socket.Socket) {
	l.Helper()
	return l.bind(l.node(cfg)), l.bind(l.node(cfg))
}

// bindOne is a socket on a node of its own.
func (l *lab) bindOne(cfg config.Node) *socket.Socket { l.Helper(); return l.bind(l.node(cfg)) }

func nodeOf(s *socket.Socket) *node.Node { return halfOf(s).Node }

// congestedAt tells whether a peer of n has said that its port is congested.
func congestedAt(n *node.Node, port uint16) (yes bool) {
	n.EachPeer(func(p *node.Peer) {
		p.Lock()
		yes = yes || p.Core.Congested(port)
		p.Unlock()
	})
	return yes
}

// halfOf is what is behind a socket of a node, nil if the socket is of another kind.
func halfOf(s *socket.Socket) *node.Socket {
	h, _ := s.Endpoint.(*node.Socket)
	return h
}

// sweepByHand has a node, whose numbers below first are not used, sweep only when sweptOf
// is called: its own sweeps come when the test is over.
func sweepByHand(n *node.Node, first uint32) {
	n.SkipTo(first)
	setRest(n, time.Hour)
}

// setRest has numbers that applications were told of rest so long.
func setRest(n *node.Node, d time.Duration) {
	n.Mu.Lock()
	n.Index.Rest = d
	n.Mu.Unlock()
}

// sweptOf sweeps when told numbers have rested, and counts those that are still not given
// again.
func sweptOf(n *node.Node) (told int) {
	setRest(n, time.Nanosecond)
	defer setRest(n, time.Hour)
	return sweptNow(n)
}

// sweptNow is sweptOf for numbers that may not have rested yet.
func sweptNow(n *node.Node) (told int) {
	n.Sweep()
	n.Mu.Lock()
	defer n.Mu.Unlock()
	return len(n.Index.Told)
}

// firstSocket is the socket that a session has bound first.
func firstSocket(x *session) *appSocket {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sockets[0]
}

// sessionOf is the only session of a service.
func sessionOf(t *testing.T, svc *Service) info.Session {
	t.Helper()
	all := svc.Sessions()
	if len(all) != 1 {
		t.Fatalf("sessions %+v", all)
	}
	return all[0]
}

// served is a node that serves applications.
func served(t testing.TB, l *lab, cfg config.Node, scfg config.Service) (*node.Node, *Service, string) {
	t.Helper()
	cfg.Serves = true
	n := l.node(cfg)
	svc, path := rdstest.Serve(t, New, n, scfg)
	return n, svc, path
}

func dialed(t testing.TB, path string) *client.Client {
	t.Helper()
	return rdstest.Attach(t, client.Dial, path)
}

func bound(t testing.TB, p rdstest.Provider, a netip.AddrPort) *socket.Socket {
	t.Helper()
	return rdstest.Bind(t, p, a)
}

// bubble runs a test, beside others, with a time of its own, in a lab in memory.
func bubble(t *testing.T, test func(t *testing.T, l *lab)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, newLoopLab(t)) })
}

// leave has the daemon take nothing more, as one that stops does.
func (r *restarted) leave() {
	for _, x := range r.svc.all() {
		x.mu.Lock()
		x.leaveLocked()
		x.mu.Unlock()
	}
}

// newAttached is a socket of an application that attaches again to the next daemon, or does
// not, and one of another host.
func newAttached(t *testing.T, l *lab, again bool) (d *restarted, s, far *socket.Socket) {
	t.Helper()
	d = newRestarted(t, l)
	return d, bound(t, d.client(again), rdstest.AddrOf(rdstest.NewAddr(), 100)), l.bindOne(config.Node{})
}

// lastSession is the one that attached last.
func lastSession(svc *Service) *session {
	var last *session
	for _, x := range svc.all() {
		if last == nil || x.id > last.id {
			last = x
		}
	}
	return last
}

// lent is memory that the provider takes.
func lent(t testing.TB, s *socket.Socket, n int) []byte {
	t.Helper()
	return rdstest.Lent(t, s, n, halfOf(s) != nil)
}

// serving makes a node serve applications, and returns where.
func serving(t testing.TB, n *node.Node, cfg config.Service) (*Service, string) {
	t.Helper()
	return rdstest.Serve(t, New, n, cfg)
}

// shrink leaves a session, which has received nothing, n bytes for what it receives:
// nothing for what peers may have under way.
func shrink(x *session, n int) {
	x.mem.mu.Lock()
	defer x.mem.mu.Unlock()
	x.mem.arena = ipc.NewArena(n)
}

const stalledSize = 1000
