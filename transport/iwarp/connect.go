package iwarp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"syscall"
	"time"

	"github.com/rds-go/rds/internal/gnetloop"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp/mpa"
	"github.com/rds-go/rds/transport/iwarp/xctl"
)

// ConnParams are one side's wishes for a connection. The zero value asks for
// CRCs and 16 reads each way.
type ConnParams struct {
	// IRD is how many reads and atomics of the peer are held at a time, ORD
	// how many of ours may be outstanding; powers of two are understood by
	// everybody. 0 means 16, negative none.
	IRD, ORD int
	// NoCRC does without the CRC if the peer does not ask for it either.
	NoCRC bool
	// NoLocalCRC does without the CRC towards an address of this host if the peer does
	// not ask for it either. NoCRC need not be set for that.
	NoLocalCRC bool
	// Seal protects the set-up by a checksum, with a peer that knows it: see
	// Established.Sealed. It takes 8 octets of Private. Only for Connect; the accepting
	// side answers as it is asked.
	Seal bool
	// Markers asks the peer to put markers into what it sends. Linux's siw
	// refuses.
	Markers bool
	// PeerToPeer lets the accepting side send first (RFC 6581 section 9.2). Only
	// for Connect; not meant for Linux's siw, which a reset at the wrong moment
	// brings down.
	PeerToPeer bool
	// RTR are the kinds of first message that may be used then, 0 is all, and Prefer the
	// one to use if the peer takes it: 0 is an empty Read, or else an empty Write, or else an
	// empty Send. None takes a receive request, a place in a send queue or a completion of the
	// program's, on either side.
	RTR, Prefer mpa.RTR
	// Rev is the MPA revision to begin with, 2 or 1. 0 means 2, and 1 if the
	// peer seems not to know that.
	Rev uint8
	// Private is handed to the peer's program, up to 252 octets, 220 with Shared.
	Private []byte
	// Guard is how long the connecting side waits before its first message, for
	// peers that need it (Linux's siw). 0 means 5 ms, negative none.
	Guard time.Duration
	// MaxULPDU overrides Config.MaxULPDU.
	MaxULPDU int
	// Shared asks for shared receive queues; nil does without.
	Shared *SharedParams
}

// mpa are the parameters of MPA; here is whether the peer's address is one of this host's.
func (p *ConnParams) mpa(here bool) mpa.Params {
	reads := func(n int) int {
		switch {
		case n == 0:
			return 16
		case n < 0:
			return 0
		}
		return n
	}
	return mpa.Params{
		Rev: p.Rev, IRD: reads(p.IRD), MaxIRD: max(reads(p.IRD), maxIRD), ORD: reads(p.ORD), CRC: !p.NoCRC && !(p.NoLocalCRC && here), Markers: p.Markers, Seal: p.Seal,
		PeerToPeer: p.PeerToPeer, RTR: p.RTR, Prefer: p.Prefer, Private: p.Private, MaxPrivate: mpa.MaxReplyPrivate,
	}
}

// maxIRD is how far a peer may raise our IRD.
const maxIRD = 128

func (p *ConnParams) validate() error {
	if p.MaxULPDU != 0 && (p.MaxULPDU < minMaxULPDU || p.MaxULPDU > mpa.MaxULPDU) {
		return badField("ConnParams.MaxULPDU", "%d is not 0 or in %d..%d", p.MaxULPDU, minMaxULPDU, mpa.MaxULPDU)
	}
	if s := p.Shared; s != nil && s.Reservation != nil && s.Sink == nil {
		return badField("SharedParams.Reservation", "set without Sink")
	}
	m := p.mpa(false)
	return m.Validate()
}

// Established says what a connection is like.
type Established struct {
	Local, Remote netip.AddrPort
	Rev           uint8
	CRC           bool
	PeerToPeer    bool
	IRD, ORD      int        // the limits in force
	PeerPrefix    mpa.Prefix // the peer's raw IRD and ORD, if Rev is 2
	Private       []byte     // what the peer's program has sent
	Sealed        bool       // the peer's set-up frame had a checksum, which is right
	Shared        bool       // both sides have shared receive queues: messages may name them
	Peer          xctl.Block // if Shared: what the peer said of its shared receive queues
}

