package xrc

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/gnetloop"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

// Transport carries RDS, and channels of applications, on XRC over software iWARP.
type Transport struct {
	opts   Options
	dev    *iwarp.Device
	pd     *iwarp.PD
	domain *mr.Domain
	owner  *mr.Owner // owns the local memory of operations
	pool   buf.Pool

	reservation *iwarp.Reservation // nil: octets are not granted

	objects *objects.Device
	session *objects.Session // owns the queue pairs of RDS, and the node's own receive queue
	rds     rdsObjects

	poke      chan struct{} // cap 1: a deadline has changed
	seq       atomic.Uint64 // number of the last connection
	suspended atomic.Int32  // paths that wait for a connection
	stats     counters

	mu     lockorder.Mutex[Transport]
	closed bool               // guarded by mu
	lns    []*iwarp.Listener  // guarded by mu
	links  map[*link]struct{} // guarded by mu: links that have not ended
	peers  map[hosts]*peer    // guarded by mu
	queues map[uint32]*Queue  // guarded by mu; queues of applications, by their numbers

	watches []*patience // guarded by mu; channels with requests under way

	lifetimes map[netip.Addr]*lifetime // guarded by mu; incarnations of remote hosts that have links in use
	waiting   map[netip.Addr][]*link   // guarded by mu; links in use of other incarnations

	ctx  context.Context // ends with the transport
	stop context.CancelFunc
	work sync.WaitGroup // accepting, links until they have ended, and whatever else runs
}

// rdsObjects are the objects that all of RDS shares.
type rdsObjects struct {
	domain *objects.Domain
	pd     *objects.PD // that of the node's own queue
	cq     *objects.CQ // stays empty: each link completes its operations itself
	number uint32      // SRQN of the node's own queue
	sink   *iwarp.SRQ  // that queue
}

var _ transport.Transport = (*Transport)(nil)

// New starts a transport with its event loops.
func New(opts Options) (*Transport, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	dev, err := iwarp.Open(opts.Config)
	if err != nil {
		return nil, err
	}
	pd, err := dev.AllocPD()
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	t := &Transport{opts: opts, dev: dev, pd: pd, domain: pd.Domain(), poke: make(chan struct{}, 1),
		links: make(map[*link]struct{}), peers: make(map[hosts]*peer), queues: make(map[uint32]*Queue),
		lifetimes: make(map[netip.Addr]*lifetime), waiting: make(map[netip.Addr][]*link)}
	t.owner = dev.Regions().NewOwner(mr.OwnerConfig{Name: "local memory of operations"})
	if opts.Overrun > 0 {
		// A peer that does not know limits may ask for the octets of the longest message of RDS.
		total := max(opts.Overrun, wire.HeaderSize+opts.MaxMessage)
		t.reservation = iwarp.NewReservation(total, min(total, wire.HeaderSize+max(opts.MaxMessage, wire.MaxPayload)))
	}
	t.ctx, t.stop = context.WithCancel(context.Background())
	if err := t.makeObjects(); err != nil {
		t.stop()
		return nil, errors.Join(err, pd.Close(), dev.Close())
	}
	t.work.Go(t.maintain)
	return t, nil
}

// Bounds of what RDS holds: there is no need for others than those of numbers.
const (
	maxRegistrations = 1 << 20
	maxSessions      = 1 << 16
)

// makeObjects makes the device of package rds/xrc/objects, and what RDS has there.
func (t *Transport) makeObjects() (err error) {
	c := t.opts.XRC
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Sessions == 0 {
		c.Sessions = maxSessions
	}
	if c.Logger == nil {
		c.Logger = t.opts.Logger
	}
	c.Base, c.QueueGone = t.pd, t.queueGone
	if t.objects, err = objects.New(c); err != nil {
		return err
	}
	t.opts.XRC = c
	limits := objects.Limits{Initiators: maxRegistrations, Targets: maxRegistrations, Registrations: maxRegistrations, Events: 2}
	if t.session, err = t.objects.NewSession(objects.SessionConfig{Name: "rds", Limits: limits}); err != nil {
		return err
	}
	if t.rds.domain, err = t.session.OpenDomain(-1, os.O_CREATE); err != nil {
		return err
	}
	if t.rds.pd, err = t.session.AllocPD(); err != nil {
		return err
	}
	if t.rds.cq, err = t.session.CreateCQ(1); err != nil {
		return err
	}
	if t.opts.Protection == nil {
		t.opts.Protection = func(netip.Addr) func(uint16) *mr.Domain {
			return func(uint16) *mr.Domain { return t.Domain() }
		}
	}
	srq, err := t.session.CreateSRQ(objects.SRQAttr{Domain: t.rds.domain, PD: t.rds.pd, Sink: true})
	if err == nil {
		t.rds.number, t.rds.sink = srq.Num(), srq.SRQ
	}
	return err
}

