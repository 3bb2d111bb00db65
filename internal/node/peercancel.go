package node

import "github.com/rds-go/rds/conn"

// cancel drops s's messages, to one port or to all.
func (p *Peer) cancel(s *Socket, port uint16, all bool) (messages, bytes int) {
	h := s.shareOf(p)
	if h == nil {
		return 0, 0
	}
	p.Lock()
	messages, bytes = p.Core.Cancel(&h.Account, port, all)
	m, b := p.endParkedOfLocked(s, port, all, conn.Canceled) // last: messages in the log came before those in flows
	waits := len(p.Flows) > 0
	p.Commit()
	if waits {
		p.serve() // nothing may be left to write whose end would serve the flows
	}
	return messages + m, bytes + b
}

// abandon is cancel of all that s has sent, whose fate is unknown.
func (p *Peer) abandon(s *Socket) (messages, bytes int) {
	h := s.shareOf(p)
	if h == nil {
		return 0, 0
	}
	p.Lock()
	messages, bytes = p.Core.Abandon(&h.Account)
	m, b := p.endParkedOfLocked(s, 0, true, conn.Dropped)
	p.Commit()
	return messages + m, bytes + b
}
