package node

import (
	"errors"
	"net/netip"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/choice"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/xrc"
)

// choose sets up the policy of a node with two transports.
func (n *Node) choose(times choice.Times) error {
	wire := func(t transport.Transport) choice.Wire { return choice.Wire{Name: t.Name(), Dial: t.Dial} }
	times.Patience = n.Config.XRC.Patience
	n.choice = choice.New(choice.Options{
		Preferred: wire(n.wires[0]), Other: wire(n.wires[1]), Ask: n.Xrc.Ask, Absent: xrc.Absent, Hung: xrc.Hung,
		Changed: n.chosen, Leave: n.leaveWire, Times: times, Logger: n.Log,
	})
	n.Sequences.gone = func(local, remote netip.Addr) { n.choice.Ended(local, remote, false) }
	for a, w := range n.Config.PeerWires {
		if err := n.choice.Force(a.Unmap(), string(w)); err != nil {
			return errors.Join(err, n.closeWires())
		}
	}
	return nil
}

// Choosing is the policy by which links to a remote address are made, nil if there is nothing
// to choose: the node has one transport, or the address is one of its own.
func (n *Node) Choosing(remote netip.Addr) *choice.Policy {
	if n.Local(remote) != nil {
		return nil
	}
	return n.choice
}

// servedBy is the name of the transport that serves the peer, "" while it is not known, and
// why that was chosen.
func (p *Peer) servedBy() (wire, why string) {
	switch {
	case p.own:
		return p.Node.self.Name(), ""
	case p.Choice == nil:
		return p.Node.wires[0].Name(), ""
	}
	st := p.Choice.State(p.Local.Addr, p.Remote)
	return st.Wire, st.Reason
}

// chosen follows a change of what serves a remote address.
func (n *Node) chosen(remote netip.Addr) {
	var peers []*Peer
	n.Mu.RLock()
	for _, la := range n.locals {
		if p := n.Peers[PeerKey{Local: la.Addr, Remote: remote}]; p != nil {
			peers = append(peers, p)
		}
	}
	n.Mu.RUnlock()
	for _, p := range peers {
		n.Server().ShowServer(p)
	}
}

// leaveWire ends the links of a pair that are not of the transport that it is to be served
// by. Each path dials when its old link has been read to its end.
func (n *Node) leaveWire(local, remote netip.Addr) {
	p := n.Known(local, remote)
	if p == nil {
		return
	}
	p.Lock()
	for i := range conn.MaxPaths {
		if l := p.Carrying(i); l != nil && p.targets(l) != nil {
			p.Core.Leave(i)
		}
	}
	p.Arm()
	p.Commit()
}

// errMoved: the pair of addresses is served by another transport than it was when the
// dial began.
var errMoved = errors.New("rds: the peer has moved to another transport")

// targets is errMoved if a link is not of the transport that the peer is to be served by.
func (p *Peer) targets(l transport.Link) error {
	by := l.Stats().Transport
	if p.Choice == nil || by == p.Node.self.Name() {
		return nil
	}
	if to := p.Choice.Target(p.Local.Addr, p.Remote); to != "" && to != by {
		return errMoved
	}
	return nil
}
