package memnet

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
)

// Conn is a connection of a test that speaks the wire by hand, as net.TCPConn is.
type Conn struct {
	s     *socket
	news  signal   // s is readable or writable; the network's lock guards it
	abort bool     // guarded by the network's lock; Close resets
	read  deadline // of Read
	write deadline // of Write
}

var _ net.Conn = (*Conn)(nil)

// rawSizes are those of Linux for a socket that nobody has tuned: its window does not grow
// while nobody reads.
var rawSizes = sizes{receive: firstWindow}

// Dial connects local to remote. The network chooses a local address that is not valid, and a
// local port that is 0.
func (n *Network) Dial(local, remote netip.AddrPort) (*Conn, error) {
	return n.DialContext(context.Background(), local, remote)
}

// DialContext is Dial until ctx ends.
func (n *Network) DialContext(ctx context.Context, local, remote netip.AddrPort) (*Conn, error) {
	s, err := n.dial(ctx, local, remote, rawSizes)
	if err != nil {
		return nil, err
	}
	c := &Conn{s: s}
	n.mu.Lock()
	s.owner = c
	n.mu.Unlock()
	return c, nil
}

func (c *Conn) readable() { c.news.set() }
func (c *Conn) writable() { c.news.set() }

// wait waits until try is done, which is called with the network locked.
func (c *Conn) wait(d *deadline, try func() (done bool, err error)) error {
	c.s.n.mu.Lock()
	defer c.s.n.mu.Unlock()
	for {
		switch {
		case c.s.closed:
			return net.ErrClosed
		case d.passed():
			return os.ErrDeadlineExceeded
		}
		if done, err := try(); done || err != nil {
			return err
		}
		news := c.news.wait()
		c.s.n.mu.Unlock()
		<-news
		c.s.n.mu.Lock()
	}
}

// Read waits for bytes, or the end of the stream.
func (c *Conn) Read(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	err = c.wait(&c.read, func() (bool, error) {
		switch n = c.s.take(b); {
		case n > 0:
			return true, nil
		case c.s.eof:
			return true, io.EOF
		case c.s.err != nil:
			return true, os.NewSyscallError("read", c.s.err)
		}
		return false, nil
	})
	return n, c.opError("read", err)
}

// Write waits until the send buffer has taken all bytes.
func (c *Conn) Write(b []byte) (n int, err error) {
	err = c.wait(&c.write, func() (bool, error) {
		switch {
		case c.s.err != nil:
			return true, os.NewSyscallError("write", c.s.err)
		case c.s.ending:
			return true, os.NewSyscallError("write", syscall.EPIPE)
		}
		n += c.s.write(b[n:])
		if n < len(b) {
			c.s.full = true
			c.s.tellWritable()
		}
		return n == len(b), nil
	})
	return n, c.opError("write", err)
}

func (c *Conn) opError(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &net.OpError{Op: op, Net: networkOf(c.s.local), Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

// CloseWrite ends our direction of the stream.
func (c *Conn) CloseWrite() error {
	c.s.n.mu.Lock()
	defer c.s.n.mu.Unlock()
	if c.s.closed {
		return c.opError("close", net.ErrClosed)
	}
	c.s.shutdown()
	c.s.n.run()
	c.news.set()
	return nil
}

// SetLinger with 0 has Close reset the connection.
func (c *Conn) SetLinger(sec int) error {
	c.s.n.mu.Lock()
	defer c.s.n.mu.Unlock()
	c.abort = sec == 0
	return nil
}

// SetReadBuffer sets the size of the receive buffer, which bounds what the peer may send from
// the next acknowledgement on.
func (c *Conn) SetReadBuffer(bytes int) error {
	c.s.n.mu.Lock()
	defer c.s.n.mu.Unlock()
	c.s.sizes.receive = bytes
	return nil
}

// SetWriteBuffer sets the size of the send buffer.
func (c *Conn) SetWriteBuffer(bytes int) error {
	c.s.n.mu.Lock()
	defer c.s.n.mu.Unlock()
	c.s.sizes.send = bytes
	return nil
}

// Acked returns how many of the bytes written the peer has acknowledged.
func (c *Conn) Acked() uint64 {
	c.s.n.mu.Lock()
	defer c.s.n.mu.Unlock()
	return c.s.acked
}

// Close ends the connection: after SetLinger(0), and if there is something unread, by a reset.
func (c *Conn) Close() error {
	c.s.n.mu.Lock()
	defer c.s.n.mu.Unlock()
	if c.s.closed {
		return c.opError("close", net.ErrClosed)
	}
	if c.abort {
		c.s.reset()
	} else {
		c.s.close()
	}
	c.s.n.run()
	c.news.set()
	return nil
}

// LocalAddr returns our end, a *net.TCPAddr.
func (c *Conn) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(c.s.local) }

// RemoteAddr returns the peer's end, a *net.TCPAddr.
func (c *Conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.s.remote) }

