package gnetloop

import (
	"net/netip"
	"slices"
	"syscall"

	"github.com/rds-go/rds/internal/lockorder"
)

// errCrowded ends an accepted connection that was not settled when another one came and
// there were as many as Options.HalfOpen or Options.HalfOpenEach allows.
var errCrowded error = crowded{}

type crowded struct{}

func (crowded) Error() string { return "too many connections that are not set up" }
func (crowded) Unwrap() error { return syscall.ECONNRESET }

// halfOpen are the accepted connections that are not settled: the peer has not yet done
// what it has to do first. They cost descriptors, and a stranger makes them for nothing, so
// there is a bound, and a newcomer is let in at the expense of the greediest: the oldest
// connection of the address that has the most, of several such addresses the one whose
// network has the most.
type halfOpen struct {
	most, each int // 0: no bound

	mu    lockorder.Mutex[halfOpen]
	conns []*Conn              // guarded by mu; oldest first
	of    map[netip.Addr]int   // guarded by mu; number of conns of an address
	near  map[netip.Prefix]int // guarded by mu; number of conns of a network
}

// neighbours is the network of an address: it tells strangers apart who have many addresses.
func neighbours(a netip.Addr) netip.Prefix {
	bits := 64
	if a.Is4() {
		bits = 24
	}
	p, _ := a.WithZone("").Prefix(bits)
	return p
}

// add takes in a connection, and returns the one that has to end for it, nil if none.
func (h *halfOpen) add(c *Conn) (loser *Conn) {
	if h.most == 0 {
		return nil
	}
	a := c.remote.Addr()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of == nil {
		h.of, h.near = make(map[netip.Addr]int), make(map[netip.Prefix]int)
	}
	switch {
	case h.of[a] >= h.each:
		loser = h.oldestLocked(a)
	case len(h.conns) >= h.most:
		loser = h.greediestLocked()
	}
	if loser != nil {
		h.removeLocked(loser)
	}
	h.conns = append(h.conns, c)
	h.of[a]++
	h.near[neighbours(a)]++
	c.half = true
	return loser
}

func (h *halfOpen) oldestLocked(a netip.Addr) *Conn {
	for _, c := range h.conns {
		if c.remote.Addr() == a {
			return c
		}
	}
	return nil
}

func (h *halfOpen) greediestLocked() (loser *Conn) {
	var own, near int
	for _, c := range h.conns {
		a := c.remote.Addr()
		n, m := h.of[a], h.near[neighbours(a)]
		if n > own || n == own && m > near {
			loser, own, near = c, n, m
		}
	}
	return loser
}

// remove takes a connection out, if it is in.
func (h *halfOpen) remove(c *Conn) {
	if h.most == 0 {
		return
	}
	h.mu.Lock()
	h.removeLocked(c)
	h.mu.Unlock()
}

func (h *halfOpen) removeLocked(c *Conn) {
	if !c.half {
		return
	}
	c.half = false
	for i, other := range h.conns {
		if other == c {
			h.conns = slices.Delete(h.conns, i, i+1)
			break
		}
	}
	a := c.remote.Addr()
	if h.of[a]--; h.of[a] == 0 {
		delete(h.of, a)
	}
	n := neighbours(a)
	if h.near[n]--; h.near[n] == 0 {
		delete(h.near, n)
	}
}

// count is how many there are.
func (h *halfOpen) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.conns)
}

// Settled says that the peer of an accepted connection has done what it has to do first.
// Until then the connection counts in Options.HalfOpen, and may end for another one.
func (c *Conn) Settled() { c.e.half.remove(c) }
