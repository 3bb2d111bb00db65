package gnetloop

// MaxBeyond bounds what Space may ask for after its place.
const MaxBeyond = 64 << 10

// Handler receives what happens on a connection.
//
// All methods but Writable and Closed are called on the connection's event
// loop: one at a time, and never waiting for anything.
type Handler interface {
	// Feed is given the next bytes of the stream and takes all of them. They
	// are valid during the call. An error ends the connection with a reset,
	// the error being what Closed is told; only Flush and Closed follow.
	Feed(b []byte) error
	// Space returns where the next bytes of the stream belong, so that they
	// can be read straight to their place, or nil if nowhere in particular.
	// beyond is how many bytes after dst may come in the same read; they are
	// given to Feed. It is 0 to MaxBeyond. It is an offer: what has come to the
	// event loop's buffer already is given to Feed, wherever it belongs.
	Space() (dst []byte, beyond int)
	// Filled tells how many bytes were put into dst, 0 if there was nothing to
	// read. It follows every Space whose dst is not nil, before any other call
	// on the event loop, so the handler may hold on to something between the
	// two.
	Filled(n int)
	// Wake is what Conn.Wake asked for. An error is one of Feed's.
	Wake() error
	// Flush is the end of a burst of calls of the above.
	Flush()
	// Writable follows a Writev that took less than all. It comes from the
	// engine's goroutine that waits for room, and may come before that Writev
	// has returned.
	Writable()
	// Closed is the end of a connection that was started, exactly once, from
	// whichever goroutine was the last to use the descriptor; nothing follows.
	// Conn.Acked and Written have their last values.
	Closed(cause error)
}

// Stats are an engine's counters.
type Stats struct {
	Reads        uint64 // times an event loop found input
	Writables    uint64 // calls of Handler.Writable
	Full         uint64 // calls of Conn.Writev that took less than all
	AcceptErrors uint64 // connections that could not be accepted
	Crowded      uint64 // accepted connections that ended with errCrowded
	HalfOpen     int    // accepted connections that are not settled now
}
