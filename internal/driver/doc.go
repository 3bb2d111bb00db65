// Package driver drives a connection: it owns a core (package conn), the links of its
// paths, and the timers, and does what the core asks for. The node drives its peers with
// it, and so does the simulator (internal/simnet), in virtual time.
//
// # What is whose
//
// A Driver decides when to write, what to leave for the flusher, when to look for
// acknowledgements, and when a link ends. What comes on a link passes its Receiver: the
// generation that the peer states, the sequence rule, what was refused before, control
// messages. What is left is for the sockets, which are the owner's: see Owner and Sink.
//
// # Concurrency
//
// All methods are safe for concurrent use unless they say "with the lock", which is what
// Lock takes. Commit gives it back and does what the core has asked for meanwhile; Unlock
// only gives it back, where nothing was asked for, or somebody else commits. The driver
// calls links and the owner without the lock, but for the methods of Owner that say so.
// docs/LOCKING.md has the order.
//
// Time, timers and goroutines come from a Runtime: no other file of this package knows a
// clock, so that the simulator's runs depend on their seed alone.
package driver
