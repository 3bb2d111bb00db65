// Package rdmap is the Remote Direct Memory Access Protocol, RFC 5040 with the
// atomic operations and immediate data of RFC 7306: opcodes, the headers that
// follow DDP's, and the errors that end a stream.
//
// An [Op] names a message. A [Segment] is one DDP segment decoded and checked as
// far as that needs no state; [ReadRequest], [AtomicRequest], [AtomicResponse]
// and [Immediate] are what some messages carry. A [Cause] is one row of the
// registry of errors (RFC 6580 section 3), and a [Terminate] the message that
// tells it to the peer, in the RFC's layout or in that of Linux's siw.
//
// # Concurrency
//
// Everything is a value; nothing locks.
//
// # Buffers
//
// Encoders append to the caller's slice. A decoded Segment's payload and a
// decoded Terminate's DDP header alias the input and live as long as it does;
// all else is copied out. Nothing allocates but what makes text, and [CauseOf],
// which looks through wrapped errors when a stream ends.
package rdmap
