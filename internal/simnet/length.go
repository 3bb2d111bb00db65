package simnet

import (
	"slices"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/wire"
)

// Hosts take messages of different lengths (Scenario.Lengths), and what a host takes changes with its
// process. An old host is of a version that says nothing of it, hears nothing, and takes everything.

// lengths are the longest payloads that hosts take.
var lengths = []int{8 << 10, 12 << 10, 33_000, wire.MaxPayload}

// drawLength is for a new process.
func (h *host) drawLength() {
	h.longest = wire.MaxPayload
	if h.s.cfg.Scenario.Lengths && !h.old && !h.linux {
		h.longest = pick(h.s, lengths)
	}
	h.longest = wire.LimitOf(h.longest).Octets()
	h.longests = append(h.longests, h.longest)
}

// states is what the host's process says that it takes.
func (h *host) states() wire.Limit {
	if h.s.rigged(ForgetLengths, 1) || h.old || h.linux || h.longest == wire.MaxPayload {
		return 0
	}
	return wire.LimitOf(h.longest)
}

// knowsOf is the longest payload that the host has to send to another one, as that has said.
func (h *host) knowsOf(to *host) int {
	if h.old || to.states() == 0 {
		return wire.MaxPayload
	}
	return to.longest
}

// deaf takes from a header what a host of an old version does not know.
func (h *host) deaf(head *wire.Header) {
	if h.old && (head.Sport == wire.PortProbe || head.Dport == wire.PortProbe) {
		hs := wire.ParseHandshake(&head.Extensions)
		hs.Limit = 0
		hs.Put(&head.Extensions)
	}
}

// cut notes that a message has come to e that is too long for the host.
func (c *checker) cut(e *end, h *wire.Header) {
	c.s.counts.Cut++
	if int(h.Length) <= e.host.longest {
		c.failf("%v: a message of %d bytes is too long", e.host, h.Length)
	}
	if t := c.tracks[trackKey{e.other.p, e.other.path}]; t != nil {
		if id := t.sent[h.Sequence]; id > 0 {
			c.messages[id-1].cut = e.inc
		}
	}
}

// tooLong judges whether a message may have been refused for its length.
func (c *checker) tooLong(m *message) {
	c.s.counts.TooLong++
	if m.size <= slices.Min(m.route.to.longests) && !c.usurped[[2]*host{m.from.h, m.route.to}] {
		c.failf("%v: too long, and its peer has never said so", m)
	}
}

// lengthFate judges what the sender of a message was told.
func (c *checker) lengthFate(m *message, s conn.Status) {
	switch {
	case s == conn.TooLong && len(m.got) > 0:
		c.failf("%v: too long, and it was delivered", m)
	case s == conn.TooLong:
		c.tooLong(m)
	case s == conn.Success && m.cut == m.route.to.incarnation && len(m.got) == 0 && m.op == nil && !m.from.h.old && !c.usurped[[2]*host{m.from.h, m.route.to}]:
		c.failf("%v: told success, and it was thrown away", m)
	}
}
