package tcp

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/rds-go/rds/internal/frame"
	"github.com/rds-go/rds/transport"
)

// phase is where a link is in its life; it only moves forward.
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

// ending in link.life says that no new user may come.
const ending = 1 << 30

// link is one TCP connection.
//
// fd is our own duplicate of the socket. life counts its users, the link
// itself being one of them until its connection has ended; whoever leaves last
// calls finish, which tells the handler and closes fd.
type link struct {
	t             *Transport
	fd            int
	local, remote netip.AddrPort
	life          atomic.Int32
	quiet         atomic.Bool // nothing may be written: not started, or about to end
	written       atomic.Uint64
	acked         atomic.Uint64 // the highest reading so far

	h     transport.Handler // set by Start
	in    frame.Parser      // the event loop's
	io    vectors
	watch watch // the writer's

	mu       sync.Mutex
	phase    phase        // guarded by mu
	conn     *net.TCPConn // guarded by mu; while fresh
	loop     gnet.Conn    // guarded by mu; while open
	draining bool         // guarded by mu
	aborting bool         // guarded by mu
	cause    error        // guarded by mu; the first reason to end
	timer    *time.Timer  // guarded by mu; bounds draining
}

var _ transport.Link = (*link)(nil)

// newLink takes over tc, also when it fails.
func (t *Transport) newLink(tc *net.TCPConn, dialed bool) (*link, error) {
	l := &link{t: t, conn: tc, local: addrPort(tc.LocalAddr()), remote: addrPort(tc.RemoteAddr())}
	l.life.Store(1)
	l.quiet.Store(true)
	if err := l.prepare(tc, dialed); err != nil {
		_ = tc.Close()
		return nil, err
	}
	if !t.register(l) {
		_ = unix.Close(l.fd)
		_ = tc.Close()
		return nil, net.ErrClosed
	}
	return l, nil
}

func (l *link) prepare(tc *net.TCPConn, dialed bool) error {
	rc, err := tc.SyscallConn()
	if err != nil {
		return err
	}
	if e := rc.Control(func(fd uintptr) { l.fd, err = duplicate(int(fd)) }); e != nil {
		return e
	}
	if err != nil {
		return err
	}
	err = setOptions(l.fd, &l.t.opts)
	if err == nil {
		err = limitUnsent(l.fd, &l.t.opts, onThisHost(l.local.Addr(), l.remote.Addr()))
	}
	if err == nil {
		err = setCongestion(l.fd, l.t.opts.Congestion)
		if err != nil && !dialed {
			// A peer that connects is served with the system's algorithm.
			l.t.congestionOnce.Do(func() { l.t.log.Warn("accepted link keeps the default congestion control", zap.Error(err)) })
			err = nil
		}
	}
	if err != nil {
		_ = unix.Close(l.fd)
	}
	return err
}

// Start hands the connection to an event loop. It does not wait for it, so it
// may be called from one.
func (l *link) Start(h transport.Handler) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase != fresh {
		return transport.ErrClosed
	}
	l.phase = starting
	tc := l.conn
	l.conn = nil
	l.h = h
	l.quiet.Store(false)
	l.in.Init(h, &l.t.pool, uint32(l.t.opts.MaxMessage), l.t.opts.LaxHeaders)
	// l itself counts in wg until it is finished, so the counter is not zero.
	l.t.wg.Go(func() { l.enroll(tc) })
	return nil
}

// acquire lets the caller use fd until release.
func (l *link) acquire() bool {
	for {
		n := l.life.Load()
		if n&ending != 0 {
			return false
		}
		if l.life.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release ends a use of fd and tells whether the caller must call finish.
func (l *link) release() bool { return l.life.Add(-1) == ending }

// put is release for the methods of a link: their caller may hold what
// Closed needs, so that comes on a goroutine of its own.
func (l *link) put() {
	if l.release() {
		l.t.wg.Go(l.finish)
	}
}

// end says that the connection has ended and gives up the link's own use of fd.
// It is called once.
func (l *link) end(cause error) {
	l.mu.Lock()
	l.phase, l.loop = ended, nil
	if l.cause == nil {
		l.cause = cause
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	l.quiet.Store(true) // with mu held, because Start clears it
	l.mu.Unlock()
	l.life.Or(ending)
	if l.release() {
		l.finish()
	}
}

// finish runs once, after the last use of fd.
func (l *link) finish() {
	l.t.poll.forget(l)
	acked := l.measure()
	if l.h != nil {
		l.mu.Lock()
		cause := l.cause
		l.mu.Unlock()
		l.h.Closed(cause, acked)
	}
	_ = unix.Close(l.fd)
	l.t.unregister(l)
}

// LocalAddr returns our end.
func (l *link) LocalAddr() netip.AddrPort { return l.local }

// RemoteAddr returns the peer's end.
func (l *link) RemoteAddr() netip.AddrPort { return l.remote }

// Stats returns what rds-info -T shows.
func (l *link) Stats() transport.LinkStats {
	s := transport.LinkStats{Acked: l.Acked(), Written: l.written.Load()}
	s.HeaderRemaining, s.PayloadRemaining = l.in.Remaining()
	return s
}
