package node

import (
	"context"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/rds/info"
	"github.com/rds-go/rds/transport"
)

// Owner is who has a socket of the node: this process, or an application that a service
// attaches to the node. It is what an application's socket adds to a node's. Every socket
// has one, from before anybody can find the socket.
type Owner interface {
	// ReceiveQueue is the number of the receive queue, on XRC, that messages for the socket are to
	// come by, and Home tells the peer of a link so: a message for port has come by another.
	ReceiveQueue() uint32
	Home(l transport.Link, port uint16)

	// Place is memory for a message of n bytes that has come in part, from a stranger or
	// not; nil: the node's.
	Place(n int, stranger bool) *buf.Buf
	// Enter begins a run of messages for the socket, before the lock of its queue is taken. It
	// tells whether the owner takes them itself, until Left, which follows when the lock is
	// given back: Hand takes one, unless there is no room for it, and offers the region dest
	// if it.Dest is set. What was handed over is the owner's when Left returns.
	Enter() bool
	Hand(it socket.Item, dest datagram.Cookie) bool
	Left()
	// PlacedLocked follows the queueing of a message, whose payload is in b if it has any.
	// The caller holds the lock of the queue's filling half.
	PlacedLocked(b *buf.Buf)
	// Heard tells that messages of a peer are queued, before anybody has taken them, and
	// Received how many of what size.
	Heard(peer uint32)
	Received(bytes, count int64)
	// Deliver hands over what is queued, messages and fates, to an owner with a queue of its
	// own, and tells it of what was handed over. It tells whether the owner has all messages.
	Deliver() (all bool)
	// Waiting is what has come and was not taken, and Outstanding the part of it that was
	// handed over.
	Waiting() (bytes, count int64)
	Outstanding() (bytes, count int64)
	// Watch follows a change of the socket's congestion, and Rings tells whether the owner
	// will tell that it has taken something, from now on.
	Watch()
	Rings() bool

	// Ended queues the end of a message, whose operation has no memory any more.
	Ended(f conn.Fate)
	// Settled follows the end of messages: there is room in the send buffer. Reshared
	// follows a change of the room for messages to peers that are down or hold back.
	Settled()
	Reshared()
	// Flows are those that the owner's messages wait in; nil: they wait in the log alone.
	Flows() *FlowSet
	// Senders is what senders wait for.
	Senders() []socket.SenderWait

	// Protection is the protection domain of the owner's regions, nil: that of this process.
	// Regions is who the socket's regions belong to, nil if there shall be none any more.
	// CloseRegions returns when nothing touches their memory after they were revoked.
	Protection() *mr.Domain
	Regions(d *mr.Device) *mr.Owner
	CloseRegions(o *mr.Owner) error
	// Lend notes that a region is exposed; released, if not nil, has to be called when
	// nothing touches its memory any more.
	Lend() (released func())
	// Retired tells that a region for one use has ended.
	Retired(k mr.Key)

	// Who names the application.
	Who() Application
	// Tally adds up the owner's own counters.
	Tally()
}

// Application names an attached application; the zero value is this process.
type Application struct {
	info.Whose
	PID     int
	Command string
}

// own is the owner of a socket of this process, which has what the node has.
type own Socket

var _ Owner = (*own)(nil)

func (*own) ReceiveQueue() uint32 { return transport.FirstQueue }

func (*own) Home(l transport.Link, port uint16) { l.Home(port, transport.FirstQueue) }

func (*own) Place(int, bool) *buf.Buf        { return nil }
func (*own) Enter() bool                     { return false }
func (*own) Left()                           {}
func (*own) PlacedLocked(*buf.Buf)           {}
func (*own) Heard(uint32)                    {}
func (*own) Received(_, _ int64)             {}
func (*own) Deliver() bool                   { return true }
func (*own) Outstanding() (_, _ int64)       { return 0, 0 }
func (*own) Watch()                          {}
func (*own) Rings() bool                     { return false }
func (*own) Settled()                        {}
func (*own) Reshared()                       {}
func (*own) Flows() *FlowSet                 { return nil }
func (*own) Lend() func()                    { return nil }
func (*own) Retired(mr.Key)                  {}
func (*own) Protection() *mr.Domain          { return nil }
func (*own) Who() (none Application)         { return none }
func (*own) Tally()                          {}
func (o *own) Senders() []socket.SenderWait  { return o.waits.All() }
func (o *own) Waiting() (bytes, count int64) { return o.Queue.Bytes.Load(), o.Queue.Count.Load() }

// Hand is never called: Enter is false.
func (*own) Hand(socket.Item, datagram.Cookie) bool { return false }

func (o *own) Ended(f conn.Fate) {
	f.Op = nil
	(*Socket)(o).Fate(f)
}

func (*own) Regions(d *mr.Device) *mr.Owner { return d.NewOwner(mr.OwnerConfig{}) }

func (*own) CloseRegions(o *mr.Owner) error { return o.Close(context.Background()) }
