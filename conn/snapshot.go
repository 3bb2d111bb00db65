package conn

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
	Acked       uint64 `json:"acked"`        // of them acknowledged
	LastStart   uint64 `json:"last_start"`   // link offset of the first byte of the last message written
	Transmitter bool   `json:"transmitting"` // a writer is at work
}

// MessageInfo describes one queued message, for reports.
type MessageInfo struct {
	Path     int
	Sequence uint64 // 0: not yet numbered
	Length   int
	Sport    uint16
	Dport    uint16
	Flags    uint8 // wire flags it will carry
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

// State is the state of path i.
func (c *Conn) State(i int) State { return c.paths[i].state }

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
	return MessageInfo{path, e.seq, int(e.length), e.sport, e.dport, e.chunk.b.B[e.off+24]}
}
