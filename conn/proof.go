package conn

import (
	"math"
	"time"

	"github.com/rds-go/rds/internal/wire"
)

// What the transport acknowledges counts when the peer's RDS has shown that it has it. The first word on a
// link shows that the peer has taken the link. Where the acknowledgements are those of a peer's TCP that
// is not enough: Linux speaks before it reads what had come until it accepted
// (net/rds/threads.c, rds_connect_path_complete: cp_send_w, then cp_recv_w), and throws that away if the link
// is lost in between. It reads all there is when more comes (net/rds/tcp_recv.c, rds_tcp_data_ready): so
// the acknowledgement of something written behind the first word has those of all before count. If there is
// nothing else that is a probe.

// ByTCP says that acknowledgements on path i's new link are those of the peer's TCP, and that only
// probes tell what the peer takes: it cannot refuse a message. It comes before the first Fill for the link.
func (c *Conn) ByTCP(i int) {
	p := &c.paths[i]
	p.unread, p.mute = true, true
}

// Proved says that something arrived on path i's link: the peer's RDS has it. Only then does the
// back-off start over and do acknowledgements count, at once or when the peer has read,
// so that a peer that accepts and closes at once costs neither data nor a storm, nor does one
// whose dial timed out just when we accepted it. Operations begin from then on.
func (c *Conn) Proved(now time.Time, i int) {
	p := &c.paths[i]
	if p.state != Up || p.proved {
		return
	}
	waits := c.opWaits(p, p.q.next)
	p.proved, p.proveBy, p.window = true, time.Time{}, 0
	c.settleAcked(p)
	if waits {
		c.act(Action{Kind: Transmit, Path: i})
	}
	if p.unread {
		p.unreadTo = math.MaxUint64
		if !p.filling { // else what is being written may have come before the peer's word: Wrote knows how much it is
			c.mark(p)
		}
	}
	c.dialNext(now)
}

// mark has what is acknowledged behind what p's link has taken by now show that the peer has read that.
func (c *Conn) mark(p *path) {
	p.unreadTo = p.written
	if p.probe = p.probe || p.probeAt.IsZero(); p.probe { // else it is repeated
		c.act(Action{Kind: Transmit, Path: p.index})
	}
}

// answersProbe has the answer to a probe on p's link show that the peer has read what had come. What
// Linux answers may be to a probe of an earlier link: it states no generation, and is probed again.
func (c *Conn) answersProbe(p *path, generation uint32) {
	switch {
	case !p.unread || p.answers == 0:
	case generation != 0:
		p.unread = false
		c.settleAcked(p)
	case p.written <= p.unreadTo:
		p.probe = true
		c.act(Action{Kind: Transmit, Path: p.index})
	}
}

// Introduced tells whether path i has no link that is still to carry to the peer what makes
// acknowledgements count there: the first message, the congestion map, and answers to its probes.
func (c *Conn) Introduced(i int) bool {
	p := &c.paths[i]
	if p.state != Up {
		return true
	}
	for pos := p.q.next; pos < p.q.tail; pos++ {
		if p.q.at(pos).flags&entryPong != 0 {
			return false
		}
	}
	return p.written >= wire.HeaderSize+wire.CongestionMapSize
}
