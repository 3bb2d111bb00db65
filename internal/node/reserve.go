package node

import (
	"maps"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

// Credit on XRC is a reservation: a peer's node grants octets before they are sent
// (transport.Link.Claim), and all that it has granted and not received is never more than
// config.Node.ReceiveOverrun. So what can still arrive for a socket that is full is bounded:
// the node tells each link that the port is full before it grants anything more, and the
// sender, which gives a message its sequence number only with the octets for it in hand,
// holds back what it has not numbered (conn.Conn.Hold). Nothing is dropped and nothing
// pauses.

// fullPorts is what the links of an address were told of its ports.
type fullPorts struct {
	mu lockorder.Mutex[fullPorts] // guards links; locked before Local.Mu and the locks of links
	// links has, for each link, the ports that have no room, and how many octets the peer
	// had been granted when it was told.
	links map[transport.Link]map[uint16]uint64
}

// setCongested notes whether a socket has no room, and tells all links: what they grant
// after it returns is not for the socket. It tells whether that is a change. Whoever finds
// the change made waits until the links have been told.
func (s *Socket) setCongested(on bool) (changed bool) {
	f := &s.At.full
	f.mu.Lock()
	defer f.mu.Unlock()
	if on && !s.Congested.Load() {
		s.congestedAt.Store(time.Now().UnixNano()) // before reports see congested
	}
	if s.Congested.Swap(on) == on {
		return false
	}
	s.At.tellFullLocked(s.Port)
	return true
}

// isFull tells whether the socket of a port has no room, or is yet to come.
func (l *Local) isFull(port uint16) bool {
	if s := l.lookup(port); s != nil {
		return s.Congested.Load()
	}
	return l.expected(port)
}

// expectFewer tells all links which ports are not expected any more.
func (l *Local) expectFewer() {
	l.full.mu.Lock()
	defer l.full.mu.Unlock()
	for link, ports := range l.full.links {
		for port := range ports {
			if !l.isFull(port) {
				tellLink(link, ports, port, false)
			}
		}
	}
}

// tellFullLocked tells all links whether a port has room. The caller holds l.full.mu.
func (l *Local) tellFullLocked(port uint16) {
	on := l.isFull(port)
	for link, ports := range l.full.links {
		if _, told := ports[port]; told != on {
			tellLink(link, ports, port, on)
		}
	}
}

func tellLink(link transport.Link, ports map[uint16]uint64, port uint16, on bool) {
	granted, _ := link.Full(port, on)
	if on {
		ports[port] = granted
	} else {
		delete(ports, port)
	}
}

// join adds a link that is about to start, and tells it which ports have no room.
func (l *Local) join(link transport.Link) {
	f := &l.full
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.links == nil {
		f.links = make(map[transport.Link]map[uint16]uint64)
	}
	ports := make(map[uint16]uint64)
	f.links[link] = ports
	for hi := range l.pages {
		pg := l.pages[hi].Load()
		if pg == nil {
			continue
		}
		for lo := range pg {
			if s := pg[lo].Load(); s != nil && s.Congested.Load() {
				tellLink(link, ports, uint16(hi<<8|lo), true)
			}
		}
	}
	l.Mu.Lock()
	expected := maps.Clone(l.expect)
	l.Mu.Unlock()
	for port := range expected {
		tellLink(link, ports, port, true)
	}
}

// leave is for a link that has ended.
func (l *Local) leave(r transport.Link) {
	l.full.mu.Lock()
	delete(l.full.links, r)
	l.full.mu.Unlock()
}

// reserved tells whether a message of n bytes that passes the receive buffer and the
// overrun of the socket at hand is within what the peer was granted before it heard that
// the socket is full; it is then queued. Links that are cut have messages under way that
// are sent again, beside what others are granted by then, so that only beyond twice the
// bound a message is looked at: a peer that sends it although it has heard before it was
// granted the octets ignores what it is told, and its link ends.
func (k *sink) reserved(s *Socket, n int) bool {
	if !k.rx.Caps().Reserves {
		return false
	}
	bytes, count := s.Queue.Bytes.Load()+int64(k.curBytes+n), s.Queue.Count.Load()+int64(k.curCount)
	if bytes+count*socket.ItemCost <= 2*(s.ReceiveBuffer.Load()+k.peer.Node.Overrun()) {
		return true
	}
	f := &s.At.full
	f.mu.Lock()
	granted, full := f.links[k.rx.Link()][s.Port]
	f.mu.Unlock()
	// What other paths wait for is not held back, but counts against the peer's budget.
	if !full || k.rx.Link().Started() <= granted+uint64(k.early()) {
		return true
	}
	k.rx.Ignore()
	k.peer.log.Warn("peer sends to a full socket beyond its grant, connection ended",
		zap.Uint16("port", s.Port), zap.Int64("queued", s.Queue.Bytes.Load()))
	return true // this message has been counted as received; later ones have not
}

// early is how many octets more a peer with several paths may have to send to a full port:
// what its other paths wait for.
func (k *sink) early() int {
	if k.peer.Node.Config.Paths > 1 {
		return k.peer.Node.Config.PeerBudget
	}
	return 0
}

// Overrun is how many octets peers may have under way to the node on links that are
// that are granted octets: ReceiveOverrun, but at least the longest message.
func (n *Node) Overrun() int64 {
	return int64(max(n.Config.ReceiveOverrun, wire.HeaderSize+n.Config.MaxMessage))
}
