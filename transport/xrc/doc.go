// Package xrc carries RDS, and the XRC traffic of applications, between hosts: the objects of
// package rds/xrc/objects on the connections of package iwarp.
//
//	t, err := xrc.New(xrc.Options{})
//	err = t.Listen(addr, accept)                 // RDS: a transport.Transport
//	q, err := t.NewQueue("application 7")        // RDS: the receive queue of an application
//	srq, err := session.CreateSRQ(...)           // XRC: whoever receives: queue, domain,
//	_, err = session.Advertise(...)              // and a service id for both
//	ch, err := t.Connect(ctx, session, ...)      // XRC: whoever sends: to a host and service
//	ch.PostSend(iwarp.WorkRequest{Queue: n, ...})
//
// # One connection
//
// Each path of a pair of hosts has one connection, to port 18634 of the side with the larger
// address. It carries the path's RDS messages, operations on memory, and, on path 0, the
// messages of all channels in both directions. RDS makes connections, and makes them again
// when they are lost; channels wait for them. Options.Want tells RDS that they do.
//
// RDS is a user of XRC like any other. The sending half of a path is an initiator, the
// receiving half a target (path.go). Both belong to a session of the transport's own, so that
// pings and the node's own sockets live when the last application has left. An application
// that is attached to a daemon is a session with a shared receive queue of its own (queue.go),
// and registered with the targets whose peers know of the queue. These queues have a sink:
// what arrives goes from the segment to where RDS wants it, and nobody posts receives.
//
// One retransmission each: RDS sends its messages again itself, and nothing is kept for them
// here; messages of channels are kept, and asked for by their numbers (ledger.go).
//
// # Channels
//
// A message reaches the queues of the domains in which its host has a live target: on the
// wire it names its queue and not its target. So what ends with a target is that its
// initiator is told and stops.
//
// Writes, reads and atomics name a queue, too, and reach the regions of its protection domain
// (protection.go); the access rights of a service bind the attributes of package rds/xrc/objects only.
//
// A message completes when it is in the receiver's memory, its completion in the queue, or
// when it is refused; then it alone fails.
//
// # Lost connections
//
// When a connection is lost both sides suspend its queue pairs for the grace of package
// rds/xrc/objects. The next connection of the path says in its set-up which queue pairs it is for, and
// they go on. Channels ask first which messages came by the old connection: each message has a
// number in its queue, and the receiving side keeps the numbers of those that it has
// delivered. What has come completes, what has not is sent again, so that all messages arrive
// once and in order. Writes, reads and atomics are never repeated.
//
// A connection that is lost because a daemon ended is not resumed: the next one has another
// incarnation, which ends all queue pairs of the old one when its links have ended (lifetime.go).
// A daemon that ends announces the end of its queue pairs while it has its connections
// (Transport.Farewell), and ends by Close, which says that the incarnation ends.
//
// # Who hears of what
//
// The end of a channel's queue pair is announced to the other side at once, and ends the one
// it was connected to with an event: EventQPFatal to an initiator's session, and to every
// session registered with a target. Channels hear of queues that are no more
// (ChannelAttr.OnQueueGone). In case an announcement is lost, each side asks every
// Options.Interval, and when a connection is there again, by one frame whether the other still
// has what it is connected to. A question that has no answer an interval later ends the
// connection.
//
// # Concurrency
//
// All methods may be called concurrently. Locks are taken in the order path.mu, Transport.mu,
// control.mu, peer.mu, Channel.mu, mux.mu; Queue.mu and ledger.mu are leaves. No method of rds/xrc/objects or iwarp that may call back or send is called with
// one of them held, but with path.mu, which no call back takes.
//
// # Memory
//
// What a work request names belongs to the channel until it has completed, also while the
// connection is lost; inline data is copied. Region keys are checked each time memory is
// touched.
package xrc
