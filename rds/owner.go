package rds

import (
	"context"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport"
)

// owner is who has a socket of the node: this process, or an application that a service
// attaches to the node. It is what an application's socket adds to a node's. Every socket
// has one, from before anybody can find the socket.
type owner interface {
	// queue is the number of the receive queue, on XRC, that messages for the socket are to
	// come by, and home tells the peer of a link so: a message for port has come by another.
	queue() uint32
	home(l transport.Link, port uint16)

	// place is memory for a message of n bytes that has come in part, from a stranger or
	// not; nil: the node's.
	place(n int, stranger bool) *buf.Buf
	// placedLocked follows the queueing of a message, whose payload is in b if it has any.
	// The caller holds the lock of the queue's filling half.
	placedLocked(b *buf.Buf)
	// heard tells that messages of a peer are queued, before anybody has taken them, and
	// received how many of what size.
	heard(peer uint32)
	received(bytes, count int64)
	// deliver hands over what has come, messages and fates, to an owner with a queue of its
	// own. It tells whether the owner has all messages.
	deliver() (all bool)
	// waiting is what has come and was not taken, and outstanding the part of it that was
	// handed over.
	waiting() (bytes, count int64)
	outstanding() (bytes, count int64)
	// watch follows a change of the socket's congestion, and rings tells whether the owner
	// will tell that it has taken something, from now on.
	watch()
	rings() bool

	// ended queues the end of a message, whose operation has no memory any more.
	ended(f conn.Fate)
	// settled follows the end of messages: there is room in the send buffer. reshared
	// follows a change of the room for messages to peers that are down or hold back.
	settled()
	reshared()
	// flows are those that the owner's messages wait in; nil: they wait in the log alone.
	flows() *flowSet
	// senders is what senders wait for.
	senders() []senderWait

	// regions is who the socket's regions belong to, nil if there shall be none any more.
	// closeRegions returns when nothing touches their memory after they were revoked.
	regions(d *mr.Device) *mr.Owner
	closeRegions(o *mr.Owner) error
	// lend notes that a region is exposed; released, if not nil, has to be called when
	// nothing touches its memory any more.
	lend() (released func())
	// retired tells that a region for one use has ended.
	retired(k mr.Key)

	// who names the application.
	who() application
	// tally adds up the owner's own counters.
	tally()
}

// application names an attached application; the zero value is this process.
type application struct {
	whose
	pid     int
	command string
}

// own is the owner of a socket of this process, which has what the node has.
type own nodeSocket

var _ owner = (*own)(nil)

func (*own) queue() uint32 { return transport.FirstQueue }

func (*own) home(l transport.Link, port uint16) { l.Home(port, transport.FirstQueue) }

func (*own) place(int, bool) *buf.Buf        { return nil }
func (*own) placedLocked(*buf.Buf)           {}
func (*own) heard(uint32)                    {}
func (*own) received(_, _ int64)             {}
func (*own) deliver() bool                   { return true }
func (*own) outstanding() (_, _ int64)       { return 0, 0 }
func (*own) watch()                          {}
func (*own) rings() bool                     { return false }
func (*own) settled()                        {}
func (*own) reshared()                       {}
func (*own) flows() *flowSet                 { return nil }
func (*own) lend() func()                    { return nil }
func (*own) retired(mr.Key)                  {}
func (*own) who() (none application)         { return none }
func (*own) tally()                          {}
func (o *own) senders() []senderWait         { return o.waits.all() }
func (o *own) waiting() (bytes, count int64) { return o.q.bytes.Load(), o.q.count.Load() }

func (o *own) ended(f conn.Fate) {
	f.Op = nil
	(*nodeSocket)(o).fate(f)
}

func (*own) regions(d *mr.Device) *mr.Owner { return d.NewOwner(mr.OwnerConfig{}) }

func (*own) closeRegions(o *mr.Owner) error { return o.Close(context.Background()) }
