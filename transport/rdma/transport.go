package rdma

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/gnetloop"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp"
)

// Transport makes RDS links on XRC over software iWARP.
type Transport struct {
	opts   Options
	dev    *iwarp.Device
	pd     *iwarp.PD
	domain *mr.Domain
	owner  *mr.Owner // owns the local memory of operations
	pool   buf.Pool

	reservation *iwarp.Reservation // nil: octets are not granted
	queue       *iwarp.SRQ         // takes the messages of all queues, whether their applications are there or have ended

	mu     sync.Mutex
	closed bool                  // guarded by mu
	admit  func(netip.Addr) bool // guarded by mu; nil: everybody
	lns    []*iwarp.Listener     // guarded by mu
	links  map[*link]struct{}    // guarded by mu: links that have not ended

	ctx  context.Context // ends with the transport
	stop context.CancelFunc
	work sync.WaitGroup // accepting, and links until they have ended
}

var _ transport.Transport = (*Transport)(nil)

// New starts a transport with its event loops.
func New(opts Options) (*Transport, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	dev, err := iwarp.Open(opts.device())
	if err != nil {
		return nil, err
	}
	pd, err := dev.AllocPD()
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	t := &Transport{opts: opts, dev: dev, pd: pd, domain: pd.Domain(), links: make(map[*link]struct{})}
	t.owner = dev.Regions().NewOwner(mr.OwnerConfig{Name: "local memory of operations"})
	if opts.Overrun > 0 {
		t.reservation = iwarp.NewReservation(opts.Overrun, wire.HeaderSize+opts.MaxMessage)
	}
	if t.queue, err = pd.CreateSRQ(iwarp.SRQConfig{Number: transport.FirstQueue, Sink: true}); err != nil {
		return nil, errors.Join(err, pd.Close(), dev.Close())
	}
	t.ctx, t.stop = context.WithCancel(context.Background())
	return t, nil
}

// Find is for iwarp.Queues: one queue with a sink takes messages by all numbers that an
// application may have, so that none is refused when an application ends.
func (t *Transport) Find(number uint32) *iwarp.SRQ {
	if number < transport.FirstQueue || number > transport.Queues {
		return nil
	}
	return t.queue
}

// Name returns "xrc".
func (t *Transport) Name() string { return Name }

// Regions is the table of memory regions.
func (t *Transport) Regions() *mr.Device { return t.dev.Regions() }

// Domain is the protection domain of regions that peers reach by links.
func (t *Transport) Domain() *mr.Domain { return t.domain }

// Admit has set-ups of peers that admit returns false for rejected, so that they try
// another transport. It must not block.
func (t *Transport) Admit(admit func(remote netip.Addr) bool) {
	t.mu.Lock()
	t.admit = admit
	t.mu.Unlock()
}

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

// incoming answers a peer that wants a link.
func (t *Transport) incoming(in *iwarp.Incoming, accept func(transport.Link)) {
	ctx, cancel := context.WithTimeout(t.ctx, setupTimeout)
	defer cancel()
	t.mu.Lock()
	admit := t.admit
	t.mu.Unlock()
	if admit != nil && !admit(in.Remote().Addr()) {
		_ = in.Reject(nil)
		return
	}
	if asks(in.Upper()) {
		_ = in.Reject(hello{generation: t.opts.Generation}.bytes())
		return
	}
	l, err := t.newLink()
	if err != nil {
		_ = in.Reject(nil)
		return
	}
	est, err := in.Accept(ctx, l.qp, l.params(0))
	if err == nil {
		l.hello, err = settleHello(est.Private, est.Sealed)
		l.generation = l.hello.generation
	}
	if err != nil {
		t.opts.Logger.Debug("link refused", zap.Stringer("peer", in.Remote()), zap.Error(err))
		l.finish()
		return
	}
	l.local, l.remote, l.crc = est.Local, est.Remote, est.CRC
	accept(l)
}

// Dial connects local to remote.
func (t *Transport) Dial(ctx context.Context, local, remote netip.Addr, path int) (transport.Link, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	l, err := t.newLink()
	if err != nil {
		return nil, err
	}
	est, err := t.dev.ConnectFrom(ctx, l.qp, netip.AddrPortFrom(local, 0), netip.AddrPortFrom(remote, t.opts.Port), l.params(path))
	if err == nil {
		var theirs hello
		theirs, err = settleHello(est.Private, est.Sealed)
		l.generation = theirs.generation
	}
	if err != nil {
		l.finish()
		if t.ctx.Err() != nil {
			err = net.ErrClosed
		}
		return nil, err
	}
	l.local, l.remote, l.crc = est.Local, est.Remote, est.CRC
	return l, nil
}

// Absent tells whether an error of Dial means that somebody is there who does not
// carry RDS on XRC. A refused connection means the same.
func Absent(err error) bool {
	var rejected *iwarp.RejectedError
	return errors.As(err, &rejected) || errors.Is(err, iwarp.ErrNotShared) || errors.Is(err, errHello)
}

// Hung tells whether an error of Dial means that the peer's kernel has taken the
// connection, and no program has answered in time: that of a peer that is stopped or
// very busy. Its port for another transport would be as silent.
func Hung(err error) bool { return errors.Is(err, iwarp.ErrNoReply) }

func (t *Transport) newLink() (*link, error) {
	cq, err := t.dev.CreateCQ(t.opts.Operations)
	if err != nil {
		return nil, err
	}
	qp, err := t.pd.CreateQP(iwarp.QPConfig{SendCQ: cq, RecvCQ: cq, MaxSend: t.opts.Operations, MaxReceive: 1, SignalAll: true})
	if err != nil {
		return nil, err
	}
	l := &link{t: t, qp: qp, cq: cq}
	l.in.link, l.in.queue = l, transport.FirstQueue
	l.queueOf = l.routes.queue
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		_ = qp.Close()
		return nil, net.ErrClosed
	}
	t.links[l] = struct{}{}
	t.work.Add(1)
	return l, nil
}

// ended forgets a link whose handler, if any, has heard Closed.
func (t *Transport) ended(l *link) {
	_ = l.cq.Close()
	t.mu.Lock()
	delete(t.links, l)
	t.mu.Unlock()
	t.work.Done()
}

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

// Pause has connections accepted no more: they wait in the kernel until Resume, or for
// another process that has the sockets. Links, and set-ups under way, go on.
func (t *Transport) Pause() { t.dev.Pause() }

// Resume ends a Pause.
func (t *Transport) Resume() { t.dev.Resume() }

// Listening returns the listening sockets, to be passed to another process.
func (t *Transport) Listening() ([]gnetloop.Listening, error) { return t.dev.Listening() }

// Close ends listening and dialing, aborts all links and returns when every
// handler has heard Closed. It must not be called from a handler.
func (t *Transport) Close() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil
	}
	t.closed = true
	lns := t.lns
	links := make([]*link, 0, len(t.links))
	for l := range t.links {
		links = append(links, l)
	}
	t.mu.Unlock()
	t.stop()
	var errs []error
	for _, ln := range lns {
		errs = append(errs, ln.Close())
	}
	for _, l := range links {
		l.Close(transport.Abort)
	}
	t.work.Wait()
	errs = append(errs, t.owner.Close(context.Background()), t.queue.Close(), t.pd.Close(), t.dev.Close())
	return errors.Join(errs...)
}
