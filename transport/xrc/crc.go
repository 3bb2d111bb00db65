package xrc

import "github.com/rds-go/rds/transport/iwarp"

// CRC says which links have a CRC32c of every segment (MPA, RFC 5044 section 4.4). A
// link has one if either side asks for it.
type CRC string

// Values of CRC.
const (
	CRCAuto CRC = ""    // asked for, unless the peer's address is one of this host's
	CRCOn   CRC = "on"  // asked for
	CRCOff  CRC = "off" // not asked for
)

func (c CRC) valid() bool { return c == CRCAuto || c == CRCOn || c == CRCOff }

// ask puts c into the parameters of a connection.
func (c CRC) ask(p *iwarp.ConnParams) {
	p.NoCRC, p.NoLocalCRC = c == CRCOff, c == CRCAuto
}
