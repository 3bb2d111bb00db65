//go:build live

package node

import (
	"io"
	"net"
	"net/netip"

	"github.com/rds-go/rds/internal/rdstest"
)

// newRelay makes a relay and the addresses of the nodes.
func newRelay(l *lab) *rdstest.Relay { return newFilter(l, nil) }

// newFilter is newRelay with something that bytes pass through.
func newFilter(l *lab, through func(io.Reader) io.Reader) *rdstest.Relay {
	r := &rdstest.Relay{TB: l, Through: through, Near: rdstest.NewAddr(), There: rdstest.NewAddr(), Here: rdstest.NewAddr(), Far: rdstest.NewAddr(), Conns: make(map[*net.TCPConn]int)}
	for xrc, port := range []uint16{l.Port, l.Port ^ 1} {
		at := func(a netip.Addr) netip.AddrPort { return netip.AddrPortFrom(a, port) }
		r.Ports = append(r.Ports,
			&rdstest.RelayPort{At: at(r.There), From: rdstest.AddrOf(r.Here, 0), To: at(r.Far), Xrc: xrc},
			&rdstest.RelayPort{At: at(r.Here), From: rdstest.AddrOf(r.There, 0), To: at(r.Near), Xrc: xrc})
	}
	r.Forward(0)
	r.Forward(1)
	l.Cleanup(r.End)
	return r
}