func (t *Transport) now() time.Time { return t.opts.XRC.Now() }

// Objects is the device with the sessions, domains, queues and queue pairs.
func (t *Transport) Objects() *objects.Device { return t.objects }

// Name returns "xrc".
func (t *Transport) Name() string { return Name }

// Regions is the table of memory regions.
func (t *Transport) Regions() *mr.Device { return t.dev.Regions() }

// Domain is the protection domain of the node's own queue.
func (t *Transport) Domain() *mr.Domain { return t.rds.pd.Domain() }

// Listen accepts links on local and Options.Port.
func (t *Transport) Listen(local netip.Addr, accept func(transport.Link)) error {
	ln, err := t.dev.Listen(netip.AddrPortFrom(local, t.opts.Port))
	if err != nil {
		return err
	}
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		_ = ln.Close()
		return net.ErrClosed
	}
	t.lns = append(t.lns, ln)
	t.work.Add(1)
	t.mu.Unlock()
	go func() {
		defer t.work.Done()
		for {
			in, err := ln.Accept(t.ctx)
			if err != nil {
				return
			}
			t.work.Go(func() { t.incoming(in, accept) })
		}
	}()
	return nil
}

// setupTimeout bounds the set-up of a link behind TCP's.
const setupTimeout = 10 * time.Second

// incoming answers a peer that wants a link, or asks.
func (t *Transport) incoming(in *iwarp.Incoming, accept func(transport.Link)) {
	ctx, cancel := context.WithTimeout(t.ctx, setupTimeout)
	defer cancel()
	if t.opts.Admit != nil && !t.opts.Admit(in.Remote().Addr()) {
		_ = in.Reject(nil)
		return
	}
	h := hosts{in.Local().Addr().Unmap(), in.Remote().Addr().Unmap()}
	if asker, ok := asks(in.Upper()); ok {
		_ = in.Reject(t.answerQuestion(h, asker, in.Upper()))
		return
	}
	theirs, err := settleHello(in.Upper(), in.Sealed)
	var l *link
	if err == nil {
		l, err = t.newLink(h, int(theirs.path), theirs.link)
	}
	if err != nil {
		_ = in.Reject(nil)
		t.opts.Logger.Debug("link refused", zap.Stringer("peer", in.Remote()), zap.Error(err))
		return
	}
	l.hello, l.incarnation = theirs, incarnation(in)
	ours := hello{generation: t.opts.Generation, queue: t.rds.number, limit: wire.LimitOf(t.opts.MaxMessage)}
	if theirs.paired() && int(theirs.path) < maxPaths {
		l.path = l.path.answering(theirs, l.incarnation)
		if ours.initiator, ours.target, err = l.path.offer(); err == nil {
			l.paired = true
		}
	}
	est, err := in.Accept(ctx, l.qp, l.params(ours))
	if err != nil {
		_ = in.Reject(nil) // for a connection that ended before
		t.opts.Logger.Debug("link refused", zap.Stringer("peer", in.Remote()), zap.Error(err))
		l.finish()
		return
	}
	l.established(est)
	accept(l)
}

// Dial connects local to remote. RDS has the side with the smaller address connect; the
// other one dials to tell that it wants to be connected to, and has no queue pairs for that.
func (t *Transport) Dial(ctx context.Context, local, remote netip.Addr, path int) (transport.Link, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	h := hosts{local.Unmap(), remote.Unmap()}
	l, err := t.newLink(h, path, t.objects.Incarnation()+t.seq.Add(1))
	if err != nil {
		return nil, err
	}
	ours := hello{path: uint8(path), generation: t.opts.Generation, link: l.id, queue: t.rds.number, limit: wire.LimitOf(t.opts.MaxMessage)}
	if h.local.Less(h.remote) {
		if ours.initiator, ours.target, err = l.path.offer(); err != nil {
			l.finish()
			return nil, err
		}
		l.paired, l.dialed = true, true
	}
	est, err := t.dev.ConnectFrom(ctx, l.qp, netip.AddrPortFrom(local, 0), netip.AddrPortFrom(remote, t.opts.Port), l.params(ours))
	if err == nil {
		l.hello, err = settleHello(est.Private, est.Sealed)
	}
	if err != nil {
		l.finish()
		if t.ctx.Err() != nil {
			err = net.ErrClosed
		}
		return nil, err
	}
	l.incarnation = est.Peer.Incarnation
	l.established(est)
	return l, nil
}

// Absent tells whether an error of Dial means that somebody is there who does not
// carry RDS on XRC, or in an earlier version only. A refused connection means the same.
func Absent(err error) bool {
	var rejected *iwarp.RejectedError
	return errors.As(err, &rejected) || errors.Is(err, iwarp.ErrNotShared) || errors.Is(err, errHello) || errors.Is(err, errOldVersion)
}

