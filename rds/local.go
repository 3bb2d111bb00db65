package rds

import (
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/rds-go/rds/internal/wire"
)

// localAddr is one of a node's addresses: the sockets bound to it and its
// congestion map.
type localAddr struct {
	addr netip.Addr

	// pages hold the bound sockets, port by port, so that the receive path
	// finds one with two loads and no lock.
	pages [256]atomic.Pointer[portPage]

	mu    sync.Mutex // bind, unbind, map and peers
	bound int
	cong  wire.CongestionMap
	peers []*peer // connections of this address, for map updates
}

type portPage [256]atomic.Pointer[nodeSocket]

func (l *localAddr) lookup(port uint16) *nodeSocket {
	pg := l.pages[port>>8].Load()
	if pg == nil {
		return nil
	}
	return pg[port&255].Load()
}

// bind gives s the port, or a free one for port 0: a random start, then
// upward, skipping 0 and 1 (net/rds/bind.c, rds_add_bound).
func (l *localAddr) bind(s *nodeSocket, port uint16) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case port == wire.PortProbe:
		return ErrInvalid
	case port != 0:
		if l.lookup(port) != nil {
			return ErrAddressInUse
		}
	default:
		start := uint16(2 + rand.IntN(65534))
		for port = start; port < 2 || l.lookup(port) != nil; {
			if port++; port == start {
				return ErrAddressInUse
			}
		}
	}
	pg := l.pages[port>>8].Load()
	if pg == nil {
		pg = new(portPage)
		l.pages[port>>8].Store(pg)
	}
	s.port = port // before receivers can find s
	pg[port&255].Store(s)
	l.bound++
	return nil
}

func (l *localAddr) unbind(port uint16) {
	l.mu.Lock()
	l.pages[port>>8].Load()[port&255].Store(nil)
	l.bound--
	l.mu.Unlock()
}

// mark brings the congestion bit of a socket's port in line with
// s.congested and tells every peer if the map has changed (net/rds/cong.c,
// rds_cong_queue_updates). It looks at the flag under the lock: of two
// changes at once the later one counts, in whatever order they get here. The
// bit is that of the socket which has the port now: s may have been closed.
func (l *localAddr) mark(s *nodeSocket) {
	l.mu.Lock()
	var changed bool
	if now := l.lookup(s.port); now != nil && now.congested.Load() {
		changed = l.cong.Set(s.port)
	} else {
		changed = l.cong.Clear(s.port)
	}
	peers := l.peers
	l.mu.Unlock()
	if !changed {
		return
	}
	s.node.counters.congUpdateQueued.Add(uint64(len(peers)))
	for _, p := range peers {
		p.mu.Lock()
		p.core.MapChanged()
		p.unlock(nil)
	}
}

// copyMap is conn.Config.LocalMap.
func (l *localAddr) copyMap(m *wire.CongestionMap) {
	l.mu.Lock()
	*m = l.cong
	l.mu.Unlock()
}
