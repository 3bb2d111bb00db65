// Package objects has the objects of XRC transport and their lifetimes: what a
// kernel and a card do for processes that share connections. It moves no data
// and reads no wire. A PD, CQ or SRQ is that of package iwarp and the session that
// has it; work requests, completions and regions are iwarp's. A transport carries
// queue pairs, asks Device.Resolve for each message, and reports what happens to
// connections.
//
//	Device ── one life of a daemon: numbers, peers, limits
//	 ├ Session ── a process: owns what it made, has a queue of events
//	 │   ├ Domain      handle of an XRC domain, which goes by a file's inode
//	 │   ├ PD, CQ      what keys are checked against, where work completes
//	 │   ├ SRQ         receives of one process; peers name it by number
//	 │   ├ Initiator   a queue pair that sends
//	 │   ├ Handle      hold of a target; another one is registration by number
//	 │   └ Service     an id by which peers find a domain and a queue
//	 ├ domain ── shared; lives while a handle, a queue or a target is in it
//	 │   └ Target ── a queue pair that receives for all queues of its domain
//	 └ host ── a peer's daemon, the queue pairs connected to it
//
// # Lifetimes
//
// A target belongs to the device and its domain. Whoever made it is registered
// from the beginning, others register by number or open handles; the last to
// leave destroys it, before the call returns. The end of a session, clean or by
// a signal, destroys what it owns, newest first, and disturbs no one else.
// Registration is about lifetime, not delivery: requests reach a queue through
// any target of its domain.
//
// In the right order: initiators, targets, shared receive queues, domains, then
// completion queues and protection domains. What is still used is ErrBusy, with
// nothing changed; only shared receive queues do not wait for the targets they
// are behind.
//
// A queue pair whose connection is lost is suspended and resumed where it was
// (suspend.go), unless its peer is known to be gone, has another incarnation, or
// Config.Grace is over. A target in StateError has no more than its table entry;
// after Config.Reap that is a tombstone. Device.Expire does both when it is told
// the time.
//
// Numbers rest before they are given out again, and every object has a
// generation that no other ever has: what was decided about one is not done to
// its successor.
//
// # Events
//
// Each affiliated event of a target goes once to every session registered. A
// session that does not read finds EventsLost instead of what it missed, and
// costs nobody anything. What was read is acknowledged (Session.Ack) before the
// object can be destroyed by that session.
//
// # Concurrency
//
// All methods may be called concurrently. Device.mu guards everything but the
// data path; eventQueue.mu is a leaf below it. Connections, files and the
// log are touched with no lock held, before the call that caused it returns, and so are
// queues and domains of iwarp when they are closed. The clock is asked, and queues and
// domains of iwarp are made, resized and counted, under Device.mu. Resolve and the State
// methods take no lock of the device.
//
// # Buffers
//
// The package never touches the memory that receives name. SRQ.Close returns when
// package iwarp does not touch it any more either.
package objects
