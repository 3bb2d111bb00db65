package config

import (
	"net"
	"net/netip"
)

// SharedListeners has a node listen on many addresses with one socket for each port and family
// of addresses, where something else, such as a program in the kernel, brings the connections
// to that socket. Otherwise each address and port has a socket of its own.
type SharedListeners struct {
	// Prefixes are the addresses that share a socket. Each address to listen on is in
	// Node.Addresses too. The socket is bound to the first address of the lowest prefix.
	Prefixes []netip.Prefix
	// Register is called with each listening socket, before connections are accepted on it, and
	// with the prefixes whose connections it is to accept: also with the sockets of other
	// addresses, whose prefixes are whole addresses. After an error the node does not listen
	// there. The socket is the node's. Nil: nobody is told.
	Register func(prefixes []netip.Prefix, ln *net.TCPListener) error
}
