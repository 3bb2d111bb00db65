package main

import (
	"net/netip"
	"strings"

	"github.com/rds-go/rds/internal/resolve"
	"github.com/rds-go/rds/rds"
)

// wireAuto is the value of wire that means rds.WireAuto.
const wireAuto = "auto"

// maxOperations is the bound of rds.XRCConfig.Operations.
const maxOperations = 4096

// wires checks what transports peers are served by.
func (s *settings) wires(c *checks) (wire rds.Wire, peers map[netip.Addr]rds.Wire) {
	switch s.Wire {
	case wireAuto:
	case string(rds.WireXRC), string(rds.WireTCP):
		wire = rds.Wire(s.Wire)
	default:
		c.add("wire", "%q is none of auto, xrc and tcp", s.Wire)
	}
	peers = s.peerWires(c)
	if len(s.Peers) > 0 && wire != rds.WireAuto {
		c.add("peers", "needs wire = %q", wireAuto)
	}
	c.between("xrc.port", s.XRC.Port, 0, 65535)
	if _, ok := crcs[s.XRC.CRC]; !ok {
		c.add("xrc.crc", "%q is none of %s, %s and %s", s.XRC.CRC, crcAuto, crcOn, crcOff)
	}
	if s.XRC.Port != 0 && s.XRC.Port == s.Port && s.Wire == wireAuto {
		c.add("xrc.port", "%d is the port of RDS over TCP", s.XRC.Port)
	}
	c.between("xrc.operations", s.XRC.Operations, 1, maxOperations)
	c.positive("xrc.patience", s.XRC.Patience)
	return wire, peers
}

// peerWires checks what is said of single peers.
func (s *settings) peerWires(c *checks) (peers map[netip.Addr]rds.Wire) {
	names := make([]string, len(s.Peers))
	for i, p := range s.Peers {
		name, _, _ := strings.Cut(p, "=")
		names[i] = strings.TrimSpace(name)
	}
	found := lookUp(names, resolve.Addr)
	for i, p := range s.Peers {
		_, name, _ := strings.Cut(p, "=")
		h, w := found[names[i]], rds.Wire(strings.TrimSpace(name))
		switch {
		case w != rds.WireXRC && w != rds.WireTCP:
			c.add("peers", "%q is not a host with =tcp or =xrc", p)
			continue
		case h.err != nil:
			c.add("peers", "%v", h.err)
			continue
		}
		if have, twice := peers[h.addr]; twice && have != w {
			c.add("peers", "%s twice, and not the same", h.addr)
		}
		if peers == nil {
			peers = make(map[netip.Addr]rds.Wire)
		}
		peers[h.addr] = w
	}
	return peers
}
