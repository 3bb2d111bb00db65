package transport

// Pauser is a Link whose reading can be stopped. Between Pause and the Resumed that
// ends it nothing is read, so that the peer finds the link full, and the peer's end of
// the link is not noticed: what its transport has acknowledged is still delivered
// before Closed. A Drain under way does not time out meanwhile. Abort ends a paused
// link as any other.
//
// The handler of such a link is a Resumer.
type Pauser interface {
	Link
	// Pause stops reading. It is called from within Message, End or Resumed. What
	// the link has read already is still delivered: at most one read of it, besides
	// a message that has come in part.
	Pause()
	// Resume has Resumed called soon, once for several calls, unless the link ends
	// first. Any goroutine may call it; it does not block.
	Resume()
}

// Resumer is a Handler of a Pauser.
type Resumer interface {
	Handler
	// Resumed follows Resume. It is called as Begin is. It tells whether reading
	// goes on; if not the link stays paused until the next Resume.
	Resumed() (read bool)
}
