// Package setup is the wire format of XRC's set-up exchange: how a daemon finds
// the shared receive queue behind a peer's service, and how it gets a target
// queue pair for an initiator, in one round trip and without the peer's
// application.
//
// [Resolve] asks for a queue and [Resolved] answers; nothing is created and
// nothing held. [Connect] asks for a target and [Connected] answers, with the
// queue too. A message is an MPA frame's private data behind the block of
// package xctl, or a message of its own on a connection there is; the two of a
// pair need not come the same way. MaxLen bounds them all.
//
// The package codes and checks what one message says by itself. What numbers
// name, and whether a generation is the one meant, is for package xrc.
//
// All integers on the wire are big-endian. A message is longer than its fields
// if a later version adds some; what this one does not know is skipped.
//
// # Concurrency
//
// Messages are values; nothing locks.
//
// # Buffers
//
// Encoders append to the caller's slice. A decoded message aliases nothing.
package setup
