package transport

import (
	"net/netip"

	"github.com/rds-go/rds/internal/wire"
)

// Link is one established connection to a peer. What not every link can do is named in
// Caps; methods that belong to something a link cannot do have no effect. A link that
// carries messages and nothing else embeds Plain.
type Link interface {
	// Start begins delivery to h. A link that was not started delivers
	// nothing and must be closed or started once.
	Start(h Handler) error
	// Caps is what the link can do and knows from its set-up.
	Caps() Caps
	// Send takes as many leading frames as it can without blocking, and perhaps a part of
	// the next one, and says how much. Less than all with a nil error means that the link
	// is full; the handler's Writable is then called once when it has room again. The
	// memory is the caller's again when Send returns; but after a frame that has begun
	// the next Send goes on with that frame, which it is given again, whole.
	//
	// The operations of a frame begin, all or none, behind everything that was sent before.
	// Its message is delivered only when the data of those that write is in place, and not
	// at all if one of these is refused; it then counts as acknowledged. A FrameError is
	// about the frame behind those that were taken, which was not begun.
	Send(frames []Frame) (Taken, error)
	// Acked returns how many octets of messages that Send has taken the peer's transport
	// has acknowledged. It may lag behind but never runs ahead.
	Acked() uint64
	// Ask asks the peer to tell what it has taken, which some peers tell late. It writes
	// nothing itself.
	Ask()
	// Close ends the link. The handler of a started link hears Closed later;
	// calling Close again only makes it harder (Drain, then Abort).
	Close(mode CloseMode)
	// LocalAddr and RemoteAddr are the two ends, IPv4 addresses unmapped.
	LocalAddr() netip.AddrPort
	RemoteAddr() netip.AddrPort
	// Stats is a snapshot for reports.
	Stats() LinkStats
	// TCPInfo is what the kernel knows of the link's TCP connection. It reports false when
	// the connection has ended, and for a link that has none.
	TCPInfo() (TCPInfo, bool)

	pauser
	refuser
	sorter
	reserver
}

// pauser is the part of a Link with Caps.Pauses: its reading can be stopped. Between
// Pause and the handler's Resumed that ends it nothing is read, so that the peer finds
// the link full, and the peer's end of the link is not noticed: what its transport has
// acknowledged is still delivered before Closed. A Drain under way does not time out
// meanwhile. Abort ends a paused link as any other.
type pauser interface {
	// Pause stops reading. It is called from within Message, End or Resumed. What
	// the link has read already is still delivered: at most one read of it, besides
	// a message that has come in part.
	Pause()
	// Resume has Resumed called soon, once for several calls, unless the link ends
	// first. Any goroutine may call it; it does not block.
	Resume()
}

// refuser is the part of a Link with Caps.Refuses: its peer can be told that a message
// was not delivered.
type refuser interface {
	// Refuse says that the message with a sequence number, which the handler is just
	// given, is not delivered. The peer hears of it before the message counts as
	// acknowledged. It is called from Message, and does not block; false means that the
	// link is ending without an acknowledgement of the message.
	Refuse(number uint64, why Refusal) bool
}

// FirstQueue stands for the receive queue that is everybody's: what comes by it is for the
// ports of a node that have no other. An application's queue has another number.
const FirstQueue = 1

// sorter is the part of a Link with Caps.Queues, on which each message names the receiving
// application: each application of a host has a receive queue of its own, and the peer is told
// which ports are whose. It sends to FirstQueue what it knows no better.
type sorter interface {
	// Home tells the peer that messages to port belong to a queue of ours. It is a hint, may
	// come from any goroutine, and does not block. It is false if the link has ended.
	Home(port uint16, queue uint32) bool
}

// reserver is the part of a Link with Caps.Reserves, whose peer grants octets before
// they are sent: all its peers together never have more under way to a node than that
// has room for.
//
// Who writes claims octets first, decides then which messages to write, and puts back
// what these do not need: a message that has a sequence number has its octets, too.
// Claim, Unclaim and Want are for who writes, do not block, and write nothing.
type reserver interface {
	// Claim takes all octets that are granted and not claimed. They are the caller's,
	// for messages or Unclaim.
	Claim() int
	// Unclaim puts back octets that were claimed and are not needed.
	Unclaim(n int)
	// Want tells whether n octets can be claimed now. If not the peer is asked for them,
	// and the handler's Writable follows.
	Want(n int) bool
	// Full tells the peer, from any goroutine, that port has no room for messages, or has
	// room again. What the peer is granted after the call reaches it after the news. It
	// returns how many octets it was granted before, in all; false if the link has ended.
	Full(port uint16, full bool) (granted uint64, ok bool)
	// Started is how many octets had come before those that the handler is given
	// messages from. It is for the handler, within Message.
	Started() uint64
}

// Caps is what a link can do, and what it knows from its set-up.
type Caps struct {
	Operations bool // frames may have operations
	Pauses     bool // reading can be stopped, until the handler hears Resumed
	Refuses    bool // the peer can be told that a message was not delivered
	Queues     bool // each application of a host has a receive queue of its own
	Reserves   bool // the peer grants octets before they are sent
	AcksTold   bool // the handler hears Acked by itself
	CRC        bool // a CRC besides TCP's checksum protects what is sent

	// Limit is the longest payload that the peer takes, where the set-up has told it. With
	// TellsLater only the peer's first probe, or its pong, does.
	Limit      wire.Limit
	TellsLater bool

	// Path is the index of the path that the link was dialed for, -1 if only its source
	// port tells.
	Path int
	// Generation is the peer's incarnation, where the set-up has told it: 0 if the peer has
	// said that it has none.
	Generation       uint32
	GenerationStated bool
}

// Plain is for a Link to embed that carries messages and nothing else.
type Plain struct{}

// Caps of a link that can do nothing else.
func (Plain) Caps() Caps { return Caps{Path: -1} }

// The methods of what a plain link cannot do.
func (Plain) Ask()                             {}
func (Plain) TCPInfo() (i TCPInfo, ok bool)    { return i, false }
func (Plain) Pause()                           {}
func (Plain) Resume()                          {}
func (Plain) Refuse(uint64, Refusal) bool      { return false }
func (Plain) Home(uint16, uint32) bool         { return false }
func (Plain) Claim() int                       { return 0 }
func (Plain) Unclaim(int)                      {}
func (Plain) Want(int) bool                    { return true }
func (Plain) Full(uint16, bool) (uint64, bool) { return 0, false }
func (Plain) Started() uint64                  { return 0 }

// Refusal is why messages were not delivered.
type Refusal uint8

// The reasons. RefusedUnknown says that it is not known whether the message is
// delivered.
const (
	RefusedPort Refusal = iota + 1 // nobody is bound to the port that the messages are for
	RefusedUnknown
	RefusedLength // the messages are longer than the receiver takes
)

// LinkStats is what a link reports about itself, as rds-info -T and -I show it.
type LinkStats struct {
	Transport        string // name of the link's transport
	HeaderRemaining  uint64 // header bytes the message being received still lacks; wire.HeaderSize when idle
	PayloadRemaining uint64 // payload bytes that the message being received still lacks
	Written          uint64 // octets of messages taken by Send so far
	Acked            uint64 // bytes of Written that the peer has acknowledged
	Operations       int    // requests for the peer's memory under way, on a link that carries operations
}
