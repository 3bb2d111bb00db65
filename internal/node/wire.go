package node

import (
	"errors"
	"net/netip"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/gnetloop"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/choice"
	"github.com/rds-go/rds/transport/tcp"
	"github.com/rds-go/rds/transport/xrc"
)

// wireTransport makes the transport to other hosts. in are the sockets that it takes over, and
// Node.Loops, if not nil, read for all of it. Its XRC part is returned, too, nil if it has none.
func (n *Node) wireTransport(c *config.Node, in *gnetloop.Inheritance) (transport.Transport, *xrc.Transport, error) {
	if c.Transport != nil {
		return c.Transport, nil, nil
	}
	var other transport.Transport
	if c.Wire != config.WireXRC {
		t, err := tcp.New(tcpOptions(c, gate{n}, in, n.Loops))
		if err != nil || c.Wire == config.WireTCP {
			return t, nil, err
		}
		other = t
	}
	o := xrcOptions(c, n.Generation, gate{n}, in, n.Loops)
	o.Want = n.wanted
	preferred, err := xrc.New(o)
	switch {
	case err != nil && other != nil:
		return nil, nil, errors.Join(err, other.Close())
	case err != nil:
		return nil, nil, err
	case other == nil:
		return preferred, preferred, nil
	}
	both := choice.New(choice.Options{Preferred: preferred, Other: other, Absent: xrc.Absent, Hung: xrc.Hung, Patience: c.XRC.Patience, Logger: c.Logger})
	for a, w := range c.PeerWires {
		if err := both.Force(a.Unmap(), string(w)); err != nil {
			return nil, nil, errors.Join(err, both.Close())
		}
	}
	return both, preferred, nil
}

// XRC is Node.XRC of package rds.
func (n *Node) XRC() *xrc.Transport { return n.Xrc }

// wanted keeps a connection to a peer, for channels of XRC, until release. An address that
// the node does not have, or may not speak to, has none: channels to it end by their own time.
func (n *Node) wanted(local, remote netip.Addr) (release func()) {
	la := n.Local(local)
	if la == nil {
		return func() {}
	}
	p, err := n.Peer(la, remote)
	if err != nil {
		return func() {}
	}
	p.Lock()
	p.channels++
	p.Core.Need(true)
	p.Core.Connect(n.Now())
	p.Arm()
	p.Commit()
	return func() {
		p.Lock()
		p.channels--
		p.Unlock()
		p.Release()
	}
}

// portFields are the TCP ports that a node listens on, for the log.
func portFields(c *config.Node) (fields []zap.Field) {
	tcp, xrc := c.ListenPorts()
	if tcp != 0 {
		fields = append(fields, zap.Uint16("tcp_port", tcp))
	}
	if xrc != 0 {
		fields = append(fields, zap.Uint16("xrc_port", xrc))
	}
	return fields
}

func xrcOptions(c *config.Node, generation uint32, g transport.Gate, in *gnetloop.Inheritance, loops *gnetloop.Loops) xrc.Options {
	return xrc.Options{
		Generation: generation, Port: c.XrcPort(), CRC: xrc.CRC(c.XRC.CRC), Addresses: c.Addresses, Operations: c.XRC.Operations, MaxMessage: c.MaxMessage, Logger: c.Logger,
		Overrun: c.ReceiveOverrun, Gate: g, Memory: c.Memory, Inherited: in, Sharing: sharing(c),
		SendBuffer: c.TCP.SendBuffer, LocalSendBuffer: localSendBuffer(c), ReceiveBuffer: c.TCP.ReceiveBuffer, UserTimeout: c.TCP.UserTimeout, Silence: c.TCP.Silence,
		Congestion: c.TCP.Congestion, EventLoops: c.TCP.EventLoops, Loops: loops, DrainTimeout: c.TCP.DrainTimeout,
	}
}

// sharing is what the transports take of config.Node.Shared.
func sharing(c *config.Node) *gnetloop.Sharing {
	if c.Shared == nil {
		return nil
	}
	return &gnetloop.Sharing{Prefixes: c.Shared.Prefixes, Register: c.Shared.Register}
}
