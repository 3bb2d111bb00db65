//go:build live

package iwarp

import (
	"net"
	"net/netip"
	"time"
)

func init() {
	dialTCP = func(to netip.AddrPort) (rawConn, error) { return net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(to)) }
	listenTCP = func() (net.Listener, error) {
		ln, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err == nil {
			_ = ln.SetDeadline(time.Now().Add(30 * time.Second))
		}
		return ln, err
	}
}
