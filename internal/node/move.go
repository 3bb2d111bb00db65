package node

import (
	"errors"
	"net/netip"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/choice"
)

// errMoved: the pair of addresses is served by another transport than it was when the
// dial began.
var errMoved = errors.New("rds: the peer has moved to another transport")

// moves ends the links of a pair that are not of the transport that it is to be served
// by. Each path dials when its old link has been read to its end.
func (n *Node) moves(local, remote netip.Addr) {
	n.Mu.RLock()
	p := n.Peers[PeerKey{Local: local, Remote: remote}]
	n.Mu.RUnlock()
	if p == nil {
		return
	}
	p.Lock()
	for i := range conn.MaxPaths {
		if l := p.Carrying(i); l != nil && !p.targets(l) {
			p.Core.Leave(i)
		}
	}
	p.Arm()
	p.Commit()
}

// targets tells whether a link is of the transport that the peer is to be served by.
func (p *Peer) targets(l transport.Link) bool {
	c, ok := p.Via().(*choice.Transport)
	if !ok || l.Stats().Transport == p.Node.self.Name() {
		return true
	}
	to := c.Target(p.Local.Addr, p.Remote)
	return to == "" || to == l.Stats().Transport
}
