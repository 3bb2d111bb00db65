// Package resolve finds the IP addresses of a host that is given by name, wherever
// a configuration, a command or a program may give one.
//
// RDS knows hosts by one address each, so a choice is made of a name that has
// several: its IPv4 addresses come first, then its IPv6 addresses, each in the order in
// which the system's resolver gives them. A host to send to is the first one. An
// address to listen on or to bind is the first one that this host or its daemon has.
//
// A look-up ends after timeout. There is no state and no cache.
package resolve
