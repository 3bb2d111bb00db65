package tcp

import (
	"net/netip"
	"sync/atomic"

	"github.com/rds-go/rds/internal/frame"
	"github.com/rds-go/rds/internal/gnetloop"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

// link is a connection with messages on it.
type link struct {
	transport.Plain
	t       *Transport
	conn    gnetloop.Stream
	started atomic.Bool
	stream  transport.Stream
	in      input // used from Start on
}

// Start hands the connection to an event loop. It does not wait for it, so it
// may be called from one.
func (l *link) Start(h transport.Handler) error {
	if l.started.Swap(true) {
		return transport.ErrClosed
	}
	l.in.conn, l.in.h = l.conn, h
	l.in.Init(h, &l.t.pool, uint32(l.t.opts.MaxMessage), l.t.opts.LaxHeaders)
	return l.conn.Start(&l.in)
}

// Send writes from the caller's goroutine straight to the socket.
func (l *link) Send(frames []transport.Frame) (transport.Taken, error) {
	return l.stream.Send(frames)
}

// Caps of a link: it can pause.
func (l *link) Caps() transport.Caps { return transport.Caps{Pauses: true, TellsLater: true, Path: -1} }

// Acked returns how much of what was written the peer's TCP has.
func (l *link) Acked() uint64 { return l.conn.Acked() }

// Pause stops reading.
func (l *link) Pause() { l.conn.Pause() }

// Resume has the handler's Resumed called on the event loop.
func (l *link) Resume() {
	l.in.resume.Store(true)
	l.conn.Wake()
}

// Close ends the link. A link that was never started is just closed.
func (l *link) Close(mode transport.CloseMode) { l.conn.Close(mode) }

// LocalAddr returns our end.
func (l *link) LocalAddr() netip.AddrPort { return l.conn.LocalAddr() }

// RemoteAddr returns the peer's end.
func (l *link) RemoteAddr() netip.AddrPort { return l.conn.RemoteAddr() }

// TCPInfo is what the kernel knows of the connection.
func (l *link) TCPInfo() (transport.TCPInfo, bool) { return l.conn.TCPInfo() }

// Stats returns what rds-info -T shows.
func (l *link) Stats() transport.LinkStats {
	s := transport.LinkStats{Transport: name, Acked: l.Acked(), Written: l.conn.Written()}
	s.HeaderRemaining, s.PayloadRemaining = l.in.Remaining()
	return s
}

// input is a link as its connection sees it: the stream goes into a parser,
// and the parser's messages to the link's handler.
type input struct {
	frame.Parser // the event loop's
	conn         gnetloop.Stream
	h            transport.Handler
	resume       atomic.Bool // Resume was called
	accepted     bool        // the peer has made the connection
	settled      bool        // the event loop's: a message has come
}

var _ gnetloop.Beginner = (*input)(nil)

// Space reads the rest of a large payload to where it belongs. Only what
// follows the whole of it may come in the same read.
func (in *input) Space() ([]byte, int) {
	dst, last := in.Parser.Space()
	if last {
		return dst, gnetloop.MaxBeyond
	}
	return dst, 0
}

// Flush ends a burst. The first message settles the link.
func (in *input) Flush() {
	if !in.settled && in.Parser.Messages() > 0 {
		in.settled = true
		in.conn.Settled()
	}
	in.Parser.Flush()
}

// Begun is for gnetloop.Beginner: a peer that connects has begun its first message.
func (in *input) Begun() (number uint64, left int, known bool) {
	number, left = in.Parser.Begun()
	if number == 0 && left == 0 && in.accepted {
		left = wire.HeaderSize
	}
	return number, left, left > 0 && in.h.Acquainted()
}

// Wake follows Resume. Nothing else waits: a parser has only what its rest has not
// come for.
func (in *input) Wake() error {
	if in.resume.Swap(false) && in.h.Resumed() {
		in.conn.Resume()
	}
	return nil
}

func (in *input) Writable() { in.h.Writable() }

// Closed gives a partial payload back first.
func (in *input) Closed(cause error) {
	in.Reset()
	in.h.Closed(cause, in.conn.Acked())
}
