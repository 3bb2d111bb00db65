package driver

import "github.com/rds-go/rds/conn"

// hold takes what the link of path i says: applications of the peer have no room for
// messages to these ports, or have again.
func (d *Driver) hold(i int, id conn.LinkID, ports []uint16, on bool) {
	d.mu.Lock()
	if d.path[i].id != id {
		d.release(nil)
		return
	}
	news := d.holdLocked(i, ports, on)
	d.armLocked()
	d.release(nil)
	if news {
		d.owner.PortsChanged()
	}
}

// holdLocked notes what path i says of ports, of all that it has named if ports is nil.
// A port is held as long as some path says so: each tells the end of what it has told.
// It returns whether senders are to hear of it.
func (d *Driver) holdLocked(i int, ports []uint16, on bool) (news bool) {
	bit := uint8(1) << i
	if ports == nil {
		for port, by := range d.holds {
			if by&bit != 0 {
				ports = append(ports, port)
			}
		}
	}
	turned := ports[:0:0]
	for _, port := range ports {
		was := d.holds[port]
		by := was &^ bit
		if on {
			by |= bit
		}
		switch {
		case by == 0:
			delete(d.holds, port)
		case by != was:
			if d.holds == nil {
				d.holds = make(map[uint16]uint8)
			}
			d.holds[port] = by
		}
		if (by == 0) != (was == 0) {
			turned = append(turned, port)
		}
	}
	if len(d.holds) == 0 {
		d.holds = nil
	}
	if len(turned) > 0 {
		d.Core.Hold(turned, on)
	}
	return len(turned) > 0
}
