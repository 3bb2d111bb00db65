package objects

// Resolve is the question of the data path for every request: which shared
// receive queue does number name for a message that target received? It takes no
// lock and allocates nothing. Queues of other domains do not exist for the
// target's peer.
//
// ErrNotReady if the target takes no requests, ErrUnknownSRQ if there is no such
// queue. The queue may be destroyed at any time; messages that it has no more are refused.
func (d *Device) Resolve(number uint32, target *Target) (*SRQ, error) {
	q, err := d.Find(number, target)
	if err == ErrUnknownSRQ {
		target.unknown.Add(1)
	}
	return q, err
}

// Find is Resolve for a request that may be for another target, and is not counted as one of target's.
func (d *Device) Find(number uint32, target *Target) (*SRQ, error) {
	if s := target.current(); s < StateRTR || s > StateSQD {
		return nil, ErrNotReady
	}
	q := d.srqs.find(number)
	if q == nil || q.xrcd != target.xrcd {
		return nil, ErrUnknownSRQ
	}
	return q, nil
}
