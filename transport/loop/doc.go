// Package loop is the transport without a network: links between transports of
// one process that share a Network. It serves a node's own addresses, examples
// and tests, those in testing/synctest bubbles included.
//
// NewNetwork makes a Network, its Transport method one Transport for each
// node; a dial finds the listener of any of them.
//
// # Concurrency
//
// What is written to a link is delivered at once, on the writer's goroutine, if
// nobody is delivering in that direction; otherwise it is appended for the one
// who is. So Begin, Message, End and Writable of a link run on goroutines that
// write to, or have started, either end; a handler may write to any link from
// inside them, and the answers to its answers are appended, not nested. No lock
// is held meanwhile. Accept functions and Closed have goroutines of their own.
//
// # Operations
//
// Links that lead to a transport which exposes memory (Expose) have
// Caps.Operations. An operation is done on the goroutine that calls Send, before it returns, in reader sections of its own for every 64 KiB; as long as
// something written before is not delivered, the link is full.
//
// # Buffers
//
// A payload given to Message may alias the memory of frames, valid during
// the call, unless it comes with a counted buffer (see internal/frame). What is
// appended is copied, up to 256 KiB in each direction; Send takes less when
// they are full.
package loop
