package conn

import "time"

// PathInfo describes one path, for reports.
type PathInfo struct {
	Index       int    `json:"index"`
	State       string `json:"state"`
	Outbound    bool   `json:"outbound"`
	NextTX      uint64 `json:"next_tx"`      // sequence number of the next new message
	Unsent      int    `json:"unsent"`       // messages never written on the present link, those held back included
	Unacked     int    `json:"unacked"`      // messages written and not acknowledged
	Resets      uint64 `json:"resets"`       // links lost
	Written     uint64 `json:"written"`      // bytes the present link took
	Acked       uint64 `json:"acked"`        // bytes of Written that the peer has acknowledged
	LastStart   uint64 `json:"last_start"`   // link offset of the first byte of the last message written
	Transmitter bool   `json:"transmitting"` // a writer is at work

	Held      int       `json:"held,omitempty"`       // messages of Unsent that are held back because their port takes none
	HeldBytes int       `json:"held_bytes,omitempty"` // bytes of Held on the wire
	Proved    bool      `json:"proved"`               // the peer's RDS has answered on the present link
	Waits     bool      `json:"waits,omitempty"`      // new messages wait until the peer has what path 0 was given before the handshake
	NextTry   time.Time `json:"next_try,omitzero"`    // when the next attempt to connect is due
}

// Backlog is what one socket has queued on one path for one port of the peer, for reports.
type Backlog struct {
	Path         int
	Account      *Account // the socket's account; Sport is the socket's port
	Sport, Dport uint16
	Held         bool // held back, because the port takes no messages
	Unsent       int  // messages that were never written on the present link
	Unacked      int  // messages written on the present link and not acknowledged
	Bytes        int  // payload of Unsent and Unacked
}

// backlogEntries bounds the queued messages of a path that Backlogs looks at.
const backlogEntries = 1 << 16

// MessageInfo describes one queued message, for reports.
type MessageInfo struct {
	Path     int
	Sequence uint64 // 0: not yet numbered
	Length   int
	Sport    uint16
	Dport    uint16
	Flags    uint8    // wire flags it will carry
	Account  *Account // the sender's account; nil: the message is the connection's own
}

// PathInfos describes the paths in use, and others that have a link.
func (c *Conn) PathInfos() []PathInfo {
	var out []PathInfo
	for i := range c.paths {
		p := &c.paths[i]
		if i >= c.used() && p.link == 0 && p.q.len() == 0 {
			continue
		}
		info := PathInfo{
			Index: i, State: p.state.String(), Outbound: p.outbound, NextTX: p.sequence,
			Unsent: int(p.q.tail-p.q.next) + len(p.shelf.list), Unacked: int(p.q.next-p.q.first) - p.holes,
			Resets: p.resets, Written: p.written, Acked: p.acked, LastStart: p.written, Transmitter: p.filling,
			Held: len(p.shelf.list), HeldBytes: p.shelf.bytes, Proved: p.proved, Waits: c.blocked(p), NextTry: p.redialAt,
		}
		if p.q.next > p.q.first {
			e := p.q.at(p.q.next - 1)
			info.LastStart = e.end
			if e.flags&entrySilent == 0 {
				info.LastStart -= min(e.end, uint64(e.size()))
			}
		}
		out = append(out, info)
	}
	return out
}

// AckedBytes is how many bytes of those written on the present link of path i are
// acknowledged, as far as the core was told.
func (c *Conn) AckedBytes(i int) uint64 { return c.paths[i].acked }

// State is the state of path i.
func (c *Conn) State(i int) State { return c.paths[i].state }

// Outbound tells whether path i's link, or its last one, was dialed from here.
func (c *Conn) Outbound(i int) bool { return c.paths[i].outbound }

// Link is the link of path i, 0 if it has none.
func (c *Conn) Link(i int) LinkID { return c.paths[i].link }

// Messages lists the unsent or the unacknowledged messages, at most limit.
func (c *Conn) Messages(unacked bool, limit int) []MessageInfo {
	var out []MessageInfo
	for i := range c.paths {
		q := &c.paths[i].q
		from, to := q.next, q.tail
		if unacked {
			from, to = q.first, q.next
		}
		for pos := from; pos < to && len(out) < limit; pos++ {
			if e := q.at(pos); e.flags&(entryCanceled|entryHole) == 0 {
				out = append(out, e.info(i))
			}
		}
		for k := range c.paths[i].shelf.list {
			if !unacked && len(out) < limit {
				out = append(out, c.paths[i].shelf.list[k].info(i))
			}
		}
	}
	return out
}

func (e *entry) info(path int) MessageInfo {
	seq := e.seq
	if e.flags&(entrySilent|entryLimited) != 0 {
		seq = 0
	}
	return MessageInfo{path, seq, int(e.length), e.sport, e.dport, e.chunk.b.B[e.off+24], e.acct}
}

// OverBudget tells whether Enqueue refuses messages because the budget is used up.
func (c *Conn) OverBudget() bool { return c.charged() >= c.cfg.Budget }

// Backlogs sums up what is queued and unacknowledged by path, socket and port. Of a longer
// queue it counts the oldest 65,536 messages.
func (c *Conn) Backlogs() []Backlog {
	type key struct {
		path  int
		acct  *Account
		dport uint16
		held  bool
	}
	var out []Backlog
	at := make(map[key]int)
	add := func(path int, e *entry, held, unacked bool) {
		if e.flags&(entryCanceled|entryHole|entryPong) != 0 {
			return
		}
		k := key{path, e.acct, e.dport, held}
		i, ok := at[k]
		if !ok {
			i = len(out)
			at[k] = i
			out = append(out, Backlog{Path: path, Account: e.acct, Sport: e.sport, Dport: e.dport, Held: held})
		}
		if b := &out[i]; unacked {
			b.Unacked++
		} else {
			b.Unsent++
		}
		out[i].Bytes += int(e.length)
	}
	for i := range c.paths {
		q := &c.paths[i].q
		for pos := q.first; pos < min(q.tail, q.first+backlogEntries); pos++ {
			add(i, q.at(pos), false, pos < q.next)
		}
		for k := range c.paths[i].shelf.list {
			add(i, &c.paths[i].shelf.list[k], true, false)
		}
	}
	return out
}
