package xrc

import (
	"slices"
	"sync/atomic"

	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp"
)

// routes is what is known of the peer's queues: whose each port is. The event loop
// learns it, and the writer looks it up for each message; it may be out of date for
// either.
//
// That a port has no room counts at once: what the peer grants next is not for it. Whose a
// port is, and whether a queue is ready, are hints, which count at the end of a burst: so
// it costs a peer as much to change them often as it costs us.
type routes struct {
	first uint32 // the peer's own queue, for ports of which nothing is known; constant once the link is set up
	pages atomic.Pointer[routePages]

	// The event loop's:
	known  int                         // ports in pages
	closed map[uint32]struct{}         // queues that are not ready
	full   map[uint16]struct{}         // ports that have no room
	held   map[uint16]struct{}         // ports that the handler was told to hold
	homed  map[uint16]struct{}         // ports whose queue has changed in this burst
	news   map[uint32]iwarp.QueueState // what queues were said to be in this burst
}

const (
	// maxClosed is how many queues of a peer may be not ready.
	maxClosed = 4096
	// maxHomes is of how many ports of a peer is noted whose they are: all are looked at when
	// a queue changes. Messages for others go by the peer's own queue.
	maxHomes = 8192
)

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

// home notes whose a port is.
func (r *routes) home(port uint16, queue uint32) {
	if r.queue(port) == queue {
		return
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
	if p[port&0xff].Load() == 0 {
		if r.known == maxHomes {
			return
		}
		r.known++
	}
	p[port&0xff].Store(queue)
	put(&r.homed, port)
}

// put adds to a set, which is made when it has its first member.
func put[K comparable](set *map[K]struct{}, k K) {
	if *set == nil {
		*set = make(map[K]struct{})
	}
	(*set)[k] = struct{}{}
}

// fill notes whether a port has room. It tells whether that changes if the port takes
// messages.
func (r *routes) fill(port uint16, full bool) (changed bool) {
	if full {
		put(&r.full, port)
	} else {
		delete(r.full, port)
	}
	return r.turn(port)
}

// turn notes whether the handler is to hold a port. It tells whether that is a change.
func (r *routes) turn(port uint16) (changed bool) {
	_, was := r.held[port]
	_, is := r.full[port]
	if !is {
		_, is = r.closed[r.queue(port)]
	}
	switch {
	case is == was:
		return false
	case is:
		put(&r.held, port)
	default:
		delete(r.held, port)
	}
	return true
}

// state notes the state of a queue.
func (r *routes) state(queue uint32, s iwarp.QueueState) {
	if queue == r.first {
		return // all ports may use this queue
	}
	if r.news == nil {
		r.news = make(map[uint32]iwarp.QueueState)
	}
	r.news[queue] = s
}

// apply returns, at the end of a burst, the ports that are to be held from now on, and those
// that are not any more.
func (r *routes) apply() (hold, free []uint16) {
	if len(r.homed)+len(r.news) == 0 {
		return nil, nil
	}
	for queue, s := range r.news {
		_, was := r.closed[queue]
		switch is := s == iwarp.QueueNotReady; {
		case is && !was && len(r.closed) < maxClosed: // a peer with more applications has room for what comes for this one
			put(&r.closed, queue)
		case !is && was:
			delete(r.closed, queue)
		case s != iwarp.QueueGone:
			delete(r.news, queue)
		}
	}
	if len(r.news) > 0 {
		r.spread()
	}
	for port := range r.homed {
		switch {
		case !r.turn(port):
		case r.holds(port):
			hold = append(hold, port)
		default:
			free = append(free, port)
		}
	}
	clear(r.homed)
	clear(r.news)
	slices.Sort(hold)
	slices.Sort(free)
	return hold, free
}

// spread has the ports of queues with news looked at, and forgets whose those of queues that
// are gone are.
func (r *routes) spread() {
	pages := r.pages.Load()
	if pages == nil {
		return
	}
	for i := range pages {
		p := pages[i].Load()
		if p == nil {
			continue
		}
		for j := range p {
			n := p[j].Load()
			if n == 0 {
				continue
			}
			if s, ok := r.news[n]; ok {
				if s == iwarp.QueueGone {
					p[j].Store(0)
					r.known--
				}
				put(&r.homed, uint16(i<<8|j))
			}
		}
	}
}

// holds tells whether the handler was told to hold a port.
func (r *routes) holds(port uint16) bool {
	_, held := r.held[port]
	return held
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
