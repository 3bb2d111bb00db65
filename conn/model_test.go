package conn

import (
	"slices"

	"github.com/rds-go/rds/internal/wire"
)

// model is the queue of one path as one would write it first: a slice of
// messages, no positions, nothing shared.
type model struct {
	q        []*modelMessage
	held     map[uint16]bool // ports
	aside    []*modelMessage // held back
	sequence uint64
	up       bool
	control  []byte // being written
	needMap  bool
	probe    bool
	written  uint64
	took     []byte // 1 for each byte of the link that is acknowledged
	prefix   uint64 // of them without a gap
	ones     uint64 // of them in all
	filling  bool
	fates    []Fate
}

type modelMessage struct {
	m        Message
	payload  []byte
	seq      uint64
	off      int // bytes written on this link
	end      uint64
	begun    bool // on some link
	retrans  bool
	canceled bool
}

func (m *modelMessage) bytes() []byte {
	h := wire.Header{Sequence: m.seq, Length: uint32(len(m.payload)), Sport: m.m.Sport, Dport: m.m.Dport}
	if m.retrans {
		h.Flags = wire.FlagRetransmitted
	}
	return append(h.AppendTo(nil), m.payload...)
}

func (m *modelMessage) done() bool { return m.off == wire.HeaderSize+len(m.payload) }

// accept queues a message.
func (m *model) accept(e *modelMessage) {
	if m.held[e.m.Dport] {
		m.aside = append(m.aside, e)
	} else {
		m.q = append(m.q, e)
	}
}

// waiting is what is not wholly written, what is held back last.
func (m *model) waiting() (out []*modelMessage) {
	for _, e := range slices.Concat(m.q, m.aside) {
		if !e.done() && !e.canceled {
			out = append(out, e)
		}
	}
	return out
}

// hold holds a port or lets it go.
func (m *model) hold(port uint16, on bool) {
	m.held[port] = on
	from, to := &m.q, &m.aside
	if !on {
		from, to = to, from
	}
	*from = slices.DeleteFunc(*from, func(e *modelMessage) bool {
		moves := e.m.Dport == port && e.seq == 0 && !e.canceled
		if moves {
			*to = append(*to, e)
		}
		return moves
	})
}

func (m *model) connect() {
	m.up, m.needMap, m.probe, m.control = true, true, true, nil
	m.written, m.took, m.prefix, m.ones = 0, nil, 0, 0
}

// fill returns what the path must write next.
func (m *model) fill() (out []byte) {
	if !m.up {
		return nil
	}
	var waiting []*modelMessage
	for _, e := range m.q {
		if !e.done() {
			waiting = append(waiting, e)
		}
	}
	begun := len(waiting) > 0 && waiting[0].off > 0
	picked := len(waiting) > 0 && waiting[0].seq > 0
	if len(m.control) == 0 && !begun {
		switch {
		case m.needMap:
			m.needMap = false
			h := wire.Header{Length: wire.CongestionMapSize, Flags: wire.FlagCongestion}
			m.control = append(h.AppendTo(nil), make([]byte, wire.CongestionMapSize)...)
		case m.probe && !picked:
			m.probe = false
			h := wire.Header{Sequence: m.sequence, Sport: wire.PortProbe}
			wire.Handshake{HasPaths: true, Paths: 1, Generation: 1}.Put(&h.Extensions)
			m.sequence++
			m.control = h.AppendTo(nil)
		}
	}
	if len(m.control) > 0 {
		m.filling = true
		return m.control
	}
	for _, e := range waiting {
		if e.seq == 0 {
			if m.probe {
				break
			}
			e.seq = m.sequence
			m.sequence++
		}
		out = append(out, e.bytes()[e.off:]...)
		if m.needMap {
			break
		}
	}
	m.filling = len(out) > 0
	return out
}

func (m *model) wrote(n int) {
	m.filling = false
	m.written += uint64(n)
	if len(m.control) > 0 {
		m.control = m.control[n:]
		n = 0
	}
	end := m.written - uint64(n)
	for _, e := range m.q {
		k := min(n, wire.HeaderSize+len(e.payload)-e.off)
		if k > 0 {
			e.begun = true
			e.off += k
			end += uint64(k)
			e.end = end
			n -= k
		}
	}
	m.sweep()
}

func (m *model) acked(total uint64) { m.ackedRange(0, total) }

// ackedRange ends the messages inside (from,to] and those before the first byte
// that is not acknowledged. What is not inside one range waits for that.
func (m *model) ackedRange(from, to uint64) {
	for uint64(len(m.took)) < m.written {
		m.took = append(m.took, 0)
	}
	for i := max(from, m.prefix); i < to; i++ {
		m.ones += uint64(1 - m.took[i])
		m.took[i] = 1
	}
	for m.prefix < m.written && m.took[m.prefix] == 1 {
		m.prefix++
	}
	m.q = slices.DeleteFunc(m.q, func(e *modelMessage) bool {
		size := uint64(wire.HeaderSize + len(e.payload))
		gone := e.done() && (e.end <= m.prefix || e.end <= to && e.end >= from+size)
		if gone {
			m.end(e, Success)
		}
		return gone
	})
}

// unacked is what is written and not acknowledged, 0 if no message waits.
func (m *model) unacked() uint64 {
	if len(m.q) == 0 || !m.q[0].done() {
		return 0
	}
	return m.written - m.ones
}

// untouched are the first bytes from off on that are not acknowledged.
func (m *model) untouched(off uint64) (from, to uint64) {
	took := func(i uint64) bool { return i < uint64(len(m.took)) && m.took[i] == 1 }
	for off < m.written && took(off) {
		off++
	}
	for to = off; to < m.written && !took(to); {
		to++
	}
	return off, to
}

// end settles a message, unless it was canceled before.
func (m *model) end(e *modelMessage, s Status) {
	if !e.canceled {
		e.m.Account.Refund(len(e.payload), 1)
		if e.m.Notify {
			m.fates = append(m.fates, Fate{e.m.Account, e.m.Token, s, e.m.Op})
		}
	}
}

func (m *model) cancel(a *Account, port uint16, all bool) (messages, bytes int) {
	meant := func(e *modelMessage) bool { return e.m.Account == a && !e.canceled && (all || e.m.Dport == port) }
	m.aside = slices.DeleteFunc(m.aside, func(e *modelMessage) bool {
		goes := meant(e)
		if goes {
			m.q = append(m.q, e)
		}
		return goes
	})
	for _, e := range m.q {
		if meant(e) {
			m.end(e, Canceled)
			e.canceled = true
			messages++
			bytes += len(e.payload)
		}
	}
	if !m.filling {
		m.sweep()
	}
	return messages, bytes
}

// sweep drops the canceled messages of which this link has nothing.
func (m *model) sweep() {
	m.q = slices.DeleteFunc(m.q, func(e *modelMessage) bool { return e.canceled && e.off == 0 })
}

func (m *model) closed(acked uint64) {
	m.acked(acked)
	m.up, m.control, m.needMap, m.probe = false, nil, false, false
	for _, e := range m.q {
		e.off = 0
		e.retrans = e.retrans || e.begun
	}
	m.sweep()
}
