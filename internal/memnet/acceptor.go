package memnet

import (
	"net"
	"net/netip"

	"github.com/rds-go/rds/internal/gnetloop"
)

// acceptor is a listener of a stack. The network's lock guards it.
type acceptor struct {
	e      *stack
	l      *listener
	paused bool
	busy   bool // a connection is being offered
	done   bool // nothing is offered any more
	parked signal
}

// Listen accepts connections on local.
func (e *stack) Listen(local netip.AddrPort, accept func(gnetloop.Stream)) (gnetloop.StreamListener, error) {
	l, err := e.n.listen(local, e.sizes)
	if err != nil {
		return nil, err
	}
	e.n.mu.Lock()
	defer e.n.mu.Unlock()
	if e.closed {
		l.close()
		return nil, net.ErrClosed
	}
	a := &acceptor{e: e, l: l}
	e.listeners[a] = struct{}{}
	e.wg.Go(func() { a.run(accept) })
	return a, nil
}

// run offers connections until the listener is closed.
func (a *acceptor) run(accept func(gnetloop.Stream)) {
	n := a.e.n
	n.mu.Lock()
	defer n.mu.Unlock()
	defer func() {
		a.done = true
		delete(a.e.listeners, a)
		a.parked.set()
	}()
	for {
		var s *socket
		if !a.paused || a.l.deaf {
			s = a.l.next()
		}
		switch {
		case s != nil:
			a.busy = true
			a.offer(s, accept)
			a.busy = false
			a.parked.set()
			continue
		case a.l.deaf:
			a.l.close()
			return
		}
		news := a.l.news.wait()
		n.mu.Unlock()
		<-news
		n.mu.Lock()
	}
}

// offer asks the gate about a connection and offers it. It unlocks the network meanwhile.
func (a *acceptor) offer(s *socket, accept func(gnetloop.Stream)) {
	n := a.e.n
	if g := a.e.opts.Gate; g != nil {
		n.mu.Unlock()
		admitted := g.Admits(s.remote.Addr())
		n.mu.Lock()
		if !admitted {
			s.reset()
			n.run()
			return
		}
	}
	c, err := a.e.adopt(s)
	if err != nil {
		return
	}
	n.mu.Unlock()
	accept(c)
	n.mu.Lock()
}

// Addr is what is listened on.
func (a *acceptor) Addr() netip.AddrPort { return a.l.addr }

// Close ends listening. One more connection may be offered while it runs.
func (a *acceptor) Close() {
	a.e.n.mu.Lock()
	defer a.e.n.mu.Unlock()
	a.l.close()
}

// Unlisten ends listening when the connections that were made have been offered.
func (e *stack) Unlisten() {
	e.each(func(a *acceptor) { a.l.ignore() }, func(a *acceptor) bool { return a.done })
}

// Pause has connections accepted no more.
func (e *stack) Pause() {
	e.each(func(a *acceptor) { a.paused = true }, func(a *acceptor) bool { return !a.busy || a.done })
}

// Resume ends a Pause.
func (e *stack) Resume() {
	e.each(func(a *acceptor) { a.paused = false; a.l.news.set() }, func(*acceptor) bool { return true })
}

// each does something to all listeners, and waits until it has come about.
func (e *stack) each(do func(*acceptor), done func(*acceptor) bool) {
	e.n.mu.Lock()
	defer e.n.mu.Unlock()
	var all []*acceptor
	for a := range e.listeners {
		do(a)
		all = append(all, a)
	}
	for _, a := range all {
		for !done(a) {
			parked := a.parked.wait()
			e.n.mu.Unlock()
			<-parked
			e.n.mu.Lock()
		}
	}
}

// Listening returns nothing: there are no descriptors.
func (e *stack) Listening() ([]gnetloop.Listening, error) { return nil, nil }