func (s *stream) established(set *mpa.Settled) *Established {
	e := &Established{Local: s.conn.LocalAddr(), Remote: s.conn.RemoteAddr(), Rev: set.Rev, CRC: set.CRC,
		PeerToPeer: set.PeerToPeer, IRD: set.IRD, ORD: set.ORD, PeerPrefix: set.Peer, Private: set.PeerPrivate, Sealed: set.Sealed}
	if s.shared != nil {
		e.Shared, e.Peer = true, s.shared.agreed.Peer
	}
	return e
}

// Connect connects q, in StateInit, to a listener. Work requests may be posted
// when it returns nil; q is in StateRTS then. After an error q is as before and
// may be tried again; only if ctx ended in the last moment it may be in
// StateError.
//
// A peer that rejects gives a *RejectedError.
func (d *Device) Connect(ctx context.Context, q *QP, remote netip.AddrPort, p ConnParams) (*Established, error) {
	return d.ConnectFrom(ctx, q, netip.AddrPort{}, remote, p)
}

// ConnectFrom is Connect with the local address given.
func (d *Device) ConnectFrom(ctx context.Context, q *QP, local, remote netip.AddrPort, p ConnParams) (*Established, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	if err := q.take(d); err != nil {
		return nil, err
	}
	set, s, err := d.connect(ctx, q, local, remote, p)
	if err != nil && p.Rev == 0 && ctx.Err() == nil && !errors.Is(err, syscall.ETIMEDOUT) && s != nil && s.mayRetry() {
		p.Rev = 1
		set, s, err = d.connect(ctx, q, local, remote, p)
	}
	if err != nil {
		q.untake()
		return nil, fmt.Errorf("iwarp: connect %v: %w", remote, err)
	}
	d.stats.connects.Add(1)
	return s.established(set), nil
}

// take reserves q for one connection.
func (q *QP) take(d *Device) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dev != d {
		return fmt.Errorf("iwarp: queue pair of another device: %w", syscall.EINVAL)
	}
	if q.state != StateInit || q.taken {
		return fmt.Errorf("%w: connect in state %v", ErrState, q.state)
	}
	q.taken = true
	return nil
}

func (q *QP) untake() {
	q.mu.Lock()
	q.taken = false
	q.mu.Unlock()
}

func (d *Device) connect(ctx context.Context, q *QP, local, remote netip.AddrPort, p ConnParams) (*mpa.Settled, *stream, error) {
	var private []byte
	if p.Shared != nil {
		block := p.Shared.block()
		var err error
		if private, err = block.Offer(nil, p.Private); err != nil {
			return nil, nil, err
		}
	}
	var err error
	dial := func(ctx context.Context) (gnetloop.Stream, error) { return d.engine.Dial(ctx, local, remote) }
	var conn gnetloop.Stream
	if local.Port() == 0 {
		conn, err = gnetloop.Insist(ctx, dial)
	} else {
		conn, err = dial(ctx) // Two attempts cannot have the same port, so there is only one.
	}
	if err != nil {
		return nil, nil, err
	}
	m := p.mpa(conn.Here())
	if private != nil {
		m.Private = private
	}
	ini, err := mpa.NewInitiator(m)
	if err != nil {
		conn.Close(transport.Abort)
		return nil, nil, err
	}
	s := d.newStream(conn)
	s.q, s.ini, s.params = q, ini, p
	s.phase.Store(phaseReply)
	s.mu.Lock()
	err = conn.Start(s)
	if err == nil {
		s.startTimerLocked(d.cfg.ReplyTimeout, func() { s.abandon(fmt.Errorf("%w: %w", ErrNoReply, syscall.ETIMEDOUT)) })
	}
	if err != nil {
		s.mu.Unlock()
		conn.Close(transport.Abort)
		return nil, nil, err
	}
	// Under the lock, because what the Reply lets go may only be written when
	// this call has returned.
	err = s.say(ini.AppendRequest(nil))
	s.mu.Unlock()
	if err != nil {
		s.abandon(err)
	}
	select {
	case e := <-s.up:
		return e.set, s, e.err
	case <-ctx.Done():
		s.settle(established{err: fmt.Errorf("%w: %w", ErrNoReply, ctx.Err())})
		e := <-s.up // the connection may have come up in time all the same
		if e.err != nil && !s.abandon(e.err) {
			q.fail(failure{err: e.err, status: Flushed, abort: true})
		}
		return e.set, s, e.err
	}
}

