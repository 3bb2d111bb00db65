// Package choice is a transport made of two: a preferred one and another that every
// peer speaks. Which of them serves a peer is found out by the first connection
// and remembered.
//
//	         preferred answers
//	unknown ───────────────────────────────────────────▶ preferred
//	 ▲   │                                                │    ▲
//	 │   │ preferred is refused, rejected,      refused,  │    │ refused,
//	 │   │ or silent for Patience,              other     │    │ preferred
//	 │   │ and other answers                    answers   ▼    │ answers
//	 │   └──────────────────────────────────────────────▶ other
//	 └───────────── both are refused ─────────────────────┘
//
// A peer that connects to us has chosen, too. Refusal means that the process that
// spoke a transport has gone. Silence changes nothing once a transport is chosen:
// the host may be down, or the network. Force settles what serves a peer for good.
//
// # Concurrency
//
// As package transport demands; all methods are safe for concurrent use. Dials of
// one peer may find out at the same time; one that heard nothing yields to one
// that got an answer.
package choice
