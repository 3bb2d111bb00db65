package transport

import (
	"net/netip"
	"syscall"
)

// Gate says with which addresses a transport may have connections. Its methods are
// called from any goroutine and must not block.
type Gate interface {
	// Admits tells whether a connection that remote has made is taken. It is asked
	// right behind accept, before the connection costs anything; one that is not taken
	// is reset.
	Admits(remote netip.Addr) bool
	// Listed tells whether remote is named by a list of peers: bounds on what strangers
	// may have do not count its connections.
	Listed(remote netip.Addr) bool
	// Allows tells whether remote may be connected to. Dial fails with ErrNotAllowed
	// otherwise.
	Allows(remote netip.Addr) bool
}

// Most connections from others whose set-up may be under way in one transport, in all and
// of one address: a link of RDS on XRC until its first segment has come, one of RDS over TCP
// until its first message has.
const (
	MostSetups       = 256
	MostSetupsOfPeer = 16
)

// ErrNotAllowed is the error of Dial for an address that the transport's Gate does not
// allow. It is EACCES.
var ErrNotAllowed error = notAllowed{}

type notAllowed struct{}

func (notAllowed) Error() string { return "transport: address not allowed" }
func (notAllowed) Unwrap() error { return syscall.EACCES }
