// Package datagram has what goes through sockets of RDS: messages, what they say about memory,
// what becomes of them, and the errors of calls. Package rds has all of it under the same
// names: programs import that.
//
// A received Message is the stack's memory until it is released. An Outgoing is the caller's;
// its Buffer passes to the stack when the message is accepted. Values here may be used by one
// goroutine at a time, errors by all.
package datagram
