package gnetloop

import (
	"errors"
	"net"
	"net/netip"
	"syscall"

	"github.com/rds-go/rds/internal/lockorder"
)

// sharedListener is a listening socket for many addresses.
type sharedListener struct {
	*Listener

	mu     lockorder.RWMutex[sharedListener]
	accept map[netip.Addr]func(*Conn) // guarded by mu; by the local address of connections
}

// errNotListening ends a connection to an address of a shared socket that nobody listens on.
var errNotListening = errors.New("nobody listens on the address")

// take gives a connection to the one who listens on its local address.
func (s *sharedListener) take(c *Conn) {
	s.mu.RLock()
	accept := s.accept[c.local.Addr()]
	s.mu.RUnlock()
	if accept == nil {
		c.Fail(errNotListening)
		return
	}
	accept(c)
}

// listenShared is Listen for an address that shares a socket.
func (e *Engine) listenShared(local netip.AddrPort, accept func(*Conn)) (*Listener, error) {
	prefixes, first := e.opts.Sharing.of(local.Addr())
	at := netip.AddrPortFrom(first, local.Port())
	e.sharing.Lock() // one socket is opened at a time
	defer e.sharing.Unlock()
	s := e.shared[at]
	if s == nil {
		s = &sharedListener{accept: make(map[netip.Addr]func(*Conn))}
		ln, err := e.listen(at, prefixes, s.take)
		if err != nil {
			return nil, err
		}
		s.Listener = ln
		e.shared[at] = s
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.accept[local.Addr()] != nil {
		return nil, syscall.EADDRINUSE
	}
	s.accept[local.Addr()] = accept
	return &Listener{e: e, ln: s.ln, local: local, shared: s}, nil
}

// leave ends listening on an address of a shared socket, which is closed with the last one.
func (ln *Listener) leave() {
	s := ln.shared
	ln.e.sharing.Lock()
	defer ln.e.sharing.Unlock()
	s.mu.Lock()
	delete(s.accept, ln.local.Addr())
	last := len(s.accept) == 0
	s.mu.Unlock()
	if !last {
		return
	}
	for at, x := range ln.e.shared {
		if x == s {
			delete(ln.e.shared, at)
		}
	}
	s.Close()
}

// steer tells Options.Sharing of a new listening socket.
func (e *Engine) steer(prefixes []netip.Prefix, l *net.TCPListener) error {
	if e.opts.Sharing == nil || e.opts.Sharing.Register == nil {
		return nil
	}
	return e.opts.Sharing.Register(prefixes, l)
}
