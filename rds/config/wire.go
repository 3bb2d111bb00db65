package config

import (
	"cmp"
	"time"

	"github.com/rds-go/rds/transport/xrc"
)

// Wire names a wire transport.
type Wire string

// The wire transports.
const (
	// WireAuto is XRC with every peer that has it, and TCP with the others. The first
	// connection finds out. A peer that does not answer on XRC any more moves to TCP, and
	// one that TCP serves is asked from time to time, and moves to XRC when it answers.
	WireAuto Wire = ""
	// WireXRC is RDS on XRC over software iWARP, which carries RDMA; only this
	// service speaks it.
	WireXRC Wire = "xrc"
	// WireTCP is RDS over TCP, as Linux speaks it.
	WireTCP Wire = "tcp"
)

// CRC says which connections of RDS on XRC have a CRC. RDS over TCP has none: Linux does
// not know one.
type CRC string

// Values of CRC.
const (
	// CRCAuto asks for a CRC unless the peer's address is one of this host's, where data
	// does not leave the host's memory. A container with a network namespace of its own
	// is another host.
	CRCAuto CRC = ""
	// CRCOn asks for a CRC with every peer.
	CRCOn CRC = "on"
	// CRCOff asks for none. Data that changes behind TCP's checksum, as some network
	// cards, virtual ones and loopback devices leave it to others, reaches applications.
	CRCOff CRC = "off"
)

// DefaultXRCPort is the TCP port of RDS on XRC.
const DefaultXRCPort = xrc.DefaultPort

// maxOperations bounds XRC.Operations.
const maxOperations = 4096

// XRC tunes RDS on XRC.
type XRC struct {
	// Port is its TCP port, on this node and on its peers. 0 means 18634, or with
	// a Node.Port that is not 16385 the port beside that.
	Port uint16
	// CRC says with which peers every segment has a CRC32c besides TCP's checksum. A
	// connection has one if either side asks for it. The zero value is CRCAuto: with
	// peers on other hosts.
	CRC CRC
	// Operations is how many RDMA operations may be under way with a peer; beyond
	// it they wait. 0 means 64.
	Operations int
	// Patience is, where a node speaks TCP too, how long a peer may be silent on XRC, and
	// how long one that has spoken it may refuse it, before TCP is tried. TCP then serves
	// the peer until it answers on XRC again. A lost SYN is sent again after 1 s, and
	// after 2 s more. 0 means 3.5 s.
	Patience time.Duration
}

// XrcPort is the TCP port of RDS on XRC, 0 for the default one.
func (c *Node) XrcPort() uint16 {
	if c.XRC.Port == 0 && c.Port != DefaultPort {
		return c.Port ^ 1
	}
	return c.XRC.Port
}

// ListenPorts are the TCP ports that a node listens on, 0 for one that it does not have.
func (c *Node) ListenPorts() (tcp, xrc uint16) {
	if c.Wire != WireXRC {
		tcp = cmp.Or(c.Port, DefaultPort)
	}
	if c.Wire != WireTCP && c.Transport == nil {
		filled := *c
		filled.Port = cmp.Or(c.Port, DefaultPort)
		xrc = cmp.Or(filled.XrcPort(), DefaultXRCPort)
	}
	return tcp, xrc
}

// Ports are the TCP ports that a node of this configuration listens on: that of RDS over TCP,
// and that of RDS on XRC, as far as Wire has them.
func (c *Node) Ports() (ports []uint16) {
	tcp, xrc := c.ListenPorts()
	for _, port := range []uint16{tcp, xrc} {
		if port != 0 {
			ports = append(ports, port)
		}
	}
	return ports
}
