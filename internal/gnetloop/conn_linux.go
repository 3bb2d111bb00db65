package gnetloop

import (
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/transport"
)

// phase is where a connection is in its life; it only moves forward.
//
//	fresh --Start--> starting --event loop has it--> open --OnClose--> ended
//	  |                  +--event loop does not take it--------------->  |
//	  +--Close---------------------------------------------------------> +
type phase uint8

const (
	fresh    phase = iota // has a net.TCPConn, no handler
	starting              // being enrolled
	open                  // belongs to an event loop
	ended                 // the life bit is, or is about to be, set
)

// ending in Conn.life says that no new user may come.
const ending = 1 << 30

// Conn is one TCP connection. Dial and Listen make it; it does nothing before
// Start, and nothing of it is left after Handler.Closed.
type Conn struct {
	// fd is our own duplicate of the socket. life counts its users, the
	// connection itself being one of them until it has ended; whoever leaves
	// last calls finish, which tells the handler and closes fd.
	e             *Engine
	fd            int
	local, remote netip.AddrPort
	here          bool          // remote is an address of this host
	over          chan struct{} // closed when nothing is left of an accepted connection; nil: the connection was dialed
	half          bool          // the connection is one of Engine.half; guarded by that one's lock
	life          atomic.Int32
	quiet         atomic.Bool // nothing may be written: not started, or about to end
	written       atomic.Uint64
	acked         atomic.Uint64            // highest count of acknowledged bytes read so far
	woken         atomic.Bool              // Handler.Wake is due
	bell          atomic.Pointer[doorbell] // doorbell of the event loop, set when the connection is open

	h       Handler // set by Start
	io      vectors
	watch   watch   // used by the writer and by finish
	begun   begun   // used by Engine.lookForSilence only
	silence silence // used by Engine.lookForSilence only
	lax     bool    // used by Engine.lookForSilence only: retransmissions are as far apart as the kernel likes

	mu       lockorder.Mutex[Conn]
	phase    phase        // guarded by mu
	tcp      *net.TCPConn // guarded by mu; set while phase is fresh
	loop     place        // guarded by mu; set while phase is open
	draining bool         // guarded by mu
	aborting bool         // guarded by mu
	paused   bool         // written by the event loop with mu held
	cause    error        // guarded by mu; the first reason for the end
	timer    *time.Timer  // guarded by mu; bounds draining
}

// newConn takes over tc, also when it fails.
func (e *Engine) newConn(tc *net.TCPConn, dialed bool) (*Conn, error) {
	c := &Conn{e: e, tcp: tc, local: addrPort(tc.LocalAddr()), remote: addrPort(tc.RemoteAddr())}
	c.life.Store(1)
	c.quiet.Store(true)
	if !dialed {
		c.over = make(chan struct{})
	}
	if err := c.prepare(tc, dialed); err != nil {
		_ = tc.Close()
		return nil, err
	}
	if !e.register(c) {
		_ = unix.Close(c.fd)
		_ = tc.Close()
		return nil, net.ErrClosed
	}
	return c, nil
}

func (c *Conn) prepare(tc *net.TCPConn, dialed bool) error {
	rc, err := tc.SyscallConn()
	if err != nil {
		return err
	}
	if e := rc.Control(func(fd uintptr) { c.fd, err = duplicate(int(fd)) }); e != nil {
		return e
	}
	if err != nil {
		return err
	}
	if c.fd >= c.e.bound {
		err = errReserved
	} else {
		err = setOptions(c.fd, &c.e.opts)
	}
	if err == nil {
		c.here = onThisHost(c.local.Addr(), c.remote.Addr())
		err = limitUnsent(c.fd, &c.e.opts, c.here)
	}
	if err == nil {
		err = setCongestion(c.fd, c.e.opts.Congestion)
		if err != nil && !dialed {
			// A peer that connects is served with the system's algorithm.
			c.e.congestionOnce.Do(func() { c.e.log.Warn("accepted link keeps the default congestion control", zap.Error(err)) })
			err = nil
		}
	}
	if err != nil {
		_ = unix.Close(c.fd)
	}
	return err
}

// Start hands the connection to an event loop, which delivers to h. It does
// not wait for it, so it may be called from one. A connection that was not
// started delivers nothing and must be closed or started once; what is not
// fresh any more answers transport.ErrClosed.
func (c *Conn) Start(h Handler) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase != fresh {
		return transport.ErrClosed
	}
	c.phase = starting
	tc := c.tcp
	c.tcp = nil
	c.h = h
	c.quiet.Store(false)
	// c itself counts in wg until it is finished, so the counter is not zero.
	c.e.wg.Go(func() { c.enroll(tc) })
	return nil
}

// acquire lets the caller use fd until release.
func (c *Conn) acquire() bool {
	for {
		n := c.life.Load()
		if n&ending != 0 {
			return false
		}
		if c.life.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release ends a use of fd and tells whether the caller must call finish.
func (c *Conn) release() bool { return c.life.Add(-1) == ending }

// put is release for the exported methods: their caller may hold what Closed
// needs, so that comes on a goroutine of its own.
func (c *Conn) put() {
	if c.release() {
		c.e.wg.Go(c.finish)
	}
}

// end says that the connection has ended and gives up its own use of fd. It is
// called once.
func (c *Conn) end(cause error) {
	c.mu.Lock()
	c.phase, c.loop = ended, nil
	if c.cause == nil {
		c.cause = cause
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	c.quiet.Store(true) // with mu held, because Start clears it
	c.mu.Unlock()
	c.life.Or(ending)
	if c.release() {
		c.finish()
	}
}

// finish runs once, after the last use of fd.
func (c *Conn) finish() {
	c.e.half.remove(c)
	c.e.poll.forget(c)
	c.measure()
	if c.h != nil {
		c.mu.Lock()
		cause := c.cause
		c.mu.Unlock()
		c.h.Closed(cause)
	}
	_ = unix.Close(c.fd)
	if c.over != nil {
		close(c.over)
	}
	c.e.unregister(c)
}

// Here tells whether the peer's address is one of this host's.
func (c *Conn) Here() bool { return c.here }

// LocalAddr returns our end, an IPv4 address unmapped.
func (c *Conn) LocalAddr() netip.AddrPort { return c.local }

// RemoteAddr returns the peer's end, an IPv4 address unmapped.
func (c *Conn) RemoteAddr() netip.AddrPort { return c.remote }
