package rds

import (
	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/transport"
)

// hold takes what the link of path i says: applications of the peer have no room for
// messages to these ports, or have again.
func (p *peer) hold(i int, id conn.LinkID, ports []uint16, on bool) {
	p.mu.Lock()
	if p.path[i].id != id {
		p.unlock(nil)
		return
	}
	news := p.holdLocked(i, ports, on)
	p.armLocked()
	p.unlock(nil)
	if news {
		p.node.mapNews()
	}
}

// holdLocked notes what path i says of ports, of all that it has named if ports is nil.
// A port is held as long as some path says so: each tells the end of what it has told.
// It returns whether senders are to hear of it.
func (p *peer) holdLocked(i int, ports []uint16, on bool) (news bool) {
	bit := uint8(1) << i
	if ports == nil {
		for port, by := range p.holds {
			if by&bit != 0 {
				ports = append(ports, port)
			}
		}
	}
	turned := ports[:0:0]
	for _, port := range ports {
		was := p.holds[port]
		by := was &^ bit
		if on {
			by |= bit
		}
		switch {
		case by == 0:
			delete(p.holds, port)
		case by != was:
			if p.holds == nil {
				p.holds = make(map[uint16]uint8)
			}
			p.holds[port] = by
		}
		if (by == 0) != (was == 0) {
			turned = append(turned, port)
		}
	}
	if len(p.holds) == 0 {
		p.holds = nil
	}
	if len(turned) > 0 {
		p.core.Hold(turned, on)
	}
	return len(turned) > 0
}

// forgetSorter has attached applications forget a link that has ended.
func (n *Node) forgetSorter(l transport.Link) {
	svc := n.service.Load()
	if svc == nil {
		return
	}
	for _, x := range svc.all() {
		x.queue.forget(l)
	}
}
