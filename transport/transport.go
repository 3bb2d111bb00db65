package transport

import (
	"context"
	"errors"
	"net/netip"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
)

// DefaultPort is the TCP port of RDS over TCP (net/rds/tcp.h, RDS_TCP_PORT).
const DefaultPort = 16385

// MaxSlices is the largest number of slices one Writev call may carry
// (UIO_MAXIOV).
const MaxSlices = 1024

// Errors that links report.
var (
	// ErrClosed: the link is closed, or Close was called on it.
	ErrClosed = errors.New("transport: link closed")
	// ErrTooLong: the peer's header announces more payload than the bound
	// allows, the one sign of a stream that lost its framing.
	ErrTooLong = errors.New("transport: message longer than the bound")
	// ErrBadHeader: a header no RDS speaker sends (padding not zero, reserved
	// flags with a length that does not fit).
	ErrBadHeader = errors.New("transport: implausible header")
	// ErrDrainTimeout: the peer did not end its side in time after ours ended.
	ErrDrainTimeout = errors.New("transport: peer did not close in time")
)

// CloseMode says how Close ends a link.
type CloseMode uint8

const (
	// Drain ends our direction after what was written, goes on delivering what
	// the peer sends until it ends its own, for a bounded time, then closes.
	Drain CloseMode = iota
	// Abort resets the connection at once; what was not delivered is lost.
	Abort
)

// Link is one established connection to a peer.
type Link interface {
	// Start begins delivery to h. A link that was not started delivers
	// nothing and must be closed or started once.
	Start(h Handler) error
	// Writev takes as many leading bytes of bufs as it can without blocking
	// and returns their number. Less than all of them with a nil error means
	// the link is full; the handler's Writable is then called once when it
	// has room again. At most MaxSlices slices.
	Writev(bufs [][]byte) (int, error)
	// Acked returns how many of the bytes taken by Writev the peer's transport
	// has acknowledged. It may lag behind but never runs ahead.
	Acked() uint64
	// Close ends the link. The handler of a started link hears Closed later;
	// calling Close again only makes it harder (Drain, then Abort).
	Close(mode CloseMode)
	// LocalAddr and RemoteAddr are the two ends, IPv4 addresses unmapped.
	LocalAddr() netip.AddrPort
	RemoteAddr() netip.AddrPort
	// Stats is a snapshot for reports.
	Stats() LinkStats
}

// Asker is a Link whose peer tells late what it has taken, unless it is asked. Ask does
// not block and writes nothing itself.
type Asker interface {
	Ask()
}

// Indexed is a Link that knows the index of the path it was dialed for, other than by
// its source port.
type Indexed interface {
	Path() int
}

// Generational is a Link that knows from its set-up which incarnation of the peer is at
// the other end; 0 means that it was not told.
type Generational interface {
	Generation() uint32
}

// Refusal is why messages were not delivered.
type Refusal uint8

// The reasons. RefusedUnknown says that it is not known whether the message is
// delivered.
const (
	RefusedPort Refusal = iota + 1 // nobody is bound to the port that the messages are for
	RefusedUnknown
)

// Refuser is a Link whose peer can be told that a message was not delivered.
type Refuser interface {
	Link
	// Refuses tells whether this peer can be told.
	Refuses() bool
	// Refuse says that the message with a sequence number, which the handler is just
	// given, is not delivered. The peer hears of it before the message counts as
	// acknowledged. It is called from Message, and does not block; false means that the
	// link is ending without an acknowledgement of the message.
	Refuse(number uint64, why Refusal) bool
}

// RefusalListener is a Handler that hears of refusals.
type RefusalListener interface {
	// Refused says that the peer has not delivered count messages, numbered from first
	// on. It is called before Acked of the link counts them, as Message is or, on a
	// link between two ends in one process, from the peer's Message.
	Refused(first uint64, count uint32, why Refusal)
	// RefusalsHeard says that the peer's handler has heard of the first n messages for
	// which Refuse of this link was true. It is called as Message is.
	RefusalsHeard(n uint64)
}

// LinkStats is what a link reports about itself, as rds-info -T and -I show it.
type LinkStats struct {
	Transport        string // name of the link's transport
	HeaderRemaining  uint64 // header bytes the message being received still lacks; wire.HeaderSize when idle
	PayloadRemaining uint64 // payload bytes that the message being received still lacks
	Written          uint64 // bytes taken by Writev so far
	Acked            uint64 // bytes of Written that the peer has acknowledged
	CRC              bool   // a CRC besides TCP's checksum protects what is sent
	Operations       int    // requests for the peer's memory under way, on a link that is an Operator
}

// Handler receives what happens on a link.
type Handler interface {
	// Begin and End bracket the messages of one read.
	Begin()
	// Message hands over one whole message. Both h and payload are valid
	// during the call only, unless owned is not nil: then payload is owned.B
	// and the handler has its one reference.
	Message(h *wire.Header, payload []byte, owned *buf.Buf)
	End()
	// Writable follows a Writev that took less than all.
	Writable()
	// Closed is the end: nothing more will be delivered. acked is the final
	// Link.Acked.
	Closed(cause error, acked uint64)
}

// Placer is a Handler that has memory of its own for some payloads. A link asks
// it for the payload of a message that does not arrive in one piece; the bytes
// are then received there, and nil means that the link shall use its own. The
// buffer's B is of h.Length bytes. It comes back as owned of Message, or is
// released when the link ends first.
type Placer interface {
	Place(h *wire.Header) *buf.Buf
}

// Acquainted is a Handler that can tell whether its side has wanted something of the peer.
// Over TCP such a peer has more time for a message that it has begun. Any goroutine may
// call it.
type Acquainted interface {
	Acquainted() bool
}

// AckListener is a Handler that wants to hear when Acked of its link has grown, from
// links that learn of it by themselves. It is called as Begin is.
type AckListener interface {
	Acked()
}

// Transport makes links.
type Transport interface {
	// Name is "tcp", "xrc" or "loop".
	Name() string
	// Listen accepts links on a local address until the transport closes.
	// Each is offered to accept on a goroutine of the transport; accept must
	// start it or close it, at once or later, and must not block.
	Listen(local netip.Addr, accept func(Link)) error
	// Dial connects local to remote and returns the link unstarted. path is
	// the index of the path it is meant for; a transport that can lets the
	// peer see it (RDS over TCP: source port modulo 8).
	Dial(ctx context.Context, local, remote netip.Addr, path int) (Link, error)
	// Stats are the transport's counters, names as in Linux.
	Stats() []Counter
	// Close ends all listeners, aborts all links, and returns when every
	// handler has heard Closed.
	Close() error
}

// Unlistener is a Transport that can end listening and let its links go on: who connects
// then is refused by the system, before anything is acknowledged. Every link on which
// something may have been acknowledged has been accepted when Unlisten returns.
type Unlistener interface {
	Unlisten()
}

// Counter is one named statistic.
type Counter struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"`
}
