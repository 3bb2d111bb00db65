// Package rdma carries RDS messages on XRC over software iWARP: the transport
// between two hosts that both run this service. docs/XRC.md has the wire format.
//
// # Links
//
// A link is one iWARP connection with shared receive queues (package
// transport/iwarp). Messages keep their RDS headers; as many whole ones as fit a
// segment travel in one Send, a longer one in a Send of several segments. A
// message counts as acknowledged when the peer's RDS has taken it, not just its
// TCP. The sender's RDS keeps it until then, so nothing is copied or kept here.
//
// # Queues
//
// A link has Caps.Queues: each application of a host has a receive queue, which
// messages name, and both sides tell each other whose ports are whose and which
// applications take no messages now.
//
// # Operations
//
// A link has Caps.Operations: reads, writes and atomics on the peer's regions
// go in order with messages. A bad key costs its own operation and the message
// that comes with it, nothing else.
//
// # Concurrency
//
// As package transport demands. Operations complete on a goroutine of the link.
package rdma
