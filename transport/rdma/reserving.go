package rdma

import "github.com/rds-go/rds/transport"

// reserving is a link on which both sides grant octets.
type reserving struct{ *link }

// established is the link as its owner sees it.
func (l *link) established() transport.Link {
	if l.qp.DirectReserves() {
		return reserving{l}
	}
	return l
}

// Claim takes the octets that may be written.
func (l reserving) Claim() int { return l.qp.DirectClaim() }

// Unclaim puts back octets that are not needed.
func (l reserving) Unclaim(n int) { l.qp.DirectUnclaim(n) }

// Want asks the peer for octets if there are not enough.
func (l reserving) Want(n int) bool { return l.qp.DirectWant(n) }

// Full tells the peer whether a port of ours has room.
func (l reserving) Full(port uint16, full bool) (granted uint64, ok bool) {
	granted, err := l.qp.DirectFull(uint32(port), full)
	return granted, err == nil
}

// Started is how many octets came before the segment at hand.
func (l reserving) Started() uint64 { return l.qp.DirectStart() }
