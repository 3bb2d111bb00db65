// Package fabric carries XRC between hosts: the objects of package xrc over the
// connections of package iwarp.
//
//	f, err := fabric.New(fabric.Config{Device: dev, XRC: objects, Addresses: ours})
//	srq, err := f.CreateSRQ(session, ...)         // who receives: queue, domain,
//	_, err = session.Advertise(...)               // and a service id for both
//	ch, err := f.Connect(ctx, session, ...)       // who sends: to a host and service
//	ch.PostSend(iwarp.WorkRequest{Queue: n, ...}) // to any queue of that domain
//
// A [Fabric] belongs to a daemon. Sessions make their domains, services and
// registrations with package xrc, and here what data passes through: [PD] and [MR],
// [CQ], shared receive queues, and a [Channel] for each initiator.
//
// # Connections
//
// There is one connection between two hosts, whoever made it, for all channels in
// both directions; it comes with the first channel and goes when it was idle for
// long. Messages name the queue they are for, and a queue that runs dry, a process
// that dies or a bad key costs nobody else anything.
//
// The question that a connection is made for goes with the request for it, so that
// a channel is set up in one round trip; later ones go by messages to a control
// queue of the fabrics' own. Setting up uses nothing that belongs to sessions.
// Asking twice does the same as asking once, so no question is lost with a
// connection.
//
// # Delivery
//
// A message reaches the queues of the domains in which its host has a live target:
// on the wire it names its queue and not its target. So what ends with a target is
// that its initiator is told and stops.
//
// Writes, reads and atomics name neither: what they may do is for the rights of the
// region to say, and the access rights of a service bind package xrc's attributes
// only.
//
// A message completes when it is in the receiver's memory, its completion in the
// queue, or when it is refused; then it alone fails.
//
// # Lost connections
//
// When a connection is lost both sides suspend its queue pairs for xrc's
// Config.Grace. Those who have channels connect anew, and ask first which messages
// came by the old connection: each message has a number in its queue, and the
// receiving side keeps the numbers of those that it has delivered. What has come
// completes, what has not is sent again, so that all messages arrive once and in
// order. Writes, reads and atomics are never repeated.
//
// A connection that is lost because a daemon ended is not resumed: the next one has
// another incarnation, which ends all queue pairs of the old one. A daemon that ends
// by Close says so.
//
// # Who hears of what
//
// The end of a queue pair is announced to the other side at once, and ends the one
// it was connected to with an event: EventQPFatal to an initiator's session, and to
// every session registered with a target. Channels hear of queues that are no more
// (ChannelAttr.OnQueueGone). In case an announcement is lost, each side asks every
// Config.Interval, and when a connection is there again, by one frame whether the
// other still has what it is connected to. A question that has no answer an interval
// later ends the connection.
//
// # Concurrency
//
// All methods may be called concurrently. Locks are taken in the order Fabric.mu,
// control.mu, peer.mu, Channel.mu, link.mu; CQ.mu before ledger.mu and
// Fabric.linksMu; PD.mu and queue.mu are leaves. No method of xrc or iwarp that may call
// back or send is called with one of them held, but PostReceive of a queue and Poll.
// A peer's requests are decided one at a time (peer.accepting), which waits for the
// end of the connection there was.
//
// # Memory
//
// What a work request names belongs to the channel until it has completed, also
// while the connection is lost; inline data is copied. Region keys are checked each
// time memory is touched.
package fabric
