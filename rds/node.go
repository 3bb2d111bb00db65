package rds

import (
	"context"
	"net/netip"

	"github.com/rds-go/rds/internal/daemon"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/xrc"
)

// Node is a whole RDS stack inside this process: its addresses, its sockets,
// and one connection per peer host that all of them share.
type Node struct{ n *node.Node }

// NewNode starts a node. Close must be called to end it.
func NewNode(cfg Config) (*Node, error) {
	n, err := node.New(cfg)
	if err != nil {
		return nil, err
	}
	return &Node{n}, nil
}

// Bind makes a socket bound to addr: one unicast address of this host, and a
// port, 0 for a free one. Without an IP address, as in netip.AddrPortFrom(netip.Addr{},
// 4000), it takes the node's only address: that of Config.Addresses, or what has been bound
// before. The first socket of an address makes the node listen
// there; ErrAddressInUse may therefore also mean that another process owns the
// address's RDS port.
func (n *Node) Bind(addr netip.AddrPort) (*Socket, error) {
	s, err := n.n.Bind(addr)
	if err != nil {
		return nil, err
	}
	return &Socket{*s}, nil
}

// Info takes a snapshot. Queue reports list at most 1,024 messages of each
// connection or socket.
func (n *Node) Info() (Info, error) { return n.n.Info() }

// Report is Info for programs that ask often, such as a server of metrics: those that ask
// at a time get one snapshot, and the node spends a tenth of one processor's time on them at
// most. What it returns is shared and must not be changed. Unlike Info it has the parts named,
// too.
func (n *Node) Report(parts ...InfoPart) (Info, error) { return n.n.Report(parts...) }

// SetAdmission changes which peers the node has connections with. Connections with peers
// that are no longer allowed are reset before it returns. Messages that wait for such a
// peer end: StatusOtherError says that a message was not delivered, StatusDropped that
// it may have been. Sending to the peer fails with ErrPermission from then on. The
// receive sequence is kept: what a peer sends again when it is allowed again is not
// received twice.
func (n *Node) SetAdmission(a Admission) error { return n.n.SetAdmission(a) }

// Bequeath prepares the node, and its service if it has one, for a process that takes
// their place: it ends all links so that nothing is lost, as Service.Drain does, and
// stops the work of all applications, which notice nothing but the pause. Sessions of
// XRC in this process end. What connects
// meanwhile, peer or application, waits in the kernel. ctx, and the linger time, bound
// what it may take.
//
// The process that has the Legacy calls Succeed and Heir.Begin. This one then has to end
// without a call of Close, or, if that process has ended or given up, calls Return. After
// an error the node serves as before.
func (n *Node) Bequeath(ctx context.Context) (*Legacy, error) {
	l, err := daemon.Bequeath(ctx, n.n)
	return (*Legacy)(l), err
}

// Return has the node serve again after Bequeath. What was queued meanwhile goes out on
// new links.
func (n *Node) Return() { daemon.Return(n.n) }

// XRC begins objects of XRC in this process: package xrc as Client.XRC has it, without a daemon. A node
// has any number of such sessions, which end with it: their objects hear EventDeviceFatal, and calls fail
// with net.ErrClosed. ErrNotSupported: the node has no XRC.
func (n *Node) XRC(ctx context.Context) (*xrc.Session, error) {
	o, err := daemon.NewOwnObjects(n.n)
	if err != nil {
		return nil, &OpError{Op: "xrc", Err: err}
	}
	s, err := xrc.Open(ctx, o)
	if err != nil {
		return nil, &OpError{Op: "xrc", Err: err}
	}
	return s, nil
}

// over tells whether Close was called.
func (n *Node) over() bool { return n.n.Over() }

// Close closes all sockets, lingering for their unacknowledged messages, then
// all connections. It waits a second at most for peers that have not ended theirs.
func (n *Node) Close() error { return n.n.Close() }

// InfoParts are parts by their names, as a request of the control socket has them.
func InfoParts(names []string) []InfoPart { return node.InfoParts(names) }

// FetchInfo asks the node behind a control socket, such as rdsd's, for its Info, with the
// parts named. A node that does not know a part leaves it out.
func FetchInfo(ctx context.Context, path string, parts ...InfoPart) (Info, error) {
	return node.FetchInfo(ctx, path, parts...)
}
