package datagram

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/buf"
)

// Kind says what a received Message is.
type Kind uint8

// Kinds of Message. All but KindData have no payload and no sender.
const (
	// KindData is a datagram, or the 0-byte answer to a ping, which comes from port 0.
	KindData Kind = iota
	// KindStatus is the fate of a message sent with Notify, and of its operations
	// (RDS_CMSG_RDMA_STATUS).
	KindStatus
	// KindCongestion says that ports may be uncongested again
	// (RDS_CMSG_CONG_UPDATE); see SetCongestionMonitor.
	KindCongestion
)

// Status is the fate of a message, with the values of Linux and two of ours.
type Status = conn.Status

// Fates of a message. One that has an operation succeeds when the message is
// acknowledged and the operation done. Of one that has an RDMA and an Atomic the fate is
// the worse of the two: it may be that one was refused, or did not happen, and the other
// was done. docs/PROTOCOL.md has the same for all providers.
const (
	// StatusSuccess: the message is in the receiving socket's queue, and its operation is
	// done. Over TCP, as in Linux, it says only that the peer's kernel has acknowledged the
	// message: the peer may end before it reads it, or drop it.
	StatusSuccess = conn.Success
	// StatusRemoteError: the peer refused the operation (key, bounds, rights), or has
	// restarted since it was asked for.
	StatusRemoteError = conn.RemoteError
	// StatusCanceled: the message was canceled, or its socket closed, before it was
	// acknowledged. It may be delivered all the same.
	StatusCanceled = conn.Canceled
	// StatusDropped: it is not known if the message was delivered; at most once. It was
	// lost with a connection and is not repeated. Its operation has happened, in part, or
	// not, before any that follows does.
	StatusDropped = conn.Dropped
	// StatusOtherError: the message was not delivered, and its operation did not happen:
	// the peer has come back without RDMA, for example.
	StatusOtherError = conn.OtherError
	// StatusRefused: nobody is bound to the destination port, and the message was not
	// delivered: like ECONNREFUSED, but a fate, not an error of a call. Its operation is
	// done. Over TCP, and on XRC with a peer of an earlier version, such a message ends
	// with StatusSuccess as in Linux.
	StatusRefused = conn.Refused
	// StatusExpired: the message was not picked for transmission within its time limit
	// (Outgoing.Expires), and never will be. Its operation did not happen.
	StatusExpired = conn.Expired
	// StatusAgain: the peer has refused operations of this socket, which go one at a time
	// until one succeeds, and after some 8 refusals a second not at all for a moment. This
	// one came beyond: it did not happen, the message was not delivered, and both may be
	// tried again a little later.
	StatusAgain = conn.Again
	// StatusTooLong: the message is longer than the peer takes, which was not known yet when it
	// was sent, or has changed since; it was not delivered. Its operation did not happen.
	StatusTooLong = conn.TooLong
)

// Message is a received datagram, or a buffer for one to be sent.
//
// Data of a received Message is the stack's memory, handed over without a
// copy: it is the caller's until Release, which every received Message and
// every one from AllocMessage that was not sent must see once.
type Message struct {
	Data []byte
	From netip.AddrPort

	Kind       Kind
	Truncated  bool   // ReadMessage: the buffer was shorter than the datagram
	HasDest    bool   // the sender offers a region of its memory
	Dest       Cookie // cookie of the offered region (RDS_CMSG_RDMA_DEST)
	Path       uint8  // index of the path that the message came on
	Token      uint64 // KindStatus: token given to the send
	Status     Status // KindStatus: the fate
	Congestion uint64 // KindCongestion: bit p mod 64 for each port p concerned

	Buf *buf.Buf
}

// NewMessage is a message whose Data is in the counted memory b, which Release gives back. It
// is for providers.
func NewMessage(data []byte, b *buf.Buf) Message { return Message{Data: data, Buf: b} }

// Hold makes b the counted memory of Data, and Held returns it; nil: Data has none. They are
// for providers.
func (m *Message) Hold(b *buf.Buf) { m.Buf = b }

// Held returns what Hold was given.
func (m *Message) Held() *buf.Buf { return m.Buf }

// Release gives the memory of Data back. Data must not be used afterwards.
// Releasing the zero Message, or the same variable again, does nothing.
func (m *Message) Release() {
	if b := m.Buf; b != nil {
		m.Buf, m.Data = nil, nil
		b.Release()
	}
}

// String describes the message in a few words.
func (m *Message) String() string {
	switch m.Kind {
	case KindStatus:
		return fmt.Sprintf("status %v of %#x", m.Status, m.Token)
	case KindCongestion:
		return fmt.Sprintf("congestion %#x", m.Congestion)
	}
	return fmt.Sprintf("%d bytes from %v", len(m.Data), m.From)
}

// Outgoing is a message to send.
type Outgoing struct {
	// To is the destination. The zero value means the one set by Connect.
	To netip.AddrPort
	// Data is the payload; it is copied, and the caller's again when the call
	// returns.
	Data []byte
	// Buffer, if not nil, is sent instead of Data and without a copy: a
	// Message from AllocMessage, or a received one, whose Data may have been
	// shortened. When the message is accepted the memory passes to the stack
	// and *Buffer becomes zero; otherwise it remains the caller's.
	Buffer *Message
	// Notify asks for the fate: a Message of KindStatus with this Token,
	// received on the sending socket before anything else that waits there.
	// While 65,536 fates are unread such a send fails with ErrWouldBlock.
	Notify bool
	Token  uint64
	// Expires, if not zero, is the message's time limit: a message that waits, for an
	// unreachable peer, a congested port, or behind others, and was not picked for
	// transmission by then ends with StatusExpired, some milliseconds late. One that
	// was picked goes on. A send that blocks waits for room until then at most, and
	// fails with context.DeadlineExceeded: the message was not accepted and has no
	// fate. Kernel, and an rdsd of an earlier version, return ErrNotSupported.
	Expires time.Time

	// RDMA and Atomic are done in this order before the message is delivered; the
	// destination host must be reached by a transport with RDMA, else the send
	// fails with ErrNotSupported. To learn that, a send that blocks waits for the
	// first connection to the host; another one fails with ErrWouldBlock and makes
	// it be connected. A message that is lost with its connection after its
	// operation has begun is dropped, never repeated. Neither goes together with
	// Dest or Map.
	RDMA   *RDMA
	Atomic *Atomic
	// Dest offers a region of this socket to the receiver, if HasDest is set; Map
	// exposes one for it. These need a host with RDMA, too.
	HasDest bool
	Dest    Cookie
	Map     *Map
}
