package xrc

import (
	"math/bits"
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
	oldest byte                        // page of which ports are forgotten next
	closed map[uint32]struct{}         // queues that are not ready
	full   portSet                     // ports that have no room
	held   portSet                     // ports that the handler was told to hold
	homed  portSet                     // ports whose queue has changed in this burst
	moved  bool                        // there are ports in homed
	news   map[uint32]iwarp.QueueState // what queues were said to be in this burst
}

const (
	// maxClosed is how many queues of a peer may be not ready.
	maxClosed = 4096
	// maxHomes is of how many ports of a peer is noted whose they are: all are looked at when
	// a queue changes. Others are forgotten, and the peer says again whose they are when
	// messages for them come by its own queue.
	maxHomes = 8192
	// maxNews is how many queues may have news in a burst for the table of them to be kept.
	maxNews = 64
)

// portSet is a set of ports, in pages of 4,096. The zero value is empty.
type portSet [16]*[64]uint64

func (s *portSet) has(port uint16) bool {
	page := s[port>>12]
	return page != nil && page[port>>6&63]&(1<<(port&63)) != 0
}

func (s *portSet) put(port uint16, in bool) {
	page := s[port>>12]
	if page == nil {
		if !in {
			return
		}
		page = new([64]uint64)
		s[port>>12] = page
	}
	if in {
		page[port>>6&63] |= 1 << (port & 63)
	} else {
		page[port>>6&63] &^= 1 << (port & 63)
	}
}

// take empties the set, and calls f for each port that was in it, in their order.
func (s *portSet) take(f func(port uint16)) {
	for k, page := range s {
		if page == nil {
			continue
		}
		for i := range page {
			for w := page[i]; w != 0; w &= w - 1 {
				f(uint16(k<<12 | i<<6 | bits.TrailingZeros64(w)))
			}
			page[i] = 0
		}
	}
}

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
			r.forget(pages)
		}
		r.known++
	}
	p[port&0xff].Store(queue)
	r.move(port)
}

// move has a port looked at when the burst ends.
func (r *routes) move(port uint16) {
	r.homed.put(port, true)
	r.moved = true
}

// forget forgets whose the ports of a page are.
func (r *routes) forget(pages *routePages) {
	for before := r.known; r.known == before; r.oldest++ {
		p := pages[r.oldest].Load()
		if p == nil {
			continue
		}
		for i := range p {
			if p[i].Load() != 0 {
				p[i].Store(0)
				r.known--
				r.move(uint16(r.oldest)<<8 | uint16(i))
			}
		}
	}
}

// fill notes whether a port has room. It tells whether that changes if the port takes
// messages.
func (r *routes) fill(port uint16, full bool) (changed bool) {
	r.full.put(port, full)
	return r.turn(port)
}

// turn notes whether the handler is to hold a port. It tells whether that is a change.
func (r *routes) turn(port uint16) (changed bool) {
	hold := r.full.has(port)
	if !hold {
		_, hold = r.closed[r.queue(port)]
	}
	if hold == r.held.has(port) {
		return false
	}
	r.held.put(port, hold)
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
	if len(r.news) > 0 {
		r.learn()
	}
	if !r.moved {
		return nil, nil
	}
	r.moved = false
	r.homed.take(func(port uint16) {
		switch {
		case !r.turn(port):
		case r.held.has(port):
			hold = append(hold, port)
		default:
			free = append(free, port)
		}
	})
	return hold, free
}

// learn takes the news of queues.
func (r *routes) learn() {
	for queue, s := range r.news {
		_, was := r.closed[queue]
		switch is := s == iwarp.QueueNotReady; {
		case is && !was && len(r.closed) < maxClosed: // a peer with more applications has room for what comes for this one
			if r.closed == nil {
				r.closed = make(map[uint32]struct{})
			}
			r.closed[queue] = struct{}{}
		case !is && was:
			delete(r.closed, queue)
		case s != iwarp.QueueGone:
			delete(r.news, queue)
		}
	}
	if len(r.news) > 0 {
		r.spread()
	}
	if len(r.news) > maxNews {
		r.news = nil
	} else {
		clear(r.news)
	}
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
				r.move(uint16(i<<8 | j))
			}
		}
	}
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
