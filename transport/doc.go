// Package transport is the seam between the RDS stack and what carries its
// messages: links to peer hosts and the transports that make them.
//
// A Transport listens on local addresses and dials remote ones; what it
// establishes is a Link, an ordered stream of RDS messages in both directions.
// The stack sends frames, each a message or operations on the peer's memory and a message
// behind them, and gets whole messages back through the Handler it gave to Start. What not
// every link can do is in its Caps.
//
// # Concurrency
//
// Send, Claim, Unclaim and Want may be called by one goroutine at a time, any goroutine. All other
// methods of a Link are safe for concurrent use. A link calls its handler from
// one goroutine at a time for Begin, Message and End, and from any goroutine,
// perhaps at the same moment, for Writable. Closed is the last call of all and
// comes exactly once for every started link. Handlers must not block.
//
// # Buffers
//
// The memory of frames is the caller's again when Send returns. The payload given to Message belongs to the link unless it comes with a counted
// buffer, which then changes hands.
package transport
