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
	// Hung tells whether an error of a Dial of the preferred transport means that its
	// port is open and the program behind it does not answer. A peer that the preferred
	// one serves does not fall back then: the other port is the same program's.
	Hung func(error) bool
	// Patience is how long the preferred transport may go without an answer before
	// the other one is tried, at the first contact with a peer and later. A lost SYN is
	// sent again after 1 s, and after 2 s more. 0 means 3.5 s.
	Patience time.Duration
	// Gap is the least time between two moves of a pair. 0 means 30 s.
	Gap time.Duration
	// Ask and AskMax bound the time between two questions to a peer that the other
	// transport serves: the first comes after Ask, and each time without success
	// doubles, up to AskMax. 0 means 30 s and 5 min.
	Ask, AskMax time.Duration
	// Logger hears which transport serves whom. nil logs nothing.
	Logger *zap.Logger
}

func (o *Options) setDefaults() {
	if o.Absent == nil {
		o.Absent = func(error) bool { return false }
	}
	if o.Hung == nil {
		o.Hung = func(error) bool { return false }
	}
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&o.Patience, 3500*time.Millisecond)
	def(&o.Gap, 30*time.Second)
	def(&o.Ask, 30*time.Second)
	def(&o.AskMax, 5*time.Minute)
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
}

// exposing is a transport whose links carry operations.
type exposing interface {
	Regions() *mr.Device
	Domain() *mr.Domain
}

// Transport chooses between two transports.
type Transport struct {
	opts   Options
	asker  asking          // Options.Preferred, if peers can be asked whether they speak it; else nil
	ctx    context.Context // ends with the transport
	cancel context.CancelFunc
	slots  chan struct{}  // one token for each question under way
	work   sync.WaitGroup // counts questions under way

	mu     sync.Mutex
	pairs  map[pair]*state                    // guarded by mu
	forced map[netip.Addr]transport.Transport // guarded by mu; the transport that Force has chosen for a peer
	lns    map[netip.Addr]*listener           // guarded by mu
	closed bool                               // guarded by mu
	watch  func(remote netip.Addr)            // guarded by mu; called when a peer's transport has changed; nil: nobody watches
	moves  func(local, remote netip.Addr)     // guarded by mu; called to have a pair moved; nil: nobody moves pairs
}

var (
	_ transport.Transport = (*Transport)(nil)
	_ exposing            = (*Transport)(nil)
)

// New makes a transport of two.
func New(opts Options) *Transport {
	opts.setDefaults()
	t := &Transport{opts: opts, slots: make(chan struct{}, maxQuestions), pairs: make(map[pair]*state),
		forced: make(map[netip.Addr]transport.Transport), lns: make(map[netip.Addr]*listener)}
	t.asker, _ = opts.Preferred.(asking)
	t.ctx, t.cancel = context.WithCancel(context.Background())
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
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.forced[remote]
	return f == nil || f == tr
}

// Name is that of the preferred transport and the other one, as "xrc+tcp".
func (t *Transport) Name() string { return t.opts.Preferred.Name() + "+" + t.opts.Other.Name() }

// Force has the peer served by the transport of this name from its first connection
// on, whatever it speaks: its pairs never move, and it is never asked. ErrForced if one
// of them is served by another transport already.
func (t *Transport) Force(remote netip.Addr, name string) error {
	which, err := t.byName(name)
	if err != nil {
		return err
	}
	t.mu.Lock()
	was := t.forced[remote]
	ok := was == nil || was == which
	for k, st := range t.pairs {
		ok = ok && (k.remote != remote || st.serves == nil || st.serves == which)
	}
	if !ok {
		t.mu.Unlock()
		return ErrForced
	}
	t.forced[remote] = which
	for k, st := range t.pairs {
		if k.remote == remote {
			st.settle(which, "configured")
			st.target = nil
			st.quiet()
		}
	}
	watch := t.watch
	t.mu.Unlock()
	if was == nil && watch != nil {
		watch(remote)
	}
	return nil
}

