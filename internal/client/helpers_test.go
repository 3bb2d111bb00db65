package client

import (
	"errors"
	"net/netip"
	"os"
	"syscall"
	"testing"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/daemon"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/rds/info"
	"github.com/rds-go/rds/transport"
)

// newDrained is a daemon that can be drained, without waiting for anything, and started again.
func newDrained(t testing.TB, l *lab) *restarted {
	t.Helper()
	return newRestartedWith(t, l, config.Node{Linger: -1})
}

// drain has the daemon take nothing more.
func (r *restarted) drain() {
	r.Helper()
	var d *datagram.DroppedError
	if err := r.svc.Drain(); err != nil && !errors.As(err, &d) {
		r.Fatal(err)
	}
}

// restart starts a daemon that was drained and has stopped.
func (r *restarted) restart() {
	r.Helper()
	daemon.Return(r.node)
	r.start()
}

// lent is memory that the provider takes. What orders the accesses of peers, on a
// wire or in shared memory, the race detector does not see, so none of it is of
// Go's heap.
func lent(t testing.TB, s *socket.Socket, n int) []byte {
	t.Helper()
	if halfOf(s) != nil {
		b, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); !errors.Is(err, datagram.ErrBusy) { // nothing has it any more
				_ = syscall.Munmap(b)
			}
		})
		return b
	}
	m, err := s.AllocMemory(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Release() })
	return m.B
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

// halfOf and clientHalfOf are what is behind a socket of a node, and of an application, nil if
// the socket is of another kind.
func halfOf(s *socket.Socket) *node.Socket {
	h, _ := s.Endpoint.(*node.Socket)
	return h
}

func clientHalfOf(s *socket.Socket) *Socket {
	h, _ := s.Endpoint.(*Socket)
	return h
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

// sharesOf is what the user of this process has.
func sharesOf(svc *daemon.Service) info.User {
	for _, u := range svc.Users() {
		if u.UID == uint32(os.Getuid()) {
			return u
		}
	}
	return info.User{}
}

// served is a node that serves applications.
func served(t testing.TB, l *lab, cfg config.Node, scfg config.Service) (*node.Node, *daemon.Service, string) {
	t.Helper()
	cfg.Serves = true
	n := l.node(cfg)
	svc, path := rdstest.Serve(t, daemon.New, n, scfg)
	return n, svc, path
}

func dialed(t testing.TB, path string) *Client { t.Helper(); return rdstest.Attach(t, Dial, path) }

func bound(t testing.TB, p provider, a netip.AddrPort) *socket.Socket {
	t.Helper()
	return rdstest.Bind(t, p, a)
}

// serving makes a node serve applications, and returns where.
func serving(t testing.TB, n *node.Node, cfg config.Service) (*daemon.Service, string) {
	t.Helper()
	return rdstest.Serve(t, daemon.New, n, cfg)
}
