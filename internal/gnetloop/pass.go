package gnetloop

import (
	"net"
	"net/netip"
	"os"
)

// Passing listening sockets to another process. A listener that is paused accepts
// nothing: the kernel makes connections all the same, and keeps them and what comes on
// them for whoever accepts next on the socket, in this process or in another one.

// Listening is a listening socket and its address.
type Listening struct {
	Local netip.AddrPort
	File  *os.File // a descriptor of its own; whoever has it closes it
}

// Sockets are the listening sockets of an engine.
type Sockets interface {
	// Pause has connections accepted no more, until Resume. Those that there are go on. It
	// returns when every connection that was accepted has been offered.
	Pause()
	Resume()
	// Listening returns copies of the sockets, to be passed to another process.
	Listening() ([]Listening, error)
}

// Inheritance is what an engine has from another process.
type Inheritance struct {
	// Listener returns the listening socket for an address, which then belongs to the
	// caller, or nil.
	Listener func(local netip.AddrPort) *net.TCPListener
	// Begin is closed when connections may be accepted. They wait in the kernel until then.
	Begin <-chan struct{}
}
