package rds

import (
	"errors"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/gnetloop"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/choice"
	"github.com/rds-go/rds/transport/rdma"
	"github.com/rds-go/rds/transport/tcp"
)

// wireTransport makes the transport to other hosts, of a node in this incarnation. in are the
// sockets that it takes over.
func wireTransport(c *Config, generation uint32, g transport.Gate, in *gnetloop.Inheritance) (transport.Transport, error) {
	if c.Transport != nil {
		return c.Transport, nil
	}
	var other, preferred transport.Transport
	if c.Wire != WireXRC {
		t, err := tcp.New(tcpOptions(c, g, in))
		if err != nil || c.Wire == WireTCP {
			return t, err
		}
		other = t
	}
	preferred, err := rdma.New(xrcOptions(c, generation, g, in))
	switch {
	case err != nil && other != nil:
		_ = other.Close()
		return nil, err
	case err != nil || other == nil:
		return preferred, err
	}
	both := choice.New(choice.Options{Preferred: preferred, Other: other, Absent: rdma.Absent, Hung: rdma.Hung, Patience: c.XRC.Patience, Logger: c.Logger})
	for a, w := range c.PeerWires {
		if err := both.Force(a.Unmap(), string(w)); err != nil {
			return nil, errors.Join(err, both.Close())
		}
	}
	return both, nil
}

// portFields are the TCP ports that a node listens on, for the log.
func portFields(c *Config) (fields []zap.Field) {
	tcp, xrc := c.ports()
	if tcp != 0 {
		fields = append(fields, zap.Uint16("tcp_port", tcp))
	}
	if xrc != 0 {
		fields = append(fields, zap.Uint16("xrc_port", xrc))
	}
	return fields
}

func xrcOptions(c *Config, generation uint32, g transport.Gate, in *gnetloop.Inheritance) rdma.Options {
	return rdma.Options{
		Generation: generation, Port: c.xrcPort(), CRC: rdma.CRC(c.XRC.CRC), Operations: c.XRC.Operations, MaxMessage: c.MaxMessage, Logger: c.Logger,
		Overrun: c.ReceiveOverrun, Gate: g, Memory: c.Memory, Inherited: in, Sharing: sharing(c),
		SendBuffer: c.TCP.SendBuffer, LocalSendBuffer: localSendBuffer(c), ReceiveBuffer: c.TCP.ReceiveBuffer, UserTimeout: c.TCP.UserTimeout, Silence: c.TCP.Silence,
		Congestion: c.TCP.Congestion, EventLoops: c.TCP.EventLoops, DrainTimeout: c.TCP.DrainTimeout,
	}
}

// sharing is what the transports take of Config.Shared.
func sharing(c *Config) *gnetloop.Sharing {
	if c.Shared == nil {
		return nil
	}
	return &gnetloop.Sharing{Prefixes: c.Shared.Prefixes, Register: c.Shared.Register}
}
