package iwarp

import (
	"context"
	"net/netip"
	"sync"
	"syscall"

	"github.com/rds-go/rds/internal/gnetloop"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp/mpa"
	"github.com/rds-go/rds/transport/iwarp/rdmap"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// Listener hands out connection requests.
type Listener struct {
	dev   *Device
	ln    gnetloop.StreamListener
	queue chan *Incoming
	done  chan struct{}
	once  sync.Once
}

// Listen accepts connections on a local address; port 0 picks one. What a peer
// may ask for is for Accept to decide.
func (d *Device) Listen(local netip.AddrPort) (*Listener, error) {
	l := &Listener{dev: d, queue: make(chan *Incoming, d.cfg.Backlog), done: make(chan struct{})}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, ErrClosed
	}
	ln, err := d.engine.Listen(local, l.accepted)
	if err != nil {
		return nil, err
	}
	l.ln = ln
	d.lns[l] = true
	return l, nil
}

// Sockets are the listening sockets, which another process can take over.
func (d *Device) Sockets() gnetloop.Sockets { return d.engine }

// Addr is where it listens.
func (l *Listener) Addr() netip.AddrPort { return l.ln.Addr() }

// Close ends listening. Requests that nobody has taken are refused; those taken
// can still be accepted.
func (l *Listener) Close() error {
	err := ErrClosed
	l.once.Do(func() {
		err = nil
		close(l.done)
		l.ln.Close()
		l.dev.mu.Lock()
		delete(l.dev.lns, l)
		l.dev.mu.Unlock()
		for {
			select {
			case in := <-l.queue:
				in.s.abandon(ErrClosed)
			default:
				return
			}
		}
	})
	return err
}

// accepted takes a new TCP connection.
func (l *Listener) accepted(conn gnetloop.Stream) {
	s := l.dev.newStream(conn)
	s.ln = l
	// What is refused before the program is asked; its own terms come with
	// Accept.
	s.res, _ = mpa.NewResponder(mpa.Params{MaxPrivate: mpa.MaxPrivate})
	s.phase.Store(phaseRequest)
	s.mu.Lock()
	defer s.mu.Unlock()
	if conn.Start(s) != nil {
		conn.Close(transport.Abort)
		return
	}
	s.startTimerLocked(l.dev.cfg.RequestTimeout, func() { s.abandon(syscall.ETIMEDOUT) })
}

// offer queues a request for Accept; beyond the backlog it is refused.
func (l *Listener) offer(in *Incoming) {
	select {
	case <-l.done:
		in.s.abandon(ErrClosed)
		return
	default:
	}
	select {
	case l.queue <- in:
	default:
		_ = in.Reject(nil)
	}
}

// Accept waits for the next request.
func (l *Listener) Accept(ctx context.Context) (*Incoming, error) {
	select {
	case in := <-l.queue:
		return in, nil
	case <-l.done:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Incoming is a peer's request for a connection: one call of Accept or Reject
// decides it, within 30 s.
type Incoming struct {
	s *stream
	mpa.Request
}

// Remote is who asks.
func (in *Incoming) Remote() netip.AddrPort { return in.s.conn.RemoteAddr() }

// Local is the address that the peer connected to.
func (in *Incoming) Local() netip.AddrPort { return in.s.conn.LocalAddr() }

// Upper is what the peer's program says, without the block of shared receive queues.
func (in *Incoming) Upper() []byte { return xctl.Upper(in.Private) }

// Reject refuses; private is handed to the peer's program.
func (in *Incoming) Reject(private []byte) error {
	s := in.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase.Load() != phaseDeciding {
		return ErrClosed
	}
	if err := s.res.Reject(private); err != nil {
		return err
	}
	s.refuseRequestLocked(nil)
	return nil
}

// refuseRequestLocked sends the rejecting Reply, if there is one, and closes.
func (s *stream) refuseRequestLocked(err error) {
	s.phase.Store(phaseEnded)
	s.stopTimerLocked()
	s.dev.stats.rejects.Add(1)
	s.dev.countChanged(err)
	mode := transport.Abort
	if reply := s.res.Reply(); reply != nil && s.say(reply) == nil {
		mode = transport.Drain
	}
	s.settle(established{err: err})
	s.conn.Close(mode)
}

// Accept gives the connection to q, in StateInit. Receive requests should be
// posted before; work requests may be posted when it returns nil and leave when
// the peer's first message has come (RFC 5044 section 7.1.2). For a peer-to-peer
// connection Accept waits for that.
func (in *Incoming) Accept(ctx context.Context, q *QP, p ConnParams) (*Established, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	s := in.s
	if err := q.take(s.dev); err != nil {
		return nil, err
	}
	set, err := s.accept(q, p)
	if err == nil && set.PeerToPeer {
		err = s.awaitRTR(ctx)
	} else if err != nil {
		q.untake()
	}
	if err != nil {
		return nil, err
	}
	s.dev.stats.accepts.Add(1)
	return s.established(set), nil
}

func (s *stream) accept(q *QP, p ConnParams) (*mpa.Settled, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase.Load() != phaseDeciding {
		return nil, ErrClosed
	}
	m := p.mpa(s.conn.Here())
	if err := s.answerLocked(&p, &m); err != nil {
		return nil, err
	}
	set, err := s.res.Accept(m)
	if err != nil {
		s.shared = nil
		if s.res.Reply() != nil {
			s.refuseRequestLocked(err)
		}
		return nil, err
	}
	s.q = q
	if p.Shared != nil {
		set.PeerPrivate = s.upper
	}
	// The receiver must be ready before the Reply leaves.
	if err := s.openLocked(set, StateRTR, &p); err != nil {
		s.refuseRequestLocked(err)
		return nil, err
	}
	if err := s.say(s.res.Reply()); err != nil {
		s.conn.Close(transport.Abort) // Closed then ends the queue pair
	}
	s.ready.Store(true)
	if set.PeerToPeer {
		s.startTimerLocked(s.dev.cfg.RTRTimeout, func() {
			q.fail(failure{err: syscall.ETIMEDOUT, status: Flushed, abort: true})
		})
	} else {
		s.conn.Settled() // the peer may be silent as long as its program likes
	}
	return set, nil
}

// awaitRTR waits for the first message of a peer-to-peer connection.
func (s *stream) awaitRTR(ctx context.Context) error {
	select {
	case e := <-s.up:
		s.mu.Lock()
		s.stopTimerLocked()
		s.mu.Unlock()
		return e.err
	case <-ctx.Done():
		s.q.fail(failure{err: ctx.Err(), status: Flushed, abort: true})
		return ctx.Err()
	}
}

// setupTerminate is the Terminate that is due for an error in the Reply (RFC
// 6581 section 9), nil if none is. set says how it is framed.
func (s *stream) setupTerminate(set *mpa.Settled, err error) []byte {
	if set == nil {
		return nil
	}
	t := rdmap.NewTerminate(rdmap.CauseOf(err), nil)
	ulpdu := t.AppendTo(rdmap.TerminateHeader().AppendTo(nil))
	if set.SendMarkers {
		return new(mpa.MarkerWriter).Append(nil, mpa.AppendContent(nil, ulpdu), set.CRC)
	}
	return mpa.AppendFPDU(nil, ulpdu, set.CRC)
}
