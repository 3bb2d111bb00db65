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
	marked   map[uint16]bool // ports that the peer's congestion map marks
	aside    []*modelMessage // held back
	sequence uint64
	up       bool
	control  []byte // being written
	needMap  bool
	probe    bool
	written  uint64
	took     uint64 // bytes acknowledged, of those written
	filling  bool
	shown    []*modelMessage // messages whose operations Fill has shown
	begun    []*modelMessage // messages whose operations some link has begun
	fates    []Fate
}

type modelMessage struct {
	m        Message
	payload  []byte
	seq      uint64
	off      int // bytes written on this link
	end      uint64
	begun    bool // on some link
	picked   bool // was shown
	retrans  bool
	canceled bool
	op       modelOp
	early    *Status // the operation has ended before Wrote
	status   Status  // status of the operation
}

// modelOp is what has become of a message's operation on the present link.
type modelOp int

const (
	opNone modelOp = iota // there is none
	opWaits
	opBegun
	opDone
)

// size is what the message takes of a link.
func (m *modelMessage) size() int {
	if m.silent() {
		return 0
	}
	return wire.HeaderSize + len(m.payload)
}

func (m *modelMessage) silent() bool { return m.m.Op != nil && m.m.Op.Silent }

func (m *modelMessage) bytes() []byte {
	if m.silent() {
		return nil
	}
	h := wire.Header{Sequence: m.seq, Length: uint32(len(m.payload)), Sport: m.m.Sport, Dport: m.m.Dport}
	if m.retrans {
		h.Flags = wire.FlagRetransmitted
	}
	return append(h.AppendTo(nil), m.payload...)
}

// done tells whether the link has all of the message.
func (m *modelMessage) done() bool { return m.off == m.size() && m.op != opWaits }

// taken tells whether the link has something of it.
func (m *modelMessage) taken() bool { return m.off > 0 || m.op > opWaits }

// accept queues a message.
func (m *model) accept(e *modelMessage) {
	if m.stopped(e.m.Dport) {
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

// kept is what the link has wholly taken and what has not ended.
func (m *model) kept() (out []*modelMessage) {
	for _, e := range m.q {
		if e.done() {
			out = append(out, e)
		}
	}
	return out
}

// stopped tells whether a port takes nothing.
func (m *model) stopped(port uint16) bool { return m.held[port] || m.marked[port] }

// hold holds a port or lets it go.
func (m *model) hold(port uint16, on bool) {
	m.held[port] = on
	m.divert()
}

// mapped takes the peer's congestion map.
func (m *model) mapped(ports ...uint16) {
	clear(m.marked)
	for _, port := range ports {
		m.marked[port] = true
	}
	m.divert()
}

// divert moves what was never picked to where it belongs.
func (m *model) divert() {
	var aside, back []*modelMessage
	m.q = slices.DeleteFunc(m.q, func(e *modelMessage) bool {
		moves := m.stopped(e.m.Dport) && !e.picked && !e.canceled
		if moves {
			aside = append(aside, e)
		}
		return moves
	})
	m.aside = slices.DeleteFunc(append(m.aside, aside...), func(e *modelMessage) bool {
		moves := !m.stopped(e.m.Dport)
		if moves {
			back = append(back, e)
		}
		return moves
	})
	m.q = append(m.q, back...)
}

func (m *model) connect() {
	m.up, m.needMap, m.probe, m.control = true, true, true, nil
	m.written, m.took = 0, 0
}

// fill returns what the path must write next, with so many operations at most, and whether
// there is anything.
func (m *model) fill(most int) (out []byte, ok bool) {
	m.shown = nil
	if !m.up {
		return nil, false
	}
	var waiting []*modelMessage
	for _, e := range m.q {
		if !e.done() {
			waiting = append(waiting, e)
		}
	}
	begun := len(waiting) > 0 && waiting[0].taken()
	picked := len(waiting) > 0 && waiting[0].picked
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
		return m.control, true
	}
	for i, e := range waiting {
		if !e.picked && m.probe || i > 0 && begun && m.needMap {
			break
		}
		if !e.picked && !e.silent() {
			e.seq = m.sequence
			m.sequence++
		}
		e.picked, m.filling = true, true
		out = append(out, e.bytes()[min(e.off, e.size()):]...)
		if e.op == opWaits {
			if m.shown = append(m.shown, e); len(m.shown) == most {
				break
			}
		}
	}
	return out, m.filling
}

// opDone ends an operation, and the message that waited for it only.
func (m *model) opDone(e *modelMessage, s Status) {
	if e.op == opBegun {
		e.op, e.status = opDone, s
		m.acked(0)
	}
}

// wrote has the link take n octets and ops operations.
func (m *model) wrote(n, ops int) {
	m.filling = false
	if len(m.control) > 0 {
		m.written += uint64(n)
		m.control = m.control[n:]
		m.sweep()
		return
	}
	for _, e := range slices.Clone(m.q) {
		if e.done() {
			continue
		}
		if !e.picked || e.op == opWaits && ops == 0 {
			break
		}
		if e.op == opWaits {
			ops--
			e.op, e.begun, e.end = opBegun, true, m.written
			if e.early != nil {
				m.opDone(e, *e.early)
			} else {
				m.begun = append(m.begun, e)
			}
		}
		if k := min(n, e.size()-e.off); k > 0 {
			e.begun = true
			e.off += k
			m.written += uint64(k)
			e.end = m.written
			n -= k
		}
		if !e.done() {
			break
		}
	}
	m.sweep()
}

// acked ends the messages up to total, but not those that wait for their
// operation, unless they were canceled before.
func (m *model) acked(total uint64) {
	was := m.took
	m.took = max(m.took, total)
	m.q = slices.DeleteFunc(m.q, func(e *modelMessage) bool {
		gone := e.done() && e.end <= m.took
		switch e.op {
		case opBegun:
			gone = gone && e.canceled && e.end > was
		case opDone:
			gone = gone || e.silent()
		}
		if gone {
			m.end(e, Success)
		}
		return gone
	})
}

// unacked is what is written and not acknowledged, 0 if no message waits.
func (m *model) unacked() uint64 {
	for _, e := range m.q {
		if e.done() && (e.op != opBegun || e.end > m.took) && !e.silent() {
			return m.written - m.took
		}
	}
	return 0
}

// end settles a message, unless it was canceled before.
func (m *model) end(e *modelMessage, s Status) {
	if !e.canceled {
		e.m.Account.Refund(len(e.payload), 1)
		if e.m.Notify {
			if e.op == opDone && e.status != Success {
				s = e.status
			}
			if e.early != nil && *e.early != Success {
				s = *e.early
			}
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
	m.q = slices.DeleteFunc(m.q, func(e *modelMessage) bool { return e.canceled && !e.taken() })
}

func (m *model) closed(acked uint64) {
	m.acked(acked)
	m.up, m.control, m.needMap, m.probe = false, nil, false, false
	m.q = slices.DeleteFunc(m.q, func(e *modelMessage) bool {
		e.off = 0
		e.retrans = e.retrans || e.begun
		if e.op > opWaits {
			m.end(e, Dropped)
		}
		return e.op > opWaits
	})
	m.sweep()
	m.mapped() // forgotten with the last link
}
