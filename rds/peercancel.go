package rds

import "github.com/rds-go/rds/conn"

// cancel drops s's messages, to one port or to all.
func (p *peer) cancel(s *nodeSocket, port uint16, all bool) (messages, bytes int) {
	m, b := p.cancelParked(s, port, all, conn.Canceled) // first, because messages in the log came before those in flows
	p.mu.Lock()
	messages, bytes = p.core.Cancel(&s.share(p).Account, port, all)
	waits := len(p.flows) > 0
	p.unlock(nil)
	if waits {
		p.serve() // nothing may be left to write whose end would serve the flows
	}
	return messages + m, bytes + b
}

// abandon is cancel of all that s has sent, whose fate is unknown.
func (p *peer) abandon(s *nodeSocket) (messages, bytes int) {
	m, b := p.cancelParked(s, 0, true, conn.Dropped)
	p.mu.Lock()
	messages, bytes = p.core.Abandon(&s.share(p).Account)
	p.unlock(nil)
	return messages + m, bytes + b
}
