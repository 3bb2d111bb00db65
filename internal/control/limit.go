package control

import (
	"net"
	"sync"
)

// limited is a listener that accepts no more than a number of connections at
// a time. The others wait in the kernel's listen queue.
type limited struct {
	net.Listener
	slots  chan struct{} // holds one element per open connection
	closed chan struct{} // closed by Close
	once   sync.Once
}

func newLimited(l net.Listener, n int) *limited {
	return &limited{Listener: l, slots: make(chan struct{}, n), closed: make(chan struct{})}
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitedConn{Conn: c, slots: l.slots}, nil
}

func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	slots chan struct{}
	once  sync.Once
}

func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { <-c.slots })
	return err
}
