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
	swept time.Time
}

type offender struct {
	total    uint64
	unlogged uint64
	logged   time.Time
	last     time.Time
}

func (o *offenders) init(c *Config) {
	o.config = c
	o.peers = make(map[netip.Addr]*offender)
}

func (o *offenders) note(peer netip.Addr, f Fault, n uint64) {
	now := time.Now()
	o.mu.Lock()
	e := o.entryLocked(&peer, now)
	e.total += n
	e.unlogged += n
	e.last = now
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

// entryLocked finds or makes the entry of a peer. When there is no room, peers
// that were quiet for an interval give theirs up, but no more often than
// that; what still has no room goes to the zero address.
func (o *offenders) entryLocked(peer *netip.Addr, now time.Time) *offender {
	if e := o.peers[*peer]; e != nil {
		return e
	}
	if len(o.peers) >= o.config.Peers && now.Sub(o.swept) >= o.config.LogInterval {
		o.swept = now
		var gone uint64
		for a, e := range o.peers {
			if now.Sub(e.last) >= o.config.LogInterval {
				gone += e.total
				delete(o.peers, a)
			}
		}
		if gone > 0 {
			o.othersLocked().total += gone
		}
	}
	if len(o.peers) >= o.config.Peers {
		*peer = netip.Addr{}
		return o.othersLocked()
	}
	e := new(offender)
	o.peers[*peer] = e
	return e
}

func (o *offenders) othersLocked() *offender {
	e := o.peers[netip.Addr{}]
	if e == nil {
		e = new(offender)
		o.peers[netip.Addr{}] = e
	}
	return e
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
