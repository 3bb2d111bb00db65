package node

import (
	"math/rand/v2"
	"net/netip"
	"sync/atomic"

	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/internal/statefile"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/rds/datagram"
)

// Local is one of a node's addresses: the sockets bound to it and its
// congestion map.
type Local struct {
	Addr netip.Addr

	listens atomic.Bool // links can arrive; false while the node begins to listen on the address

	// pages hold the bound sockets, port by port, so that the receive path
	// finds one with two loads and no lock.
	pages [256]atomic.Pointer[portPage]

	file *statefile.File // nil: there is no state file

	expecting atomic.Int32 // number of ports in expect
	Leaving   atomic.Bool  // the node stops: no port takes messages

	waiters waiters // receivers that wait for a socket here

	Mu      lockorder.Mutex[Local]      // guards the fields below; held for bind and unbind
	cong    *wire.CongestionMap         // nil: no bit was ever set; a node may have thousands of addresses
	peers   []*Peer                     // connections of this address, for map updates
	expect  map[uint16]*statefile.Owner // ports of the predecessor that nobody has bound yet, with those who had them
	Keepers map[uint16]*Socket          // sockets that stand in for expected ports once a message has come for them

	full fullPorts
}

type portPage [256]atomic.Pointer[Socket]

func (l *Local) lookup(port uint16) *Socket {
	pg := l.pages[port>>8].Load()
	if pg == nil {
		return nil
	}
	return pg[port&255].Load()
}

// bind gives s the port, or a free one for port 0: a random start, then
// upward, skipping 0 and 1 (net/rds/bind.c, rds_add_bound), and ports that are
// expected. o is whose socket it is, nil: this process's. It returns how many ports are
// expected no longer: what has come for the port is in s's queue then.
func (l *Local) bind(s *Socket, port uint16, o *statefile.Owner) (met int, err error) {
	k := l.lockKeeper(port)
	if k != nil {
		defer l.waiters.ended(k) // links that waited for room in the keeper look the port up again and find s
		defer k.Queue.Mu.Unlock()
	}
	defer l.Mu.Unlock()
	switch {
	case port == wire.PortProbe:
		return 0, datagram.ErrInvalid
	case port != 0:
		if l.lookup(port) != nil {
			return 0, datagram.ErrAddressInUse
		}
		if had, ok := l.expect[port]; ok && !s.Node.Succession.yields(had, o) {
			return 0, errKept
		}
	default:
		start := uint16(2 + rand.IntN(65534))
		for port = start; port < 2 || l.lookup(port) != nil || l.expectedLocked(port); {
			if port++; port == start {
				return 0, datagram.ErrAddressInUse
			}
		}
	}
	if k != nil {
		s.inherit(k)
	}
	pg := l.pages[port>>8].Load()
	if pg == nil {
		pg = new(portPage)
		l.pages[port>>8].Store(pg)
	}
	s.Port = port // before receivers can find s
	pg[port&255].Store(s)
	met = l.meetLocked(port) // after s can be found: until then receivers look for a keeper
	if l.file != nil {
		l.file.Hold(l.Addr, port, o)
	}
	return met, nil
}

// unbind frees a port. A successor expects it if keep is set.
func (l *Local) unbind(port uint16, keep bool) {
	l.Mu.Lock()
	l.pages[port>>8].Load()[port&255].Store(nil)
	if l.file != nil && !keep {
		l.file.Free(l.Addr, port)
	}
	l.Mu.Unlock()
}

// mark brings the congestion bit of a socket's port in line with
// s.congested and tells every peer if the map has changed (net/rds/cong.c,
// rds_cong_queue_updates). It looks at the flag under the lock: of two
// changes at once the later one counts, in whatever order they get here. The
// bit is that of the socket which has the port now: s may have been closed.
func (l *Local) mark(s *Socket) {
	l.Mu.Lock()
	var changed bool
	if now := l.lookup(s.Port); now != nil && now.Congested.Load() {
		if l.cong == nil {
			l.cong = new(wire.CongestionMap)
		}
		changed = l.cong.Set(s.Port)
	} else if l.cong != nil {
		changed = l.cong.Clear(s.Port)
	}
	l.Mu.Unlock()
	if changed {
		l.Announce(s.Node)
	}
}

// Announce tells every peer the congestion map.
func (l *Local) Announce(n *Node) {
	l.Mu.Lock()
	peers := l.peers
	l.Mu.Unlock()
	n.Counters.congUpdateQueued.Add(uint64(len(peers)))
	for _, p := range peers {
		p.Lock()
		p.Core.MapChanged()
		p.Commit()
	}
}

// copyMap is conn.Config.LocalMap. Pings, to port 0, are answered to the end.
func (l *Local) copyMap(m *wire.CongestionMap) {
	if l.Leaving.Load() {
		for i := range m {
			m[i] = 0xff
		}
		m.Clear(wire.PortHost)
		m.Clear(wire.PortProbe)
		return
	}
	l.Mu.Lock()
	*m = wire.CongestionMap{}
	if l.cong != nil {
		*m = *l.cong
	}
	for port := range l.expect {
		m.Set(port)
	}
	l.Mu.Unlock()
}
