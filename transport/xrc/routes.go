package xrc

import (
	"sync/atomic"

	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp"
)

// routes is what is known of the peer's queues: whose each port is. The event loop
// learns it, and the writer looks it up for each message; it may be out of date for
// either.
type routes struct {
	first  uint32 // the peer's own queue, for ports of which nothing is known; constant once the link is set up
	pages  atomic.Pointer[routePages]
	closed map[uint32]struct{} // the event loop's: queues that are not ready
	full   map[uint16]struct{} // the event loop's: ports that have no room
}

// maxClosed is how many queues of a peer may be not ready.
const maxClosed = 4096

// routePages has the pages by the ports' upper halves; nil: all unknown.
type routePages [256]atomic.Pointer[routePage]

// routePage has the queues of 256 ports; 0: unknown.
type routePage [256]atomic.Uint32

// queue is where messages to port go.
func (r *routes) queue(port uint16) uint32 {
	pages := r.pages.Load()
	if pages == nil {
		return r.first
	}
	if p := pages[port>>8].Load(); p != nil {
		if n := p[port&0xff].Load(); n != 0 {
			return n
		}
	}
	return r.first
}

// home notes whose a port is. It tells whether that changes if the port takes
// messages, and whether it is held then.
func (r *routes) home(port uint16, queue uint32) (held, changed bool) {
	old := r.queue(port)
	if old == queue {
		return false, false
	}
	pages := r.pages.Load()
	if pages == nil {
		pages = new(routePages)
		r.pages.Store(pages)
	}
	p := pages[port>>8].Load()
	if p == nil {
		p = new(routePage)
		pages[port>>8].Store(p)
	}
	p[port&0xff].Store(queue)
	_, was := r.closed[old]
	_, held = r.closed[queue]
	if _, full := r.full[port]; full {
		return true, false
	}
	return held, was != held
}

// fill notes whether a port has room. It tells whether that changes if the port takes
// messages.
func (r *routes) fill(port uint16, full bool) (changed bool) {
	_, was := r.full[port]
	switch {
	case full == was:
		return false
	case !full:
		delete(r.full, port)
	default:
		if r.full == nil {
			r.full = make(map[uint16]struct{})
		}
		r.full[port] = struct{}{}
	}
	_, closed := r.closed[r.queue(port)]
	return !closed
}

// state notes the state of a queue. It returns the ports for which that changes
// whether they take messages.
func (r *routes) state(queue uint32, s iwarp.QueueState) (ports []uint16, held bool) {
	if queue == r.first {
		return nil, false // all ports may use this queue
	}
	_, was := r.closed[queue]
	held = s == iwarp.QueueNotReady
	switch {
	case held && !was:
		if len(r.closed) == maxClosed {
			return nil, false // a peer with so many applications has room for what comes for this one
		}
		if r.closed == nil {
			r.closed = make(map[uint32]struct{})
		}
		r.closed[queue] = struct{}{}
	case !held && was:
		delete(r.closed, queue)
	case s != iwarp.QueueGone:
		return nil, held
	}
	pages := r.pages.Load()
	if pages == nil {
		return nil, held
	}
	for i := range pages {
		p := pages[i].Load()
		if p == nil {
			continue
		}
		for j := range p {
			if p[j].Load() == queue {
				if _, full := r.full[uint16(i<<8|j)]; !full {
					ports = append(ports, uint16(i<<8|j))
				}
				if s == iwarp.QueueGone {
					p[j].Store(0)
				}
			}
		}
	}
	if held == was {
		ports = nil // the ports are unknown now, which changes nothing else
	}
	return ports, held
}

// Home tells the peer whose a port of ours is.
func (l *link) Home(port uint16, number uint32) bool {
	if number == transport.FirstQueue {
		return l.tellHome(port, l.t.rds.number)
	}
	l.t.mu.Lock()
	q := l.t.queues[number]
	l.t.mu.Unlock()
	return q != nil && q.home(l, port)
}

func (l *link) tellHome(port uint16, queue uint32) bool {
	return l.qp.TellHome(uint32(port), queue) == nil
}

// tellState tells the peer whether messages of a queue of ours are welcome.
func (l *link) tellState(queue uint32, ready bool) {
	s := iwarp.QueueReady
	if !ready {
		s = iwarp.QueueNotReady
	}
	_ = l.qp.TellState(queue, s)
}

// tellGone tells the peer that a queue of ours has ended.
func (l *link) tellGone(queue uint32) { _ = l.qp.TellState(queue, iwarp.QueueGone) }
