package conn

import "github.com/rds-go/rds/internal/wire"

// Inbound is the receive sequence of one path (net/rds/recv.c,
// cp_next_rx_seq). It survives the path's links. It belongs to whoever
// receives on the path, one goroutine at a time; the owner's lock is not needed.
type Inbound struct {
	next  uint64
	link  uint64 // one more than the last sequence number seen on the link; 0 before the first message
	epoch uint32
}

// InboundFrom is the sequence of a path on which next is expected: a predecessor has
// received what comes before.
func InboundFrom(next uint64) Inbound { return Inbound{next: next} }

// Next is one more than the last sequence number accepted.
func (in *Inbound) Next() uint64 { return in.next }

// Begin says that what follows comes on a new link. It is Sync too.
func (in *Inbound) Begin(epoch uint32) {
	in.Sync(epoch)
	in.link = 0
}

// Sync forgets the sequence when the peer has begun a new generation; epoch is
// Conn.Epoch. Call it before a burst of messages and after each handshake. What
// the last link has brought may have been the new generation's already, resent
// messages that came before its probe for example, and stays remembered.
func (in *Inbound) Sync(epoch uint32) {
	if in.epoch != epoch {
		in.epoch, in.next = epoch, in.link
	}
}

// Accept applies the sequence rule to a message that has wholly arrived: one
// that is flagged RETRANSMITTED and numbered below the next expected was
// delivered before and must be dropped. Any other is taken and sets what is
// expected next: gaps are legal, and so is going back without the flag, which
// is how a restarted Linux peer appears. Congestion maps do not pass here.
func (in *Inbound) Accept(h *wire.Header) bool {
	in.link = h.Sequence + 1
	if h.Sequence < in.next && h.Retransmitted() {
		return false
	}
	in.next = h.Sequence + 1
	return true
}
