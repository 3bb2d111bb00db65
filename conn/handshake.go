package conn

import (
	"time"

	"github.com/rds-go/rds/internal/wire"
)

// HandleControl takes a message for which IsControl is true, which arrived on
// path i (net/rds/recv.c, rds_recv_incoming). The caller then tells
// Inbound.State what Stated says.
func (c *Conn) HandleControl(now time.Time, i int, h *wire.Header, payload []byte) {
	p := &c.paths[i]
	switch {
	case c.closed:
	case h.IsCongestion():
		// A path that is not in use may have a link of the peer's last process, whose map comes
		// behind those of the present one, before it tells whose it is.
		if len(payload) == wire.CongestionMapSize && (i < c.used() || p.told) {
			c.hearMap((*wire.CongestionMap)(payload))
			c.mapped = true
			c.maps++
			c.stats.CongUpdateReceived++
			c.act(Action{Kind: WakeAll})
		}
	case h.Dport == wire.PortProbe:
		if !h.Retransmitted() {
			c.answered(p) // before the handshake is judged, which may dial
		}
		hs := wire.ParseHandshake(&h.Extensions)
		c.answersProbe(p, hs.Generation)
		c.handshake(now, p, hs)
	case h.Sport == wire.PortHost: // an acknowledgement frame of InfiniBand, meaningless here
	default:
		c.stats.RecvPing++
		if !c.cfg.IgnorePings {
			c.pong(now, p, h.Sport)
		}
		if h.Sport == wire.PortProbe {
			c.handshake(now, p, wire.ParseHandshake(&h.Extensions))
		}
	}
}

// pong queues the answer to a ping from port on the path it came on
// (net/rds/send.c, rds_send_pong).
func (c *Conn) pong(now time.Time, p *path, port uint16) {
	switch {
	case c.stopped(port):
		c.stats.CongSendError++
		return
	case p.pongs >= c.cfg.MaxPongs:
		c.stats.PongsDropped++
		return
	}
	c.stats.SendPong++
	p.pongs++
	c.push(p, &Message{Sport: wire.PortHost, Dport: port}, entryPong)
	if port == wire.PortProbe {
		e := p.q.at(p.q.tail - 1)
		area := e.chunk.b.B[int(e.off)+32:][:wire.ExtensionSize]
		c.ourHandshake().Put((*[wire.ExtensionSize]byte)(area))
	}
	if p.state == Up {
		c.act(Action{Kind: Transmit, Path: p.index})
	} else {
		c.wantLink(now, p)
	}
}

func (c *Conn) ourHandshake() wire.Handshake {
	return wire.Handshake{HasPaths: true, Paths: uint16(c.cfg.Paths), Generation: c.cfg.Generation, SourceIndex: c.cfg.Paths > 1, Limit: c.cfg.Limit}
}

// encodeProbe is a probe for path p. Every link carries one: it settles the
// number of paths, tells the peer our generation, and its pong proves that the
// peer's RDS took the link.
func (c *Conn) encodeProbe(p *path) []byte {
	h := wire.Header{Sequence: p.sequence, Sport: wire.PortProbe, Dport: wire.PortHost}
	c.ourHandshake().Put(&h.Extensions)
	p.sequence++
	p.probes++
	if p.index == 0 && c.barrier > 0 && c.fence == 0 && p.q.next >= c.barrier {
		c.fence = p.probes
	}
	c.stats.SendPong++
	return h.AppendTo(make([]byte, 0, wire.HeaderSize))
}

// encodeMap is our congestion map as a message.
func (c *Conn) encodeMap(p *path) []byte {
	if p.mapBuf == nil {
		p.mapBuf = make([]byte, wire.HeaderSize+wire.CongestionMapSize)
	}
	h := wire.Header{Length: wire.CongestionMapSize, Flags: wire.FlagCongestion}
	h.Put(p.mapBuf)
	c.cfg.LocalMap((*wire.CongestionMap)(p.mapBuf[wire.HeaderSize:]))
	return p.mapBuf
}

func markRetransmitted(e *entry) { wire.MarkRetransmitted(e.chunk.b.B[e.off:]) }

// handshake takes what a probe or its pong on p says of the peer.
func (c *Conn) handshake(now time.Time, p *path, hs wire.Handshake) {
	p.tell(hs.Generation)
	if c.claims(now, p, hs) || !c.generation(p, hs.Generation) {
		return
	}
	c.believe(p, hs)
	c.takes(p, hs.Limit)
	if p.strays(hs) {
		c.endLink(p)
	}
	defer c.grantClaims(now)
	n := c.npaths
	switch {
	case hs.HasPaths:
		c.multipath = hs.Paths > 1
		n = max(1, min(int(hs.Paths), c.cfg.Paths))
	case n == 0:
		n = 1
	}
	indexed := c.indexed()
	c.sourceIndex = hs.SourceIndex || hs.Generation != 0 && hs.Paths > 1 // Linux 6.1 states neither
	old := c.npaths
	c.npaths = n
	c.reindex(now, indexed)
	switch {
	case n > max(1, old) && (c.early || old > 0):
		c.setBarrier(now)
	case n == 1 && c.barrier > 0:
		c.barrier = 0
		c.reshelve()
	}
	if n > max(1, old) {
		c.spread()
	}
	if old == 0 {
		c.placeHeld(now)
	}
	for i := n; i < max(1, old); i++ {
		c.migrate(&c.paths[i])
	}
	c.dialNext(now)
}

