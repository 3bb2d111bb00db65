package rdma

import (
	"errors"
	"io"
	"net/netip"
	"sync"
	"time"

	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp"
)

// link is a queue pair with RDS messages on it.
type link struct {
	transport.Plain
	t             *Transport
	qp            *iwarp.QP
	cq            *iwarp.CQ // completion queue of operations
	local, remote netip.AddrPort
	hello         hello  // hello of the side that dialed
	generation    uint32 // the peer's generation
	crc           bool   // segments have a CRC
	in            input
	routes        routes                   // which of the peer's queues messages go to
	queueOf       func(port uint16) uint32 // routes.queue

	// The writer's.
	out  sender
	reqs []iwarp.WorkRequest // scratch of operate
	runs []*running          // scratch of operate
	ops  operations

	mu      sync.Mutex
	h       transport.Handler // guarded by mu; nil before Start
	hears   int               // guarded by mu: calls of Writable under way
	over    bool              // guarded by mu: the queue pair has ended
	closing bool              // guarded by mu: Close was called
	aborted bool              // guarded by mu: Close was called with Abort
	late    bool              // guarded by mu: the peer did not end its side in time
	drain   *time.Timer       // guarded by mu
	cause   error             // guarded by mu; set with over
	once    sync.Once
}

func (l *link) params(path int) iwarp.ConnParams {
	p := iwarp.ConnParams{
		// Peers of RDS on XRC know revision 2. Without Rev the set-up would be tried again
		// with revision 1 after a peer has refused a Request that had changed on its way.
		Rev: 2,
		IRD: maxReads, ORD: maxReads, PeerToPeer: true, Guard: -1, Seal: true,
		Private: hello{path: uint8(path), generation: l.t.opts.Generation}.bytes(),
		Shared: &iwarp.SharedParams{
			Silence: l.t.opts.Silence,
			Queues:  l.t, Sink: &l.in, Reservation: l.t.reservation,
			Errors: -1, Require: true,
		},
	}
	l.t.opts.CRC.ask(&p)
	return p
}

// maxReads is how many reads and atomics one side may have outstanding.
const maxReads = 64

// Start begins delivery to h.
func (l *link) Start(h transport.Handler) error {
	l.mu.Lock()
	if l.h != nil || l.closing {
		l.mu.Unlock()
		return transport.ErrClosed
	}
	l.h = h
	l.in.start(h, &l.t.pool, uint32(l.t.opts.MaxMessage))
	over := l.over
	l.mu.Unlock()
	if over { // the queue pair had ended before Start, when there was no handler to tell
		l.t.work.Go(l.finish)
		return nil
	}
	l.qp.SinkReady()
	return nil
}

// Acked returns how much of what was written the peer's RDS has taken.
func (l *link) Acked() uint64 { return l.qp.FramesAcked() }

// Ask has the peer tell now what it has taken.
func (l *link) Ask() { l.qp.AskAcked() }

// Close ends the link.
func (l *link) Close(mode transport.CloseMode) {
	l.mu.Lock()
	started, first := l.h != nil, !l.closing
	if !started && l.over && first {
		l.closing = true
		l.mu.Unlock()
		l.t.work.Go(l.finish)
		return
	}
	l.closing = true
	abort := (mode == transport.Abort || !started) && !l.aborted
	l.aborted = l.aborted || abort
	if !abort && first && !l.over {
		l.drain = time.AfterFunc(l.t.opts.DrainTimeout, l.drainTimeout)
	}
	l.mu.Unlock()
	switch {
	case abort:
		l.qp.Reset()
	case first && l.qp.Disconnect() != nil:
		l.Close(transport.Abort)
	}
}

func (l *link) drainTimeout() {
	l.mu.Lock()
	l.late = !l.aborted
	l.mu.Unlock()
	l.Close(transport.Abort)
}

// LocalAddr returns our end.
func (l *link) LocalAddr() netip.AddrPort { return l.local }

// RemoteAddr returns the peer's end.
func (l *link) RemoteAddr() netip.AddrPort { return l.remote }

// Caps are what the set-up has settled.
func (l *link) Caps() transport.Caps {
	return transport.Caps{Operations: true, Refuses: l.qp.Refuses(), Queues: true, Reserves: l.qp.Reserves(), AcksTold: true,
		Path: int(l.hello.path), Generation: l.generation, GenerationStated: true, CRC: l.crc}
}

// TCPInfo is what the kernel knows of the connection.
func (l *link) TCPInfo() (transport.TCPInfo, bool) { return l.qp.TCPInfo() }

// Stats returns what reports show of the link.
func (l *link) Stats() transport.LinkStats {
	s := transport.LinkStats{Transport: Name, Acked: l.Acked(), Written: l.qp.FramesSent(), Operations: l.ops.outstanding()}
	s.HeaderRemaining, s.PayloadRemaining = l.in.Remaining()
	return s
}

// writable tells the handler, unless it has heard the end.
func (l *link) writable() {
	l.mu.Lock()
	if l.h == nil || l.over {
		l.mu.Unlock()
		return
	}
	l.hears++
	l.mu.Unlock()
	l.h.Writable()
	l.mu.Lock()
	l.hears--
	last := l.over && l.hears == 0
	l.mu.Unlock()
	if last {
		l.t.work.Go(l.finish)
	}
}

// ended follows the last call of the queue pair.
func (l *link) ended(cause error) {
	l.mu.Lock()
	l.over, l.cause = true, cause
	switch {
	case l.late:
		l.cause = transport.ErrDrainTimeout
	case errors.Is(cause, iwarp.ErrPeerClosed), errors.Is(cause, iwarp.ErrClosed) && l.closing && !l.aborted:
		l.cause = io.EOF // either side has ended after the other
	case errors.Is(cause, iwarp.ErrClosed):
		l.cause = transport.ErrClosed
	}
	if l.drain != nil {
		l.drain.Stop()
	}
	now := l.hears == 0 && (l.h != nil || l.closing)
	l.mu.Unlock()
	if now {
		l.finish()
	}
}

// finish reports the end and gives back what the link has. It is called when nobody
// is in a handler, and does it once.
func (l *link) finish() {
	l.once.Do(func() {
		l.qp.Reset() // for a queue pair that was never connected
		<-l.qp.Done()
		acked := l.Acked()
		l.endOperations()
		_ = l.qp.Close()
		if l.h != nil {
			l.in.Reset()
			l.h.Closed(l.cause, acked)
		}
		l.t.ended(l)
	})
}
