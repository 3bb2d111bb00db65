package rds

import (
	"context"
	"net"
	"net/netip"
	"slices"

	"github.com/rds-go/rds/internal/afrds"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/transport/choice"
)

// serving is the name of the transport that serves a pair of addresses.
func (n *Node) serving(local, remote netip.Addr) string {
	t := n.via(remote)
	if c, ok := t.(*choice.Transport); ok {
		return c.Chosen(local, remote)
	}
	return t.Name()
}

// setTransport notes the wish. It concerns each destination when it is sent to.
func (s *nodeSocket) setTransport(w Wire) error {
	if s.closed.Load() {
		return net.ErrClosed
	}
	if err := s.has(w); err != nil {
		return err
	}
	s.only.Store(&w)
	s.last.Store(nil) // makes the next send look the peer up again
	return nil
}

// has tells whether the node has a transport.
func (s *nodeSocket) has(w Wire) error {
	if _, both := s.node.wire.(*choice.Transport); w != WireAuto && !both && s.node.wire.Name() != string(w) {
		return ErrNoTransport
	}
	return nil
}

// wanted is the transport to send by.
func (s *nodeSocket) wanted() Wire {
	if w := s.only.Load(); w != nil {
		return *w
	}
	return WireAuto
}

// admits tells whether this socket may send to a remote address.
func (s *nodeSocket) admits(remote netip.Addr, w Wire) error {
	c, ok := s.node.via(remote).(*choice.Transport)
	if !ok { // setTransport does not store another value
		return nil
	}
	if have := c.Chosen(s.la.addr, remote); have == string(w) || have == "" && c.Force(remote, string(w)) == nil {
		return nil
	}
	return ErrNotSupported
}

// servers are the transports as the table of peers has them.
var servers = map[Wire]ipc.Server{WireAuto: ipc.ServerUnknown, WireXRC: ipc.ServerXRC, WireTCP: ipc.ServerTCP}

// transports are the features of the daemon's transports.
func (n *Node) transports() []string {
	names := []string{ipc.FeatureChoice}
	_, both := n.wire.(*choice.Transport)
	for _, w := range []Wire{WireXRC, WireTCP} {
		if both || n.wire.Name() == string(w) {
			names = append(names, string(w))
		}
	}
	return names
}

// showServer puts what serves a peer into the table.
func (s *Service) showServer(p *peer) {
	if !s.shows(p) {
		return
	}
	s.serverMu.Lock() // serialises changes, so that the table shows the later one last
	defer s.serverMu.Unlock()
	server := ipc.ServerAny
	if c, ok := s.node.via(p.remote).(*choice.Transport); ok {
		server = servers[Wire(c.Chosen(p.local.addr, p.remote))]
	}
	s.table.SetServer(int(p.index), server)
}

// chosen follows a change of what serves a remote address.
func (n *Node) chosen(remote netip.Addr) {
	svc := n.service.Load()
	if svc == nil {
		return
	}
	var peers []*peer
	n.mu.RLock()
	for _, la := range n.locals {
		if p := n.peers[peerKey{local: la.addr, remote: remote}]; p != nil {
			peers = append(peers, p)
		}
	}
	n.mu.RUnlock()
	for _, p := range peers {
		svc.showServer(p)
	}
}

// decide tells whether a socket may send to a peer by a transport, which is decided
// if it was not. The caller holds mu.
func (x *session) decide(a *appSocket, peer uint32, w Wire) error {
	p := x.node.peerAt(peer)
	if p == nil || p.local != a.s.la || servers[w] == ipc.ServerUnknown {
		return ErrInvalid
	}
	if err := a.s.has(w); err != nil {
		return err
	}
	return a.s.admits(p.remote, w)
}

// setTransport notes the wish, which counts for this daemon and for what comes
// after it.
func (s *clientSocket) setTransport(w Wire) error {
	if s.closed.Load() {
		return net.ErrClosed
	}
	if w != WireAuto {
		h, err := s.session(context.Background(), false)
		if err == nil {
			err = h.t.has(w)
		}
		if err != nil {
			return err
		}
	}
	s.only.Store(&w)
	return nil
}

// has tells whether the daemon has a transport, and lets applications choose it.
func (t *attachment) has(w Wire) error {
	switch {
	case !slices.Contains(t.welcome.Features, ipc.FeatureChoice):
		return ErrNotSupported
	case !slices.Contains(t.welcome.Features, string(w)):
		return ErrNoTransport
	}
	return nil
}

// admits tells whether this socket may send to a destination.
func (s *clientSocket) admits(ctx context.Context, h *half, d *destination) error {
	only := s.only.Load()
	if only == nil || *only == WireAuto {
		return nil
	}
	if err := h.t.has(*only); err != nil {
		return err
	}
	switch h.t.table.Server(int(d.peer)) {
	case servers[*only], ipc.ServerAny:
		return nil
	case ipc.ServerUnknown:
		if ctx.Err() != nil { // ctx bounds waiting for room
			ctx = context.Background()
		}
		_, err := h.tellWithin(ctx, ipc.Request{Op: ipc.CallAdmit, Peer: d.peer, Option: string(*only)})
		return err
	}
	return ErrNotSupported
}

// setTransport asks the kernel, which refuses to change what Bind has chosen
// (net/rds/af_rds.c, rds_set_transport).
func (s *kernelSocket) setTransport(w Wire) error {
	if w == WireXRC {
		return ErrNoTransport
	}
	have, err := s.c.Transport()
	if err != nil || w == WireAuto || have == afrds.TransportTCP {
		return err
	}
	return s.c.SetTransport(afrds.TransportTCP)
}
