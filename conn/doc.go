// Package conn is the protocol core of RDS between one local and one remote
// address: paths, sequence numbers, acknowledgement, retransmission,
// congestion maps, generation numbers and the rules of who connects.
//
// It follows net/rds of Linux (connection.c, threads.c, send.c, recv.c,
// cong.c, tcp_connect.c, tcp_listen.c); where it deliberately does not,
// docs/PROTOCOL.md says so.
//
// # A pure core
//
// A Conn does no I/O, starts no goroutine and reads no clock. What happens
// comes in as method calls, with the time as an argument where it matters;
// what shall happen comes out of Actions, Freed and Fates. The same calls give
// the same output. That is what the scripts in testdata and the simulator in
// internal/simnet rely on.
//
// # Concurrency
//
// A Conn has no lock of its own: its owner calls it under one. Only Inbound
// and Account are shared with other goroutines, each as its comment says.
//
// # The life of an outgoing message
//
// Enqueue copies a small payload behind its header into the path's log, or
// keeps the counted buffer of a large one. Fill shows the transmitter what to
// write next, Wrote tells how much of it the link took. A written message
// stays until Acked covers its last byte; ResetPath marks it RETRANSMITTED and
// puts it back in front. Sequence numbers are given when a message is picked
// for its first transmission, so that a probe can go between what is resent
// and what is new.
//
// A socket or an application of the peer may have no room. The peer's congestion
// map (HandleControl), or Hold, keeps back what is for its ports and was not
// picked, and lets everything else pass.
//
// A message may have an operation on the peer's memory, which the link begins
// before it; Operation has that life.
//
//	          Enqueue              Fill, Wrote            Acked
//	(sender) ─────────▶ never sent ──────────▶ unacknowledged ─────▶ released
//	                        │  ▲                  │      │
//	                 Cancel │  └──────────────────┘      │ Cancel, new generation
//	                        ▼      link lost             ▼
//	                     released                  released, fate reported
package conn
