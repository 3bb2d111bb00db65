package mr

import (
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"
)

// offenders attributes bad keys to the peers that send them, in bounded room
// and with bounded logging. Readers note them between sections.
type offenders struct {
	config *Config

	mu sync.Mutex
	// Under mu.
	peers map[netip.Addr]*offender
}

type offender struct {
	total    uint64
	unlogged uint64
	logged   time.Time
}

func (o *offenders) init(c *Config) {
	o.config = c
	o.peers = make(map[netip.Addr]*offender)
}

func (o *offenders) note(peer netip.Addr, f Fault, n uint64) {
	now := time.Now()
	o.mu.Lock()
	e := o.peers[peer]
	if e == nil {
		if len(o.peers) >= o.config.Peers {
			peer = netip.Addr{}
			e = o.peers[peer]
		}
		if e == nil {
			e = new(offender)
			o.peers[peer] = e
		}
	}
	e.total += n
	e.unlogged += n
	count := uint64(0)
	if now.Sub(e.logged) >= o.config.LogInterval {
		count, e.unlogged, e.logged = e.unlogged, 0, now
	}
	o.mu.Unlock()
	if count > 0 {
		text, _ := peer.MarshalText()
		o.config.Logger.Warn("bad keys", zap.ByteString("peer", text), zap.String("last", f.Error()), zap.Uint64("count", count))
	}
}

func (o *offenders) snapshot() map[netip.Addr]uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	m := make(map[netip.Addr]uint64, len(o.peers))
	for a, e := range o.peers {
		m[a] = e.total
	}
	return m
}