// say writes a set-up frame, which always fits an empty socket.
func (s *stream) say(frame []byte) error {
	n, err := s.conn.Writev([][]byte{frame})
	if err == nil && n < len(frame) {
		err = syscall.ENOBUFS
	}
	return err
}

// abandon ends a set-up that has not succeeded. If it has, nothing happens, and
// it returns false: the timer that calls it may have run out in that moment.
func (s *stream) abandon(err error) bool {
	s.mu.Lock()
	open := s.phase.Load() == phaseOpen
	if !open {
		s.stopTimerLocked()
		s.phase.Store(phaseEnded)
	}
	s.mu.Unlock()
	if !open {
		s.settle(established{err: err})
		s.conn.Close(transport.Abort)
	}
	return !open
}

// mayRetry tells whether a peer that only knows revision 1 would have behaved
// as this one (RFC 6581 section 10).
func (s *stream) mayRetry() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ini.RetryRev1()
}

// negotiate takes what comes before the stream is open.
func (s *stream) negotiate(b []byte) error {
	s.mu.Lock()
	switch s.phase.Load() {
	case phaseReply:
		return s.takeReply(b) // takeReply unlocks s.mu
	case phaseRequest, phaseDeciding:
		req, err := s.res.Feed(b)
		if err != nil {
			s.refuseRequestLocked(err)
		} else if req != nil && s.phase.Load() == phaseRequest {
			s.phase.Store(phaseDeciding)
			s.asked = req.Private
			s.startTimerLocked(mpa.DecideTimeout, func() { s.abandon(syscall.ETIMEDOUT) })
			s.mu.Unlock()
			s.ln.offer(&Incoming{s: s, Request: *req})
			return nil
		}
	case phaseOpen:
		// Accept was faster than this call.
		s.mu.Unlock()
		return s.Feed(b)
	}
	s.mu.Unlock()
	return nil
}

// takeReply opens the stream if the peer accepts. It unlocks.
func (s *stream) takeReply(b []byte) error {
	n, set, err := s.ini.Feed(b)
	if err != nil {
		s.dev.countChanged(err)
		s.phase.Store(phaseEnded)
		s.stopTimerLocked()
		s.mu.Unlock()
		if t := s.setupTerminate(set, err); t != nil {
			_ = s.say(t)
		}
		s.settle(established{err: setupError(err)})
		s.conn.Close(transport.Drain)
		return nil
	}
	if set == nil {
		s.mu.Unlock()
		return nil
	}
	if p := s.params.Shared; p != nil {
		var agreed xctl.Agreed
		block := p.block()
		if agreed, set.PeerPrivate, err = block.Settle(set.PeerPrivate); err == nil {
			err = s.share(p, agreed)
		}
	}
	if err == nil {
		err = s.openLocked(set, StateRTS, &s.params)
	}
	s.mu.Unlock()
	if err != nil {
		s.abandon(err)
		return nil
	}
	guard := s.params.Guard
	if guard == 0 {
		guard = mpa.GuardDelay
	}
	start := func() {
		s.release()
		s.settle(established{set: set})
	}
	if guard > 0 {
		s.mu.Lock()
		s.startTimerLocked(guard, start)
		s.mu.Unlock()
	} else {
		start()
	}
	if n < len(b) {
		s.rx.feed(b[n:]) // a responder may send before it has heard from us
	}
	return nil
}

// RejectedError is the answer of a peer that refused.
type RejectedError struct {
	Prefix  mpa.Prefix // the limits that the peer would have needed, if it said so
	Private []byte     // the reason that the peer's program has given
}

func (e *RejectedError) Error() string { return ErrRejected.Error() }

// Unwrap gives ErrRejected.
func (e *RejectedError) Unwrap() error { return ErrRejected }

// setupError is what the program hears of a set-up that has failed.
func setupError(err error) error {
	var r *mpa.RejectedError
	switch {
	case errors.As(err, &r):
		return &RejectedError{Prefix: r.Peer, Private: r.Private}
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: %w", ErrPeerClosed, syscall.ECONNRESET)
	case errors.Is(err, transport.ErrClosed):
		return ErrClosed
	}
	return err
}