// tell notes the first statement of the peer's generation on p's link.
func (p *path) tell(g uint32) {
	if !p.told {
		p.told, p.toldGen = true, g
	}
}

// Stated is the generation that the peer has stated on path i's link, 0 if it has stated
// none; ok is false as long as it has said nothing. Inbound.State wants to know.
func (c *Conn) Stated(i int) (generation uint32, ok bool) {
	p := &c.paths[i]
	return p.toldGen, p.told
}

// generation takes the peer's generation as told on p, 0 if it was not. It returns false
// if we have dialed a later link, which has told another one.
func (c *Conn) generation(p *path, g uint32) bool {
	if g == 0 || g == c.theirGen {
		return true
	}
	if p.born < c.genBorn && c.connector() {
		return false
	}
	if c.theirGen != 0 {
		c.newGeneration()
	}
	c.theirGen, c.genBorn = g, p.born
	return true
}

// newGeneration is the peer's restart (net/rds/recv.c,
// rds_recv_hs_exthdrs): what we had sent to the old incarnation and it did not
// acknowledge is not repeated to the new one once the present link is lost,
// and what the new one sends starts over. Our own numbers go on: they were
// time-derived and are above all it can have seen.
func (c *Conn) newGeneration() {
	c.stats.Generations++
	c.epoch++
	for i := range c.paths {
		q := &c.paths[i].q
		for pos := q.first; pos < q.fresh; pos++ {
			if e := q.at(pos); e.flags&entryWritten != 0 {
				e.flags |= entryFlush
			}
		}
	}
}

// migrate moves what a path that is no longer used has not begun on any link to
// path 0, as new messages. What an earlier link has carried is not repeated: the
// peer may have it, and could not tell by path 0's numbers. What a write under way
// may carry follows after Wrote.
func (c *Conn) migrate(p *path) {
	q := &p.q
	from := q.first
	if p.link != 0 {
		from = q.next
		if p.nextOff > 0 || p.bound {
			from++
		}
	}
	if p.filling {
		from = max(from, q.fresh)
	}
	c.unshelveAll(p)
	c.settle(p, from, q.tail, func(e *entry) (Status, bool) {
		switch {
		case e.flags&entryCanceled != 0:
			return Canceled, true
		case e.flags&entryWritten != 0:
			c.stats.DroppedFlush++
			return Dropped, true
		}
		return 0, false
	})
	if from = max(from, q.first); from == q.tail { // all have ended, and first has passed them
		return
	}
	to := &c.paths[0]
	p.log.part()
	for pos := from; pos < q.tail; pos++ {
		e := q.at(pos)
		if e.flags&entryLimited == 0 {
			e.seq = 0
		}
		e.flags &^= entryWritten | entryRetrans | entryRefused | entryUnknown | entryLong
		e.chunk.b.B[e.off+24] &^= wire.FlagRetransmitted
		if e.flags&entryPong != 0 {
			markRetransmitted(e) // so that the peer does not take this pong for the answer to path 0's probe
			p.pongs--
			to.pongs++
		}
		q.unsent -= e.size()
		if c.stopped(e.dport) {
			c.aside(to, e)
		} else {
			to.q.unsent += e.size()
			*to.q.push() = *e
			if e.flags&entryOp != 0 {
				op := c.ops[e.token]
				op.path, op.pos = to.index, to.q.tail-1
			}
		}
		*e = entry{}
	}
	q.tail = from
	q.fresh, q.next = min(q.fresh, from), min(q.next, from)
	if to.state == Up {
		c.act(Action{Kind: Transmit, Path: 0})
	} else {
		c.wantLink(time.Time{}, to)
	}
}

// A link on which no probe was ever answered is probed again, a few times, at
// growing intervals. Seen with Linux 6.1 when both sides connect at once: its
// path is up with a pong and messages queued, and its send worker asleep, for
// good. The next ping that arrives wakes it.
const (
	probeFirst = time.Second
	probeLast  = 16 * time.Second
)

func (c *Conn) probeAgain(now time.Time) {
	for i := range c.paths {
		p := &c.paths[i]
		if p.state != Up || p.probeAt.IsZero() || p.probeAt.After(now) {
			continue
		}
		if p.probeWait *= 2; p.probeWait > probeLast {
			p.probeAt = time.Time{}
			if !p.proved || !p.unread || p.written > p.unreadTo {
				continue
			}
		} else {
			p.probeAt = now.Add(p.probeWait)
		}
		p.probe = true
		c.act(Action{Kind: Transmit, Path: i})
	}
}
