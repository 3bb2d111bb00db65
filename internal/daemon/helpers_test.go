package daemon

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/client"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/rds/info"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/loop"
)

// careless has a Client not keep to its budget, as hostile ones do.
func careless(c *client.Client) { c.Att.Budget.Account.SetLimit(0) }

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
	if err != nil {
		r.Fatal(err)
	}
	r.svc = svc
}

// client attaches, and again and again if that is asked for.
func (r *restarted) client(again bool) *client.Client {
	r.Helper()
	c, err := client.New(config.Client{Path: r.path, Reconnect: again, ReconnectMin: time.Millisecond, ReconnectMax: 10 * time.Millisecond})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = c.Close() })
	return c
}

// served is a node that serves applications.
func served(t testing.TB, l *lab, cfg config.Node, scfg config.Service) (*node.Node, *Service, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "rds") // short enough for a socket's name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	cfg.Serves = true
	n := l.node(cfg)
	scfg.Path = filepath.Join(dir, "s")
	svc, err := New(n, scfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = svc.Close() })
	return n, svc, scfg.Path
}

func dialed(t testing.TB, path string) *client.Client {
	t.Helper()
	c, err := client.Dial(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func bound(t testing.TB, p provider, a netip.AddrPort) *socket.Socket {
	t.Helper()
	s, err := p.Bind(a)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// lab makes nodes that reach each other, over TCP or in memory.
type lab struct {
	testing.TB
	port uint16
	net  *loop.Network
}

func newLab(t testing.TB) *lab { return &lab{TB: t, port: rdstest.NewPort()} }

func newLoopLab(t testing.TB) *lab { return &lab{TB: t, net: loop.NewNetwork()} }

// node starts a node that does not linger unless cfg says so, and does not give up XRC
// because the machine is busy.
func (l *lab) node(cfg config.Node) *node.Node {
	l.Helper()
	cfg.Port = l.port
	if cfg.Linger == 0 {
		cfg.Linger = -1
	}
	if cfg.XRC.Patience == 0 {
		cfg.XRC.Patience = rdstest.Patience
	}
	if l.net != nil && cfg.Transport == nil {
		cfg.Transport = l.net.Transport()
	}
	n, err := node.New(cfg)
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = n.Close() })
	return n
}

// bind makes a socket on a node, at a new address unless one is given.
func (l *lab) bind(n *node.Node, addr ...netip.AddrPort) *socket.Socket {
	l.Helper()
	at := netip.AddrPortFrom(rdstest.NewAddr(), 4000)
	if len(addr) > 0 {
		at = addr[0]
	}
	s, err := n.Bind(at)
	if err != nil {
		l.Fatal(err)
	}
	return s
}

// pair is a socket on each of two nodes; a's address is the smaller one.
func (l *lab) pair(cfg config.Node) (a, b *socket.Socket) {
	l.Helper()
	return l.bind(l.node(cfg)), l.bind(l.node(cfg))
}

func nodeOf(s *socket.Socket) *node.Node { return halfOf(s).Node }

// counter reads one of a node's counters.
func counter(t testing.TB, n *node.Node, name string) uint64 {
	t.Helper()
	for _, c := range n.List() {
		if c.Name == name {
			return c.Value
		}
	}
	t.Fatalf("no counter %q", name)
	return 0
}

func connections(t testing.TB, n *node.Node) []info.Connection {
	t.Helper()
	info, err := n.Info()
	if err != nil {
		t.Fatal(err)
	}
	return info.Connections
}

// congestedAt tells whether a peer of n has said that its port is congested.
func congestedAt(n *node.Node, port uint16) (yes bool) {
	n.EachPeer(func(p *node.Peer) {
		p.Lock()
		yes = yes || p.Core.Congested(port)
		p.Unlock()
	})
	return yes
}

// halfOf and clientHalfOf are what is behind a socket of a node, and of an application, nil if
// the socket is of another kind.
func halfOf(s *socket.Socket) *node.Socket {
	h, _ := s.Endpoint.(*node.Socket)
	return h
}

func clientHalfOf(s *socket.Socket) *client.Socket {
	h, _ := s.Endpoint.(*client.Socket)
	return h
}

// sweepByHand has a node, whose numbers below first are not used, sweep only when sweptOf
// is called.
func sweepByHand(n *node.Node, first uint32) {
	n.Mu.Lock()
	n.Index.Next, n.Index.Rest, n.Index.Sweeping = first, time.Nanosecond, true
	n.Mu.Unlock()
}

// sweptOf sweeps, and counts the told numbers that are still not given again.
func sweptOf(n *node.Node) (told int) {
	n.Sweep()
	n.Mu.Lock()
	defer n.Mu.Unlock()
	return len(n.Index.Told)
}

// peersOf is the number of a node's peers.
func peersOf(n *node.Node) int {
	n.Mu.RLock()
	defer n.Mu.RUnlock()
	return len(n.Peers)
}

// cutLinks ends all links of a node.
func cutLinks(n *node.Node) {
	n.EachPeer(func(p *node.Peer) {
		for i := range conn.MaxPaths {
			p.Lock()
			l := p.Link(i)
			p.Unlock()
			if l != nil {
				l.Close(transport.Abort)
			}
		}
	})
}

// bindOne is a socket on a node of its own.
func (l *lab) bindOne(cfg config.Node) *socket.Socket { l.Helper(); return l.bind(l.node(cfg)) }

// sessionOf is the only session of a service.
func sessionOf(t *testing.T, svc *Service) info.Session {
	t.Helper()
	all := svc.Sessions()
	if len(all) != 1 {
		t.Fatalf("sessions %+v", all)
	}
	return all[0]
}

// waitOf is the first wait for this cause, zero if there is none.
func waitOf(t *testing.T, n *node.Node, cause string) info.Wait {
	t.Helper()
	report, err := n.Info()
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range report.Waits {
		if w.Cause == cause {
			return w
		}
	}
	return info.Wait{}
}

// infoOf is a node's report.
func infoOf(t testing.TB, n *node.Node) info.Report {
	t.Helper()
	info, err := n.Info()
	if err != nil {
		t.Fatal(err)
	}
	return info
}
