// Package choice is a transport made of two: a preferred one and another that every
// peer speaks. Which of them serves a peer is found out by the first connection
// and remembered.
//
//	            ┌── preferred is refused, other answers ──▶ other
//	(unknown) ──┤
//	            └── preferred answers ────────────────────▶ preferred
//
// A peer that connects to us has chosen, too. The choice changes when a peer
// refuses the transport it has spoken before and answers on the other: the process
// that spoke it has gone. Silence changes nothing.
//
// # Concurrency
//
// As package transport demands; all methods are safe for concurrent use.
package choice