// SetDeadline sets those of Read and Write.
func (c *Conn) SetDeadline(t time.Time) error { return c.limit(t, &c.read, &c.write) }

// SetReadDeadline sets when Read fails with os.ErrDeadlineExceeded.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.limit(t, &c.read) }

// SetWriteDeadline sets when Write fails with os.ErrDeadlineExceeded.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.limit(t, &c.write) }

// deadline is a time after which waiting ends. The network's lock guards it.
type deadline struct {
	at    time.Time // zero: never
	timer *time.Timer
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (c *Conn) limit(t time.Time, all ...*deadline) error {
	return c.s.n.limit(t, &c.news, all...)
}

// limit sets deadlines of those who wait for news. They look at the new ones.
func (n *Network) limit(t time.Time, news *signal, all ...*deadline) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range all {
		if d.timer != nil {
			d.timer.Stop()
		}
		*d = deadline{at: t}
		if !t.IsZero() && !d.passed() {
			d.timer = time.AfterFunc(time.Until(t), func() {
				n.mu.Lock()
				defer n.mu.Unlock()
				news.set()
			})
		}
	}
	news.set()
	return nil
}

// Listener is a listening socket of a test that speaks the wire by hand, as net.TCPListener is.
type Listener struct {
	l     *listener
	limit deadline // of Accept
}

var _ net.Listener = (*Listener)(nil)

// Listen accepts connections on an address; the network chooses a port that is 0.
func (n *Network) Listen(local netip.AddrPort) (*Listener, error) {
	l, err := n.listen(local, rawSizes)
	if err != nil {
		return nil, err
	}
	return &Listener{l: l}, nil
}

// Accept waits for the next connection, a *Conn.
func (l *Listener) Accept() (net.Conn, error) {
	l.l.n.mu.Lock()
	defer l.l.n.mu.Unlock()
	for {
		if s := l.l.next(); s != nil {
			c := &Conn{s: s}
			s.owner = c
			return c, nil
		}
		if l.l.closed || l.limit.passed() {
			err := net.ErrClosed
			if !l.l.closed {
				err = os.ErrDeadlineExceeded
			}
			return nil, &net.OpError{Op: "accept", Net: networkOf(l.l.addr), Addr: l.Addr(), Err: err}
		}
		news := l.l.news.wait()
		l.l.n.mu.Unlock()
		<-news
		l.l.n.mu.Lock()
	}
}

// SetDeadline sets when Accept fails with os.ErrDeadlineExceeded.
func (l *Listener) SetDeadline(t time.Time) error { return l.l.n.limit(t, &l.l.news, &l.limit) }

// Close ends listening.
func (l *Listener) Close() error {
	l.l.n.mu.Lock()
	defer l.l.n.mu.Unlock()
	l.l.close()
	return nil
}

// Addr is where it listens, a *net.TCPAddr.
func (l *Listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.l.addr) }
