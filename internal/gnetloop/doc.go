// Package gnetloop is what the transports over TCP sockets have in common: it
// makes connections and moves bytes, and knows no framing. It is the one
// package that knows gnet.
//
// New makes an Engine from Options; its Listen and Dial make a Conn, whose
// Start gives it a Handler. Reading is driven by the event loops of one gnet
// engine per Engine: Feed gets what a loop has read, and while Space says where
// the next bytes belong, they are read straight to there. Writing does not
// touch the loops: Writev goes to the socket from the caller's goroutine, and
// one goroutine of the Engine waits for full sockets to drain. Wake brings a
// Handler's own work to its loop.
//
// A transport uses an Engine as a Stack, which Open makes: with Options.Network the
// sockets below are others, such as those in memory of package internal/memnet.
//
// # Concurrency
//
// All methods are safe for concurrent use, except that Writev of one Conn may
// be called by one goroutine at a time. A Handler's methods come from the
// event loop of its Conn, one at a time; only Writable comes from the goroutine
// that waits for room, and may come before the Writev that asked for it has
// returned. Closed comes last, from whichever goroutine was the last to use the
// Conn. Handlers may call anything but Engine.Close. No lock is held when a
// Handler is called.
//
// # Descriptors
//
// An open Conn holds two descriptors of its socket: gnet's, which is read and
// closed by the event loop, and a duplicate, which reads to a Space, writes,
// asks how much was acknowledged, and is closed only after the last user has
// left. So a descriptor number is never used after it may belong to somebody
// else.
//
// # Buffers
//
// Bytes given to Feed alias a buffer of the event loop, valid during the call.
// The place that Space returns is written between Space and Filled only.
// Slices given to Writev are not kept.
//
// The package works on Linux; elsewhere New returns an error that is
// errors.ErrUnsupported.
package gnetloop
