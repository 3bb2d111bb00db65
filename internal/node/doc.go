// Package node is the RDS stack of a process: a Node has addresses, sockets bound to them, and
// one Peer for each pair of a local and a remote address, whose connection all sockets share.
// Regions of memory and operations on those of peers are the sockets'.
//
// A Socket has an Owner: this process, or an application that a Server lends it to. A node
// knows both by these interfaces alone.
//
// docs/LOCKING.md has the order of the locks. What comes from a peer is put on sockets' queues
// by the event loop that has read it; a queue's memory belongs to its socket.
package node
