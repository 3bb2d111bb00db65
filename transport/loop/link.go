package loop

import (
	"io"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

// drainTimeout is how long Close(transport.Drain) waits for the peer.
const drainTimeout = 5 * time.Second

// ending in link.life says that no new user may come.
const ending = 1 << 30

// link is one end of a connection. life counts who may still call its handler,
// the link itself being one until it has ended; the last one to leave sees to
// finish, which calls Closed.
type link struct {
	transport.Plain
	t             *Transport
	local, remote netip.AddrPort
	accepted      bool
	send, recv    *pipe
	life          atomic.Int32
	written       atomic.Uint64
	acked         atomic.Uint64 // constant once life has ended
	ops           *operator     // nil: the other end's transport exposes no memory
	out           sender
	refused       atomic.Uint64 // refused messages

	h transport.Handler // set by Start

	mu       lockorder.Mutex[link]
	started  bool        // guarded by mu
	draining bool        // guarded by mu
	ended    bool        // guarded by mu
	cause    error       // guarded by mu; why the link has ended
	timer    *time.Timer // guarded by mu; bounds draining
}

func newLink(t *Transport, local, remote netip.AddrPort) *link {
	l := &link{t: t, local: local, remote: remote}
	l.life.Store(1)
	return l
}

// join connects the dialed end a and the accepted end b.
func join(a, b *link) {
	b.accepted = true
	a.operateOn(b.t.memory)
	b.operateOn(a.t.memory)
	a.send = &pipe{src: a, dst: b}
	b.send = &pipe{src: b, dst: a}
	a.recv, b.recv = b.send, a.send
}

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

// put undoes acquire. Closed never comes from a caller's own stack.
func (l *link) put() {
	if l.life.Add(-1) == ending {
		l.t.wg.Go(l.finish) // wg counts l until it is finished
	}
}

// Start begins delivery.
func (l *link) Start(h transport.Handler) error {
	if !l.acquire() {
		return transport.ErrClosed
	}
	defer l.put()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.started || l.ended {
		return transport.ErrClosed
	}
	l.started = true
	l.h = h
	l.recv.in.Init(h, &l.t.pool, wire.MaxPayload, false)
	l.recv.start()
	return nil
}

// Caps of a link: the other end is a node like this one, which hears of refusals.
func (l *link) Caps() transport.Caps {
	return transport.Caps{Operations: l.ops != nil, Pauses: true, Refuses: true, Path: -1}
}

// Refuse tells the other end at once: what it has written counts as acknowledged when
// this call's Message and those of the same write have returned.
func (l *link) Refuse(number uint64, why transport.Refusal) bool {
	o := l.recv.src
	if !o.acquire() {
		return false
	}
	defer o.put()
	o.mu.Lock()
	h := o.h
	o.mu.Unlock()
	if h != nil {
		h.Refused(number, 1, why)
	}
	l.h.RefusalsHeard(l.refused.Add(1))
	return true
}

func (l *link) writable() {
	if !l.acquire() {
		return
	}
	defer l.put()
	l.mu.Lock()
	h := l.h
	l.mu.Unlock()
	if h != nil {
		l.t.writeSpace.Add(1)
		h.Writable()
	}
}

// Close ends the link, see transport.Link.
func (l *link) Close(mode transport.CloseMode) {
	l.mu.Lock()
	if mode == transport.Abort || !l.started {
		l.mu.Unlock()
		l.end(transport.ErrClosed, mode == transport.Abort)
		return
	}
	if l.draining || l.ended {
		l.mu.Unlock()
		return
	}
	l.draining = true
	l.timer = time.AfterFunc(drainTimeout, l.undrained)
	l.mu.Unlock()
	l.send.end(false)
}

// undrained is the end of the time for draining, unless the link is paused.
func (l *link) undrained() {
	l.mu.Lock()
	if !l.ended && l.recv.isPaused() {
		l.timer.Reset(drainTimeout)
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	l.end(transport.ErrDrainTimeout, true)
}

// Pause stops delivering to this end.
func (l *link) Pause() { l.recv.pause() }

// Resume has the handler's Resumed called.
func (l *link) Resume() {
	if l.acquire() {
		l.recv.goOn()
		l.put()
	}
}

// eof ends the link when the other end has ended its side: at once, or, where both have
// and the other end is paused, when that has taken the rest, which counts as acknowledged.
func (l *link) eof() {
	if !l.send.outlasts() {
		l.end(io.EOF, false)
	}
}

// end ends the link for good, the first time it is called. The peer hears of
// it after what was written, or with reset at once.
func (l *link) end(cause error, reset bool) {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return
	}
	l.ended, l.cause = true, cause
	if l.timer != nil {
		l.timer.Stop()
	}
	l.mu.Unlock()
	l.recv.kill()
	l.send.end(reset)
	l.life.Or(ending)
	l.put()
}

// finish runs once, after the last use of the link.
func (l *link) finish() {
	if l.ops != nil {
		l.ops.close()
	}
	if l.h != nil {
		l.recv.in.Reset()
		l.h.Closed(l.cause, l.acked.Load())
	}
	l.t.unregister(l)
}

// Acked returns how many of the written bytes the other end has taken.
func (l *link) Acked() uint64 { return l.acked.Load() }

// LocalAddr returns our end.
func (l *link) LocalAddr() netip.AddrPort { return l.local }

// RemoteAddr returns the peer's end.
func (l *link) RemoteAddr() netip.AddrPort { return l.remote }

// Stats returns what rds-info -T shows.
func (l *link) Stats() transport.LinkStats {
	s := transport.LinkStats{Transport: "loop", Acked: l.acked.Load(), Written: l.written.Load(), HeaderRemaining: wire.HeaderSize}
	if l.recv.isStarted() {
		s.HeaderRemaining, s.PayloadRemaining = l.recv.in.Remaining()
	}
	return s
}
