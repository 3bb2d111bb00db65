package choice

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport"
)

// ErrForced: the peer is served by another transport than the one asked for.
var ErrForced = errors.New("choice: peer is served by another transport")

// Options sets up a Transport.
type Options struct {
	// Preferred and Other are the two transports. Close closes both.
	Preferred, Other transport.Transport
	// Absent tells whether an error of a Dial means that somebody is there who does
	// not speak the transport. Refused connections (ECONNREFUSED) always do.
	Absent func(error) bool
	// Patience is how long the preferred transport may take with a peer that nothing
	// is known of, and be refused by one that has spoken it, before the other one is
	// tried. 0 means 1 s.
	Patience time.Duration
	// Logger hears which transport serves whom. nil logs nothing.
	Logger *zap.Logger
}

// exposing is a transport of transport.Operators.
type exposing interface {
	Regions() *mr.Device
	Domain() *mr.Domain
}

// Transport chooses between two transports.
type Transport struct {
	opts Options

	mu     sync.Mutex
	peers  map[netip.Addr]*peer     // guarded by mu
	lns    map[netip.Addr]*listener // guarded by mu
	closed bool                     // guarded by mu
	watch  func(netip.Addr)         // guarded by mu; nil: nobody wants to know
}

// peer is what is known of a peer. Its fields are guarded by Transport.mu.
type peer struct {
	chosen transport.Transport // nil: not known yet
	forced bool
	away   time.Time // since when the preferred one is refused, which had been chosen; zero: it is not
}

var (
	_ transport.Transport = (*Transport)(nil)
	_ exposing            = (*Transport)(nil)
)

// New makes a transport of two.
func New(opts Options) *Transport {
	if opts.Absent == nil {
		opts.Absent = func(error) bool { return false }
	}
	if opts.Patience == 0 {
		opts.Patience = time.Second
	}
	if opts.Logger == nil {
		opts.Logger = zap.NewNop()
	}
	t := &Transport{opts: opts, peers: make(map[netip.Addr]*peer), lns: make(map[netip.Addr]*listener)}
	for _, tr := range []transport.Transport{opts.Preferred, opts.Other} {
		if r, ok := tr.(rejecting); ok {
			r.Admit(func(remote netip.Addr) bool { return t.admits(tr, remote) })
		}
	}
	return t
}

// rejecting is a transport that can tell a peer, before there is a link, to use
// another one.
type rejecting interface {
	Admit(admit func(remote netip.Addr) bool)
}

// admits tells whether a peer may be served by tr.
func (t *Transport) admits(tr transport.Transport, remote netip.Addr) bool {
	p := t.look(remote)
	return !p.forced || p.chosen == tr
}

// Name is that of the preferred transport and the other one, as "xrc+tcp".
func (t *Transport) Name() string { return t.opts.Preferred.Name() + "+" + t.opts.Other.Name() }

// Chosen is the name of the transport that serves a peer, "" while it is not known.
func (t *Transport) Chosen(remote netip.Addr) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.peers[remote]; p != nil && p.chosen != nil {
		return p.chosen.Name()
	}
	return ""
}

// Force has the peer served by the transport of this name from its first connection
// on, whatever it speaks. ErrForced if it is served by another one already.
func (t *Transport) Force(remote netip.Addr, name string) error {
	which := t.opts.Preferred
	switch name {
	case which.Name():
	case t.opts.Other.Name():
		which = t.opts.Other
	default:
		return fmt.Errorf("choice: no transport %q: %w", name, syscall.EINVAL)
	}
	t.mu.Lock()
	p := t.peerLocked(remote)
	if p.chosen != nil && p.chosen != which {
		t.mu.Unlock()
		return ErrForced
	}
	changed := p.chosen == nil
	p.chosen, p.forced = which, true
	watch := t.watch
	t.mu.Unlock()
	if changed && watch != nil {
		watch(remote)
	}
	return nil
}

// Watch has f called after every change of what serves a peer, which Chosen then
// tells, from whatever goroutine made it. It must not block.
func (t *Transport) Watch(f func(remote netip.Addr)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watch = f
}

func (t *Transport) peerLocked(remote netip.Addr) *peer {
	p := t.peers[remote]
	if p == nil {
		p = new(peer)
		t.peers[remote] = p
	}
	return p
}

// choose notes that a peer is served by which, unless it was forced to be served by
// the other one.
func (t *Transport) choose(remote netip.Addr, which transport.Transport) bool {
	t.mu.Lock()
	p := t.peerLocked(remote)
	allowed, changed := !p.forced || p.chosen == which, p.chosen != which
	if allowed {
		p.chosen, p.away = which, time.Time{}
	}
	watch := t.watch
	t.mu.Unlock()
	if allowed && changed {
		t.opts.Logger.Info("transport chosen", zap.Stringer("peer", remote), zap.String("transport", which.Name()))
		if watch != nil {
			watch(remote)
		}
	}
	return allowed
}

// look returns what is known of a peer.
func (t *Transport) look(remote netip.Addr) peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.peers[remote]; p != nil {
		return *p
	}
	return peer{}
}

// returns tells whether a peer that has spoken the preferred transport, and refuses it, may
// be one that is just starting again.
func (t *Transport) returns(remote netip.Addr) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peers[remote]
	if p == nil || p.chosen != t.opts.Preferred || p.forced {
		return false
	}
	if p.away.IsZero() {
		p.away = time.Now()
	}
	return time.Since(p.away) < t.opts.Patience
}

