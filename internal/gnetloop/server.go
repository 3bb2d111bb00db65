package gnetloop

import "time"

// Server serves a descriptor that is not a connection's: see Loops.Watch.
type Server interface {
	// Serve takes a turn. It is called on an event loop, one call at a time, and never
	// waits. rung tells whether the descriptor was readable: Serve then has to read it.
	// after is how long a Source stays muted (Mute).
	Serve(rung bool) (next Next, after time.Duration)
}

// Next is what becomes of a Source after its turn.
type Next uint8

const (
	// Rest has the source served when its descriptor is readable.
	Rest Next = iota
	// Again has the source served once more, behind the sockets and sources that the
	// event loop finds ready.
	Again
	// Yield is Again, and other goroutines run before.
	Yield
	// Mute has the descriptor not looked at for a time, and for good if that is 0.
	Mute
)
