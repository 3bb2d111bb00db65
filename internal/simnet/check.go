package simnet

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/wire"
)

// maxBroken bounds what one run reports.
const maxBroken = 10

// checker knows what was promised.
type checker struct {
	s        *Sim
	messages []*message
	socks    []*sock
	broken   []string
	lossy    map[[2]*host]bool // Linux threw away what it had acknowledged
	usurped  map[[2]*host]bool // an impostor of the second host may have had what the first one sent
	tracks   map[trackKey]*pathTrack
}

type trackKey struct {
	p    *peer
	path int
}

// pathTrack is what a path has written, on all its links.
type pathTrack struct {
	highest uint64            // number of the last message that was new
	sent    map[uint64]uint64 // number to message
}

// writeTrack follows one outgoing stream.
type writeTrack struct {
	need int // bytes of the current message still to come
	last uint64
}

func (c *checker) failf(format string, args ...any) {
	if len(c.broken) < maxBroken {
		msg := fmt.Sprintf("%.6f: ", c.s.now.Seconds()) + fmt.Sprintf(format, args...)
		c.broken = append(c.broken, msg)
		c.s.tracef("BROKEN %s", msg)
	}
}

func (c *checker) accepted(m *message) {
	c.s.counts.Sent++
	m.toInc = m.route.to.incarnation
	if !m.route.to.down {
		m.target = m.route.to.socks[m.route.port]
	}
}

// fate is invariant 1: who asks is told once, and the truth.
func (c *checker) fate(f conn.Fate) {
	m := c.messages[f.Token-1]
	c.lengthFate(m, f.Status)
	switch {
	case f.Account != &m.from.acct:
		c.failf("%v: fate on the account of another socket", m)
	case m.toInc == 0 || !m.notify:
		c.failf("%v: nobody asked for its fate", m)
	case m.fated:
		c.failf("%v: fate %d after fate %d", m, f.Status, m.fate)
	case f.Status == conn.Refused && len(m.got) > 0:
		c.failf("%v: refused, and it was delivered", m)
	case f.Status == conn.Expired && m.shown:
		c.failf("%v: expired, and it was written", m)
	case f.Status == conn.Expired && (m.limit == 0 || m.limit > c.s.now):
		c.failf("%v: expired before its time", m)
	case f.Status == conn.Success && c.s.cfg.Scenario.Refusals && m.op == nil && len(m.got) == 0:
		c.failf("%v: told success, and nobody has got it", m)
	case m.op != nil && f.Status != conn.Canceled:
		c.operated(m.op, f.Status)
	case f.Status == conn.Canceled && !m.cancels:
		c.failf("%v: canceled by nobody", m)
	case f.Status == conn.Dropped && m.route.to.incarnation == 1 && m.size <= m.route.to.longest && !m.abandoned && !c.usurped[[2]*host{m.from.h, m.route.to}]:
		c.failf("%v: dropped, and its peer never restarted", m)
	}
	m.fated, m.fate = true, f.Status
	switch f.Status {
	case conn.Dropped:
		c.s.counts.Dropped++
	case conn.Refused:
		c.s.counts.Refused++
	case conn.Expired:
		c.s.counts.Expired++
	}
}

// delivered is invariants 1, 2 and 3 on the receiving side.
func (c *checker) delivered(k *sock, p *peer, payload []byte) {
	c.s.counts.Delivered++
	if len(payload) < 8 {
		c.failf("%v: %d bytes from nowhere", k, len(payload))
		return
	}
	id := binary.BigEndian.Uint64(payload)
	if id == 0 || id > uint64(len(c.messages)) {
		c.failf("%v: unknown message %d", k, id)
		return
	}
	m := c.messages[id-1]
	if c.s.cfg.Scenario.Impostors && c.s.calm && c.s.now > c.s.calmAt+recoverTime {
		c.failf("%v delivered %v after the last impostor has come", m, c.s.now-c.s.calmAt)
	}
	switch {
	case m.toInc == 0:
		c.failf("%v delivered to %v, never accepted", m, k)
	case m.fated && (m.fate == conn.Refused || m.fate == conn.Expired || m.fate == conn.TooLong):
		c.failf("%v delivered to %v, and its sender was told %v", m, k, m.fate)
	case m.from.h != p.remote || m.route != (route{k.h, k.port}):
		c.failf("%v delivered to %v", m, k)
	case !m.intact(payload):
		c.failf("%v: damaged on its way to %v", m, k)
	case slices.Contains(m.got, k):
		if !c.excused(m) {
			c.failf("%v delivered twice to %v", m, k)
		}
	case k.last[m.from] >= m.n:
		// What was being written to a process with more paths, since replaced, or while
		// an impostor had stated one path, comes after what was sent later on path 0.
		lowered := k.inc > 1 && k.h.paths < m.from.h.paths || c.usurped[[2]*host{m.from.h, k.h}]
		if !lowered && !c.excused(m) {
			c.failf("%v delivered to %v after number %d", m, k, k.last[m.from])
		}
	}
	m.got = append(m.got, k)
	k.last[m.from] = max(k.last[m.from], m.n)
}

