package xrc

// Claim takes the octets that may be written.
func (l *link) Claim() int { return l.qp.Claim() }

// Unclaim puts back octets that are not needed.
func (l *link) Unclaim(n int) { l.qp.Unclaim(n) }

// Want asks the peer for octets if there are not enough.
func (l *link) Want(n int) bool { return l.qp.Want(n) }

// Full tells the peer whether a port of ours has room.
func (l *link) Full(port uint16, full bool) (granted uint64, ok bool) {
	granted, err := l.qp.TellFull(uint32(port), full)
	return granted, err == nil
}

// Started is how many octets came before the segment at hand.
func (l *link) Started() uint64 { return l.qp.Started() }
