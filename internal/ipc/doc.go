// Package ipc is what rdsd and an application that attached to it share: a
// Unix socket for calls, and one segment of shared memory for messages.
//
// The segment holds two rings of 32-byte entries: submissions, from the
// application to the daemon, and completions, back. Payloads lie beside them in
// three areas: a ring of small ones to send, an arena of large ones to send,
// which the application manages, and an arena of received ones, which the
// daemon manages. A fourth area is the application's for what it exposes to the
// operations of peers, and for its own. A second, read-only segment, the Table, is the same for all
// applications: the daemon's peers and their congestion maps.
//
// NewSegment and OpenSegment are the two ways to a Segment; its methods give the
// ends of the rings (Producer, Consumer), the areas, the Flags and a Cell for
// each socket. An Arena manages an area with books outside of it. A Bell and an
// Ear wake who sleeps, a Conn carries calls and descriptors.
//
// # Concurrency
//
// Each ring has one producer and one consumer; each end is used by one
// goroutine at a time. So are an Arena, either direction of a Conn and the Wait
// of an Ear. Flags, cells, bells and reads of a Table are for everybody.
//
// # Trust
//
// The daemon keeps the authoritative copy of every index, size and count in
// memory of its own: what it reads from the segment it copies out once and
// checks. An application may trust the daemon.
//
// # Lifetime
//
// What a Segment or a Table gave out must not be used once it was closed: the
// memory is not there any more, and Go does not know.
//
// docs/IPC.md describes the layout, the memory ordering and the sleep and
// wake-up protocol like a wire format; the tests hold this package to it.
package ipc
