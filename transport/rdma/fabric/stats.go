package fabric

import "sync/atomic"

type counters struct {
	dials, asks, controlSent, resumed, repeated atomic.Uint64
}

// Stats is a snapshot of what a fabric has and has done.
type Stats struct {
	Peers       int    // pairs of hosts that something is known of
	Links       int    // connections, those that come and go included
	Channels    int    // initiators that are connected, or about to be
	Dials       uint64 // attempts to connect
	Asks        uint64 // questions whether queue pairs are alive, one for all of a peer
	ControlSent uint64 // messages of the fabric itself
	Resumed     uint64 // channels that went on by another connection
	Repeated    uint64 // messages sent again because the peer had not got them
}

// Stats takes a snapshot.
func (f *Fabric) Stats() Stats {
	s := Stats{Links: len(f.allLinks()), Dials: f.stats.dials.Load(), Asks: f.stats.asks.Load(),
		ControlSent: f.stats.controlSent.Load(), Resumed: f.stats.resumed.Load(), Repeated: f.stats.repeated.Load()}
	for _, p := range f.allPeers() {
		s.Peers++
		s.Channels += len(p.allChannels())
	}
	return s
}
