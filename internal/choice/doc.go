// Package choice is the dial policy of a node with two transports: a preferred one and
// another that every peer speaks. The first connection of a pair of addresses finds out
// which of the two serves it, and the pair may move to the other one later.
//
// docs/XRC.md, "Which transport serves a peer", has the states of a pair on one page.
//
// The node owns the transports: it listens on them, closes them and counts for them. The
// policy dials, and hears of inbound links (Accepts, Taken).
//
// Only the side that dials decides, which is the smaller address of the pair. For the
// other side a peer that connects has chosen, and its own dials, which are knocks,
// settle nothing.
//
// Silence and refusal of the preferred transport, for Patience and in any number of
// dials, count only if the peer answers by the other one: else its host is down. A peer
// that answers by the other is dialed once more by the preferred one, since a node listens
// for that first.
// A program that is stopped (Options.Hung) is no reason to leave the transport that
// serves: the kernel takes connections for it by both.
//
// # Moves
//
// While the other transport serves a pair, its peer is asked (Options.Ask) whether it
// speaks the preferred one: after Times.AskAfter, then at intervals that double up to
// Times.AskMax, and when the pair connects anew or the peer knocks, if the last question is
// as old as Times.AskAfter. A question makes no link, since a real dial makes the acceptor
// end the link that it has. If the answer is yes, and the last move is Times.Gap ago, the
// pair is to move: Target changes, Options.Leave ends the links, sending sides first, and
// the next dial is of the preferred transport. If that fails the other one goes on to serve.
//
// Every change is one warning in the log, with the reason; State tells the last one.
// Force settles what serves a peer for good: it neither moves nor is asked.
//
// # Concurrency
//
// All methods are safe for concurrent use, and none is called with a lock that
// Options.Changed or Options.Leave takes. Dials of one pair may find out at the same time;
// the link of one that was begun before a move, by the old transport, is closed.
package choice