// gone forgets that a peer is served by the other transport: whoever spoke it has
// ended, and what comes instead may speak the preferred one.
func (t *Transport) gone(remote netip.Addr) {
	t.mu.Lock()
	p, watch := t.peers[remote], t.watch
	changed := p != nil && !p.forced && p.chosen == t.opts.Other
	if changed {
		p.chosen = nil
	}
	t.mu.Unlock()
	if changed && watch != nil {
		watch(remote)
	}
}

// listener is one local address.
type listener struct {
	opening sync.Mutex // serialises Listen
	on      int        // transports that listen, guarded by opening

	mu     sync.Mutex
	accept func(transport.Link) // guarded by mu; nil: not (yet) wanted
}

func (ln *listener) want(accept func(transport.Link)) {
	ln.mu.Lock()
	ln.accept = accept
	ln.mu.Unlock()
}

// Listen accepts links of both. A link of the transport that a peer was not forced
// to is rejected where that can be said, so that it tries the other one, else closed. After an error it may be called again.
func (t *Transport) Listen(local netip.Addr, accept func(transport.Link)) error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return net.ErrClosed
	}
	ln := t.lns[local]
	if ln == nil {
		ln = new(listener)
		t.lns[local] = ln
	}
	t.mu.Unlock()
	ln.opening.Lock()
	defer ln.opening.Unlock()
	if ln.on == 2 {
		return syscall.EADDRINUSE
	}
	ln.want(accept)
	// The preferred one first: who finds the other one there has not missed it.
	for _, tr := range []transport.Transport{t.opts.Preferred, t.opts.Other}[ln.on:] {
		if err := tr.Listen(local, func(l transport.Link) { t.accepted(tr, ln, l) }); err != nil {
			ln.want(nil)
			return err
		}
		ln.on++
	}
	return nil
}

// accepted takes an inbound link.
func (t *Transport) accepted(tr transport.Transport, ln *listener, l transport.Link) {
	remote := l.RemoteAddr().Addr()
	ln.mu.Lock()
	accept := ln.accept
	ln.mu.Unlock()
	if accept == nil || !t.choose(remote, tr) {
		l.Close(transport.Abort)
		return
	}
	accept(l)
}

// Dial connects by the transport that serves the peer, or finds out which one does.
func (t *Transport) Dial(ctx context.Context, local, remote netip.Addr, path int) (transport.Link, error) {
	known := t.look(remote)
	first, second := t.opts.Preferred, t.opts.Other
	if known.chosen == second {
		first, second = second, first
	}
	unlucky := false // the preferred one, in this call: it may be there nevertheless
	var try func(ctx context.Context, tr transport.Transport) (transport.Link, error)
	try = func(ctx context.Context, tr transport.Transport) (transport.Link, error) {
		l, err := tr.Dial(ctx, local, remote, path)
		if tr == t.opts.Preferred {
			unlucky = err != nil && !t.opts.Absent(err) && !errors.Is(err, context.DeadlineExceeded)
		} else if err == nil && unlucky {
			// Who listens for the other one does for the preferred one, if at all (see
			// Listen): a peer that has just come back was asked too early, or the
			// connection was cut.
			soon, cancel := context.WithTimeout(ctx, t.opts.Patience)
			better, err := try(soon, t.opts.Preferred)
			cancel()
			if err == nil {
				l.Close(transport.Abort)
				return better, nil
			}
		}
		if err == nil && !t.choose(remote, tr) {
			l.Close(transport.Abort)
			return nil, ErrForced
		}
		return l, err
	}
	limited, cancel := ctx, context.CancelFunc(func() {})
	if known.chosen == nil {
		limited, cancel = context.WithTimeout(ctx, t.opts.Patience)
	}
	l, err := try(limited, first)
	cancel()
	if err == nil {
		return l, nil
	}
	if ended := ctx.Err(); ended != nil {
		return nil, errors.Join(ended, err)
	}
	if first == t.opts.Preferred && errors.Is(err, syscall.ECONNREFUSED) && t.returns(remote) {
		return nil, err
	}
	// Another dial, or the peer, may have found out meanwhile.
	if known = t.look(remote); known.chosen == first && (known.forced || !t.absent(err)) {
		return nil, err
	}
	l, other := try(ctx, second)
	if other == nil {
		return l, nil
	}
	if t.absent(err) && t.absent(other) {
		t.gone(remote)
	}
	return nil, errors.Join(err, other)
}

// absent tells whether an error of a dial means that nobody there speaks its
// transport.
func (t *Transport) absent(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || t.opts.Absent(err)
}

// Regions is the table of memory regions of whichever transport has one, nil if none
// does.
func (t *Transport) Regions() *mr.Device {
	if r := t.operating(); r != nil {
		return r.Regions()
	}
	return nil
}

// Domain is their protection domain.
func (t *Transport) Domain() *mr.Domain {
	if r := t.operating(); r != nil {
		return r.Domain()
	}
	return nil
}

func (t *Transport) operating() exposing {
	for _, tr := range []transport.Transport{t.opts.Preferred, t.opts.Other} {
		if r, ok := tr.(exposing); ok {
			return r
		}
	}
	return nil
}

// Stats are the counters of both.
func (t *Transport) Stats() []transport.Counter {
	return append(t.opts.Preferred.Stats(), t.opts.Other.Stats()...)
}

// Close closes both.
func (t *Transport) Close() error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	other := t.opts.Other.Close() // first, as it listens last
	return errors.Join(t.opts.Preferred.Close(), other)
}
