// Package bench measures RDS sockets, and plain TCP doing the same work, for
// rdsbench.
//
// A Work says what to do: ping-pong (Latency), one way (OneWay), many sockets
// to many (Mux), the same with everything verified (Stress), with operations on
// memory, cut connections and killed processes too, blocks by RDMA write (Fetch), words changed by
// many (Atomic), hosts that all talk to each other (Connections), binding sockets (Sockets), what concerns a daemon (Fair, Stopped, Attach, Sessions), and what is below
// the sockets: verbs over iWARP (RDMA), many workers of which one uses bad keys
// (Chernobyl), and memory regions (Regions). A Runner is the active process: it starts a Server in another process or reaches a running
// one, does each work over RDS and, if asked, over what it is compared with in
// turn, and makes a Report, which writes itself as text, JSON or an HTML page.
//
// # The processes
//
//	 client side                            server side
//	Runner ──────────────────────────────▶ server      the work
//	 [applications ─────────────────────▶ applications]
//	   │                                      │
//	[rdsd ───────────────────────────────▶ rdsd]       the one connection
//
// What is in brackets is there with the provider rdsd; further applications in
// Mux with Processes, in Stopped and in Fair. All but the Runner are the same program, which
// it has started and which becomes what it is told (Server.ServeParent), or a
// server started by hand (Server.Serve).
//
// Each is a session at the end of a control connection, JSON lines over TCP or standard
// input and output (control.go); so is the client's side in this process, at the end of a pipe.
// The Runner has sessions open what a work needs, send and stop, asks
// for their CPU time, and has them confirm how many messages came. All data goes
// over the transport that is measured, none over the control connection. Every
// control line is one request or one response of at most 1 MiB. A process that
// was started ends with its standard input.
//
// # What a figure means
//
// A measured time starts after a warm-up, lasts until there is something to count and, one way, ends when the receiver
// has confirmed the last message; of RDMA Writes, when Reads have brought back
// what was written last, which a peer answers after placing it. Receivers check the length and the number of
// each message, so a message lost, doubled or out of order fails the run. CPU
// time is getrusage of the processes of both sides, daemons included, user and
// system. A ratio is of two runs that follow one another, and of several the
// median is shown.
//
// # Concurrency
//
// A Runner does one work at a time. A Server serves one client at a time.
//
// # Who sends
//
//	sender   a session that sends and counts, in loops or as a flood
//	loop     a goroutine that keeps requests outstanding, by a port: ping-pong (messenger),
//	         blocks (fetches), Mux and Stress (muxSocket), Atomic (atomicWorker)
//	soak     a Stress with operations, which is verified across cuts, kills and restarts
//
// One way is sent by a messenger too, without a sender: it ends when the receiver confirms.
// A Chernobyl run has workers of its own on a level: verbs or sockets.
package bench
