package xrc

import "sync/atomic"

type counters struct {
	asks, controlSent, resumed, repeated atomic.Uint64
}

// ChannelStats is a snapshot of what a transport has of channels, and has done.
type ChannelStats struct {
	Peers       int    // pairs of hosts that something is known of
	Links       int    // connections that channels may use
	Connected   uint64 // connections that this side has made
	Channels    int    // initiators that are connected, or about to be
	Asks        uint64 // questions whether queue pairs are alive, one for all of a peer
	ControlSent uint64 // control messages
	Resumed     uint64 // channels that went on by another connection
	Repeated    uint64 // messages sent again because the peer had not got them
}

// ChannelStats takes a snapshot.
func (t *Transport) ChannelStats() ChannelStats {
	s := ChannelStats{Connected: t.dev.Stats().Connected, Asks: t.stats.asks.Load(), ControlSent: t.stats.controlSent.Load(), Resumed: t.stats.resumed.Load(), Repeated: t.stats.repeated.Load()}
	for _, p := range t.allPeers() {
		s.Peers++
		s.Channels += len(p.allChannels())
		p.mu.Lock()
		if p.mux != nil {
			s.Links++
		}
		p.mu.Unlock()
	}
	return s
}
