// Package sockpath says where the Unix sockets of a host's daemon are.
//
// A Name is one of them. Clients Find it, daemons Serve it; both let the
// environment decide first. It has no state.
package sockpath
