// Package simnet runs RDS over links that fail, in virtual time.
//
// There are two tools. Sim is a deterministic discrete-event simulator: several
// hosts, whose connections have the cores (conn) and drivers (internal/driver) of the
// product, joined by models of TCP connections. A write may take its time: it is
// suspended, and other events happen, on stacks of which one runs at a time. Run makes a whole random schedule out of a seed: hosts that
// send, cancel, congest, freeze and restart, links that are cut at any byte,
// stall, fall silent or are half closed. While it runs and at its end it checks
// what the protocol promises and reports every breach as a Violation. The same
// seed gives the same run.
//
// Network is a transport.Transport for whole nodes, to be used inside a
// testing/synctest bubble: its links lose, delay and stall as a seed says.
//
// # What a simulated link does
//
// Bytes that were written reach the other side's TCP after the latency and are
// acknowledged there, before and whether or not its RDS has read them. What
// arrived is read in random pieces, some time later. A link that breaks loses
// what is under way; what had arrived is still read before the end is reported,
// as our transports do. A host that is marked as Linux instead discards unread
// bytes when it closes, rejects inbound links when no path is down, begins its
// sequence numbers at 1, states no generation and uses arbitrary source ports.
//
// Links may also carry operations on the peer's memory, which are executed when
// they arrive, or refused and their message with them. What a link had begun when
// it was lost is never executed again.
//
// Ports of a host may take nothing for a while, as a peer with a receive queue
// for each application says. When all faults are over half of the ports of every
// peer are held, and messages to the others must arrive all the same; then they
// are let go.
//
// Where some ports belong to nobody, links are such as know whom they connect, and
// acknowledge what was read, behind what was refused of it. Messages may have time limits.
// Processes may stop in peace: they mark all ports, ask their peers twice, and end their
// links before they go.
//
// # Concurrency
//
// A Sim belongs to one goroutine. A Network may be used by many.
package simnet
