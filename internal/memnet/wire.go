package memnet

import (
	"net/netip"
	"time"
)

// segment is what one socket sends to the other.
type segment struct {
	kind kind
	data []byte    // if kind is data
	ack  uint64    // if kind is ack: how many bytes have arrived
	most uint64    // if kind is ack: how many bytes may be sent in all
	due  time.Time // when the segment arrives, if the network has a latency
}

type kind uint8

const (
	data kind = iota // bytes of the stream
	ack              // acknowledges bytes and opens the window
	fin              // end of the stream
	rst              // reset
)

// wire is one direction of a connection. The network's lock guards it.
type wire struct {
	n        *Network
	from, to netip.AddrPort
	dst      *socket
	queue    []segment
	listed   bool // the wire is in Network.ready
	timing   bool // a timer runs for the first segment
}

// send sends a segment. It arrives in Network.run at the earliest.
func (w *wire) send(s segment) {
	if w.n.latency > 0 {
		s.due = time.Now().Add(w.n.latency)
	}
	w.queue = append(w.queue, s)
	w.n.look(w)
}

// look has run look at a wire.
func (n *Network) look(w *wire) {
	if !w.listed {
		w.listed = true
		n.ready = append(n.ready, w)
	}
}

// run has everything arrive whose time has come, and what is sent in answer to that. Whoever
// has changed a socket calls it before the network is unlocked.
func (n *Network) run() {
	for len(n.ready) > 0 {
		w := n.ready[0]
		n.ready[0] = nil
		n.ready = n.ready[1:]
		w.listed = false
		w.advance()
	}
}

// advance has the segments of a wire arrive.
func (w *wire) advance() {
	for len(w.queue) > 0 {
		if w.n.holdsLocked(w.from, w.to) {
			w.n.held[w] = struct{}{}
			return
		}
		s := w.queue[0]
		if w.n.latency > 0 {
			if wait := time.Until(s.due); wait > 0 {
				w.after(wait)
				return
			}
		}
		w.queue[0] = segment{}
		w.queue = w.queue[1:]
		w.dst.arrive(&s)
	}
}

// after has the wire looked at later.
func (w *wire) after(d time.Duration) {
	if w.timing {
		return
	}
	w.timing = true
	time.AfterFunc(d, func() {
		w.n.mu.Lock()
		defer w.n.mu.Unlock()
		w.timing = false
		w.n.look(w)
		w.n.run()
	})
}