// Hung tells whether an error of Dial means that the peer's kernel has taken the
// connection, and no program has answered in time: that of a peer that is stopped or
// very busy. Its port for another transport would be as silent.
func Hung(err error) bool { return errors.Is(err, iwarp.ErrNoReply) }

// Stats returns the counters of the iWARP device.
func (t *Transport) Stats() []transport.Counter {
	s, keys := t.dev.Stats(), t.dev.Regions().Stats().BadKeys
	return []transport.Counter{
		{Name: "xrc_connected", Value: s.Connected},
		{Name: "xrc_accepted", Value: s.Accepted},
		{Name: "xrc_rejected", Value: s.Rejected},
		{Name: "xrc_setups_crowded", Value: s.Crowded},
		{Name: "xrc_access_errors", Value: s.AccessErrors},
		{Name: "xrc_keys_denied", Value: keys[mr.Denied]},
		{Name: "xrc_keys_unseen", Value: keys[mr.Unseen]},
		{Name: "xrc_crc_errors", Value: s.CRCErrors},
		{Name: "xrc_terminates_sent", Value: s.TerminatesSent},
		{Name: "xrc_terminates_received", Value: s.TerminatesReceived},
	}
}

// Unlisten ends listening; links go on.
func (t *Transport) Unlisten() {
	t.mu.Lock()
	lns := t.lns
	t.lns = nil
	t.mu.Unlock()
	for _, ln := range lns {
		_ = ln.Close()
	}
}

// Sockets are the listening sockets, which another process can take over.
func (t *Transport) Sockets() gnetloop.Sockets { return t.dev.Sockets() }

// byeTime bounds how long Close waits for peers of channels to hear of it.
const byeTime = time.Second

// Close ends listening and dialing, tells the peers of channels that this incarnation ends,
// aborts all links and returns when every handler has heard Closed. Sessions hear of it, and
// remain so far that they can be closed. It must not be called from a handler.
func (t *Transport) Close() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil
	}
	t.closed = true
	lns, peers := t.lns, t.peersLocked()
	t.mu.Unlock()
	var errs []error
	for _, ln := range lns {
		errs = append(errs, ln.Close())
	}
	t.farewell(peers)
	t.stop()
	for _, p := range peers {
		p.mu.Lock() // whoever has not seen the end has begun, and is waited for
		p.changeLocked()
		p.mu.Unlock()
	}
	t.mu.Lock()
	links := make([]*link, 0, len(t.links))
	for l := range t.links {
		links = append(links, l)
	}
	t.mu.Unlock()
	for _, l := range links {
		l.Close(transport.Abort)
	}
	t.work.Wait()
	for _, p := range peers {
		for _, ch := range p.allChannels() {
			ch.die(ErrClosed)
		}
	}
	errs = append(errs, t.objects.Close())
	_ = t.session.Close(context.Background())
	errs = append(errs, t.owner.Close(context.Background()))
	_ = t.pd.Close() // if sessions still have regions the device closes it
	return errors.Join(append(errs, t.dev.Close())...)
}

// beside has f called by another goroutine, or at once when the transport closes.
func (t *Transport) beside(f func()) {
	t.mu.Lock()
	closed := t.closed
	if !closed {
		t.work.Add(1)
	}
	t.mu.Unlock()
	if closed {
		f()
		return
	}
	go func() {
		defer t.work.Done()
		f()
	}()
}

// Farewell tells peers that queue pairs here end, those that live and those that have just ended, and returns when they have
// heard it, or after a second. Connections go on: RDS ends them in its own way, and only then is Close called.
func (t *Transport) Farewell() {
	ctx, cancel := context.WithTimeout(context.Background(), byeTime)
	defer cancel()
	var wg sync.WaitGroup
	for _, p := range t.allPeers() {
		for _, ch := range p.allChannels() {
			p.announce(ch.Ref())
		}
		p.mu.Lock()
		m, targets := p.mux, slices.Collect(maps.Keys(p.carriers))
		p.mu.Unlock()
		for _, ref := range targets {
			p.announce(ref)
		}
		if m != nil {
			wg.Go(func() { m.control.flush(ctx) })
		}
	}
	wg.Wait()
}

// farewell tells peers of channels that this incarnation ends.
func (t *Transport) farewell(peers []*peer) {
	ctx, cancel := context.WithTimeout(context.Background(), byeTime)
	defer cancel()
	var wg sync.WaitGroup
	for _, p := range peers {
		if m := p.talking(); m != nil {
			wg.Go(func() { m.bye(ctx) })
		}
	}
	wg.Wait()
}