// excused tells whether Linux 6.1 itself breaks the promise for this message.
func (c *checker) excused(m *message) bool {
	from, to := m.from.h, m.route.to
	if c.lossy[[2]*host{from, to}] {
		return true
	}
	if !from.linux && !to.linux {
		return false
	}
	// Without source ports, paths that come back at the same time may be
	// swapped; a restart is only noticed by numbers that go back.
	return from.paths > 1 && to.paths > 1 || from.linux && from.incarnation > 1 || to.linux && to.incarnation > 1
}

// discarded notes that an end threw away bytes its TCP had acknowledged.
func (c *checker) discarded(e *end) {
	if e.host.linux && e.started {
		c.lossy[[2]*host{e.other.host, e.host}] = true
	}
}

// wrote is invariant 3 on the sending side: n bytes of the batch b were taken.
func (c *checker) wrote(e *end, b []byte, n int) {
	t := &e.track
	for pos := 0; pos < n; {
		if t.need == 0 {
			var h wire.Header
			if h.Decode(b[pos:]) != nil || len(b) < pos+wire.HeaderSize+int(h.Length) {
				c.failf("tcp%d path %d: a batch ends inside a message", e.t.id, e.path)
				return
			}
			t.need = wire.HeaderSize + int(h.Length)
			c.began(e, &h, b[pos+wire.HeaderSize:][:h.Length])
		}
		k := min(t.need, n-pos)
		t.need -= k
		pos += k
	}
}

// picked notes the messages of a write under way, which a cancel comes too
// late for.
func (c *checker) picked(p *peer) {
	for i := range conn.MaxPaths {
		if e := p.end(i); e != nil && e.sending != nil {
			e.each(func(m *message) { m.begun = true })
		}
	}
}

// began judges the number and the flag of a message of which e writes the
// first byte.
func (c *checker) began(e *end, h *wire.Header, payload []byte) {
	where := fmt.Sprintf("%v->%v path %d tcp%d seq %d flags %x", e.host, e.other.host, e.path, e.t.id, h.Sequence, h.Flags)
	if h.IsCongestion() {
		if h.Sequence != 0 || h.Length != wire.CongestionMapSize {
			c.failf("%s: malformed congestion map", where)
		}
		return
	}
	key := trackKey{e.p, e.path}
	t := c.tracks[key]
	if t == nil {
		t = &pathTrack{sent: map[uint64]uint64{}}
		c.tracks[key] = t
	}
	var id uint64
	if len(payload) >= 8 {
		id = binary.BigEndian.Uint64(payload)
		m := c.messages[id-1]
		switch {
		case m.fated && m.fate != conn.Canceled && !(m.abandoned && m.begun):
			c.failf("%s: %v written after its end", where, m)
		case m.fated && !m.begun:
			c.failf("%s: %v begun after it was canceled", where, m)
		}
		m.begun = true
		if m.op != nil {
			c.behind(m.op, h.Retransmitted())
		}
	}
	if h.Sequence <= e.track.last {
		c.failf("%s: after number %d on the same link", where, e.track.last)
	}
	e.track.last = h.Sequence
	old, again := t.sent[h.Sequence]
	switch {
	case h.Retransmitted(): // a pong that an earlier link owed is flagged too
		c.s.counts.Retransmitted++
		if stalePong := h.Sport == wire.PortHost && !again; !stalePong && (!again || old != id) {
			c.failf("%s: flagged, and message %d was not written with this number before", where, id)
		}
	case again:
		c.failf("%s: written again without the flag", where)
	case h.Sequence <= t.highest:
		c.failf("%s: new, and numbered below %d", where, t.highest)
	}
	t.sent[h.Sequence] = id
	t.highest = max(t.highest, h.Sequence)
}

// maxDials is how often a connection may dial in one second.
const maxDials = 120

// dialed watches for storms.
func (c *checker) dialed(p *peer) {
	p.dials = append(p.dials, c.s.now)
	for c.s.now-p.dials[0] > time.Second {
		p.dials = p.dials[1:]
	}
	if len(p.dials) > maxDials {
		c.failf("%v->%v dialed %d times in a second", p.h, p.remote, len(p.dials))
		p.dials = p.dials[:1]
	}
}

// linkClosed checks that a link ends once and that its peer's acknowledgement
// was not ahead.
func (c *checker) linkClosed(e *end, acked uint64) {
	if acked > e.written {
		c.failf("tcp%d: acknowledged %d of %d", e.t.id, acked, e.written)
	}
}

// closedCore checks a core after Close: nothing is left but what a write under
// way needs.
func (c *checker) closedCore(p *peer) {
	for i := range conn.MaxPaths {
		if e := p.end(i); e != nil && e.sending != nil {
			return
		}
	}
	if q := p.Core.Queued(); q != 0 {
		c.failf("%v->%v: %d bytes queued after Close", p.h, p.remote, q)
	}
}

// hostDied excuses what a dead host had promised.
func (c *checker) hostDied(h *host) {
	for _, m := range c.messages {
		if m.from.h == h {
			m.cancels = true
		}
	}
}
