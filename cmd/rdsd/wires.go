package main

import (
	"net/netip"
	"strings"

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
	for _, p := range s.Peers {
		addr, name, _ := strings.Cut(p, "=")
		a, err := netip.ParseAddr(strings.TrimSpace(addr))
		w := rds.Wire(strings.TrimSpace(name))
		if err != nil || w != rds.WireXRC && w != rds.WireTCP {
			c.add("peers", "%q is not an address with =tcp or =xrc", p)
			continue
		}
		if have, twice := peers[a]; twice && have != w {
			c.add("peers", "%s twice, and not the same", a)
		}
		if peers == nil {
			peers = make(map[netip.Addr]rds.Wire)
		}
		peers[a] = w
	}
	if len(s.Peers) > 0 && wire != rds.WireAuto {
		c.add("peers", "needs wire = %q", wireAuto)
	}
	c.between("xrc.port", s.XRC.Port, 0, 65535)
	if _, ok := crcs[s.XRC.CRC]; !ok {
		c.add("xrc.crc", "%q is none of %s, %s and %s", s.XRC.CRC, crcAuto, crcOn, crcOff)
	}
	c.between("xrc.operations", s.XRC.Operations, 1, maxOperations)
	c.positive("xrc.patience", s.XRC.Patience)
	return wire, peers
}
