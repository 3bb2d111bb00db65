package transport

import (
	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
)

// Handler receives what happens on a link. One that wants messages and the end alone
// embeds Simple.
type Handler interface {
	// Begin and End bracket the messages of one read.
	Begin()
	// Message hands over one whole message. Both h and payload are valid
	// during the call only, unless owned is not nil: then payload is owned.B
	// and the handler has its one reference. A payload that is shorter than h.Length, and empty,
	// is one that was too long for the link, and was thrown away.
	Message(h *wire.Header, payload []byte, owned *buf.Buf)
	End()
	// Place gives memory for the payload of a message that does not arrive in one piece:
	// the bytes are then received there, and nil means that the link shall use its own.
	// The buffer's B is of h.Length bytes. It comes back as owned of Message, or is
	// released when the link ends first. It is called as Begin is.
	Place(h *wire.Header) *buf.Buf
	// Acquainted tells whether our side has wanted something of the peer. Over TCP such a
	// peer has more time for a message that it has begun. Any goroutine may call it.
	Acquainted() bool

	// Writable follows a Send that took less than all, and a Want that was false.
	Writable()
	// Acked says that Acked of the link has grown, if the link has Caps.AcksTold. It is
	// called as Begin is.
	Acked()
	// Refused says that the peer has not delivered count messages, numbered from first
	// on. It is called before Acked of the link counts them, as Message is or, on a
	// link between two ends in one process, from the peer's Message.
	Refused(first uint64, count uint32, why Refusal)
	// RefusalsHeard says that the peer's handler has heard of the first n messages for
	// which Refuse of this link was true. It is called as Message is.
	RefusalsHeard(n uint64)
	// Resumed follows Resume of the link. It is called as Begin is. It tells whether
	// reading goes on; if not the link stays paused until the next Resume.
	Resumed() (read bool)
	// Queue says which of our queues the messages that follow came for, if it is not the
	// one before; FirstQueue to begin with. It is called as Message is.
	Queue(queue uint32)
	// Hold says that ports of the peer take no messages for now, or do again. It ends
	// with the link. It is called as Message is, also outside of Begin and End.
	Hold(ports []uint16, on bool)

	// Closed is the end: nothing more will be delivered. acked is the final
	// Link.Acked.
	Closed(cause error, acked uint64)
}
