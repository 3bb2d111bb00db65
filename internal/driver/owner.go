package driver

import (
	"context"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

// Owner is who has sockets on the connection.
type Owner interface {
	// These are called with the lock; of the driver they may use what is for that.

	Needed() bool                            // whether somebody here talks to the peer: otherwise the core does not keep a link
	Serve()                                  // a path is about to write: what waits outside the core may be queued
	Deadline() time.Time                     // when Tick has something to do besides the core's; zero: never
	Tick(now time.Time)                      // a time that Deadline has named may have come
	LinkUp(path int, l transport.Link)       // a path has a link, which is about to start
	LinkDown(path int)                       // a path's link has ended
	Begins(path int, o *conn.Operation) bool // conn.Config.Begins
	Dial(ctx context.Context, path int)      // connects a path: Driver.Dialed is to follow, later
	Takes(l transport.Link) error            // looks at a link that was dialed: an error has it aborted
	Committing() bool                        // Commit is about to give the lock back; whether Committed is to follow

	// These are called without it.

	Sink(r *Receiver) Sink                            // takes what a link brings, which is about to start
	Started(path int, l transport.Link, inbound bool) // follows LinkUp, before the link has started
	Ended(path int, cause error)                      // follows LinkDown
	Idle()                                            // a link has ended, or the attempt to make one: the driver may be of no use any more
	NotBegun(o *conn.Operation)                       // an operation that Begins let begin has not begun after all
	Begun(o *conn.Operation)                          // an operation has begun
	Freed(a *conn.Account)                            // conn.Conn.TakeFreed
	Fate(f conn.Fate, last bool)                      // conn.Conn.TakeFates; last: the next one, if any, is of another account
	WakeAll()                                         // conn.WakeAll
	PortsChanged()                                    // which ports of the peer take messages may have changed
	Met(before, now State)                            // the peer has said who it is
	Committed()                                       // see Committing
}

// State is what a peer has said of itself.
type State struct {
	Generation uint32 // incarnation of the peer; 0: not stated
	Paths      int    // number of paths
}

// Sink takes what one link brings and the sequence rule lets pass. It is called as a
// transport.Handler is, from one goroutine at a time.
type Sink interface {
	// Begin is the beginning of a burst, End the end of it.
	Begin()
	End()
	// Proved says that something has come on the link, for the first time, and Stated that
	// the peer has stated another generation than before. Receiver.Inbound is up to date.
	Proved()
	Stated(before uint32)
	// Take takes a message for a socket. It may be called again with a message for which it
	// has said Waits: see Receiver.Wake.
	Take(h *wire.Header, payload []byte, owned *buf.Buf) Verdict
	// Leave gives locks back that Take has kept for the next message: the driver is about to
	// call the core, or a link.
	Leave()
	// Whole says that a message for which Place gave memory has come.
	Whole(owned *buf.Buf)
	// Place, Acquainted and Queue are those of transport.Handler.
	Place(h *wire.Header) *buf.Buf
	Acquainted() bool
	Queue(queue uint32)
	// Retry says that messages for which Take has said Waits are tried again, and Reading
	// that none waits any more.
	Retry()
	Reading()
	// Closed is the end of the link, of which everything is taken.
	Closed()
}

// Verdict is what has become of a message.
type Verdict uint8

// The verdicts. The payload's buffer is the sink's if it has taken the message.
const (
	Taken       Verdict = iota // the message is in its socket's queue
	TakenUnsure                // the message is kept, and it is not known if anybody will ever have it
	Waits                      // the socket has no room: the link is not read until Receiver.Wake
	NoPort                     // nobody is bound to the port
	Dropped                    // the message is lost for want of room
	TooLong                    // the link has thrown the payload away, see transport.Handler
)
