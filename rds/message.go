package rds

import (
	"fmt"
	"net/netip"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/buf"
)

// Kind says what a received Message is.
type Kind uint8

// Kinds of Message. All but KindData have no payload and no sender.
const (
	// KindData is a datagram, or the 0-byte answer to a ping, which comes from port 0.
	KindData Kind = iota
	// KindStatus is the fate of a message sent with Notify (RDS_CMSG_RDMA_STATUS).
	KindStatus
	// KindCongestion says that ports may be uncongested again
	// (RDS_CMSG_CONG_UPDATE); see SetCongestionMonitor.
	KindCongestion
)

// Status is the fate of a message, with the values of Linux.
type Status = conn.Status

// Fates of a message.
const (
	StatusSuccess     = conn.Success
	StatusRemoteError = conn.RemoteError
	StatusCanceled    = conn.Canceled
	StatusDropped     = conn.Dropped
	StatusOtherError  = conn.OtherError
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
	Path       uint8  // index of the path it came on
	Token      uint64 // KindStatus: as given to the send
	Status     Status // KindStatus
	Congestion uint64 // KindCongestion: bit p mod 64 for each port p concerned

	buf *buf.Buf
}

// Release gives the memory of Data back. Data must not be used afterwards.
// Releasing the zero Message, or the same variable again, does nothing.
func (m *Message) Release() {
	if b := m.buf; b != nil {
		m.buf, m.Data = nil, nil
		b.Release()
	}
}

// String describes the message in a few words.
func (m *Message) String() string {
	switch m.Kind {
	case KindStatus:
		return fmt.Sprintf("status %d of %#x", m.Status, m.Token)
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
}

func (o *Outgoing) size() int {
	if o.Buffer != nil {
		return len(o.Buffer.Data)
	}
	return len(o.Data)
}