func (t *Transport) byName(name string) (transport.Transport, error) {
	for _, tr := range []transport.Transport{t.opts.Preferred, t.opts.Other} {
		if tr.Name() == name {
			return tr, nil
		}
	}
	return nil, fmt.Errorf("choice: no transport %q: %w", name, syscall.EINVAL)
}

// Watch has f called after every change of what serves a peer, which Chosen then
// tells, from whatever goroutine made it. It must not block.
func (t *Transport) Watch(f func(remote netip.Addr)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watch = f
}

// Moves has f called when links of a pair that are not of Target have to be ended,
// because the pair is to move to it or has begun to: the sending side first, so that
// nothing is lost. It is called from a goroutine of Dial or of the transport, and
// must not dial.
func (t *Transport) Moves(f func(local, remote netip.Addr)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moves = f
}

// listener is one local address.
type listener struct {
	opening sync.Mutex // serialises Listen
	on      int        // number of transports that listen, guarded by opening

	mu     sync.Mutex
	accept func(transport.Link) // guarded by mu; nil: links are not taken yet
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
	// Listen by the preferred transport first: a peer that gets through by the other
	// one could have had the preferred one.
	for _, tr := range []transport.Transport{t.opts.Preferred, t.opts.Other}[ln.on:] {
		if err := tr.Listen(local, func(l transport.Link) { t.accepted(tr, ln, l) }); err != nil {
			ln.want(nil)
			return err
		}
		ln.on++
	}
	return nil
}

// accepted takes an inbound link. One to the side that dials is a knock, which tells that
// the peer can be asked now; one that the peer dials settles what serves it when the link is
// put to use (Taken).
func (t *Transport) accepted(tr transport.Transport, ln *listener, l transport.Link) {
	k := pairOf(l.LocalAddr().Addr(), l.RemoteAddr().Addr())
	ln.mu.Lock()
	accept := ln.accept
	ln.mu.Unlock()
	switch {
	case accept == nil:
	case t.admits(tr, k.remote):
		if k.dials() && tr == t.opts.Preferred {
			t.askSoon(k)
		}
		accept(l)
		return
	}
	l.Close(transport.Abort)
}

// Taken says that an inbound link is in use: where the peer dials, the link's transport
// serves the pair from now on. Links that are refused settle nothing: whoever made them may
// not be the peer.
func (t *Transport) Taken(l transport.Link) {
	k := pairOf(l.LocalAddr().Addr(), l.RemoteAddr().Addr())
	if k.dials() {
		return
	}
	if tr, err := t.byName(l.Stats().Transport); err == nil {
		t.choose(k, tr, "the peer connects by it", nil)
	}
}

// Rest ends questions to the peer of a pair that has no links for now.
func (t *Transport) Rest(local, remote netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if st := t.pairs[pairOf(local, remote)]; st != nil {
		st.quiet()
	}
}

// Forget forgets what serves a pair that has no links.
func (t *Transport) Forget(local, remote netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := pairOf(local, remote)
	if st := t.pairs[k]; st != nil {
		st.quiet()
		delete(t.pairs, k)
	}
}

// Pairs is the number of pairs of which something is known.
func (t *Transport) Pairs() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.pairs)
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

// Unlisten ends listening of those that can; links go on.
func (t *Transport) Unlisten() {
	for _, tr := range []transport.Transport{t.opts.Other, t.opts.Preferred} {
		tr.Unlisten()
	}
}

// Close closes both.
func (t *Transport) Close() error {
	t.mu.Lock()
	t.closed = true
	for _, st := range t.pairs {
		st.quiet()
	}
	t.mu.Unlock()
	t.cancel()
	t.work.Wait()
	other := t.opts.Other.Close() // Other before Preferred, because Other listens last
	return errors.Join(t.opts.Preferred.Close(), other)
}
