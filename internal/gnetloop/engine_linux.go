package gnetloop

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/transport"
)

// Engine makes and drives connections. New makes it, Close ends it.
type Engine struct {
	opts   Options
	log    *zap.Logger
	client *gnet.Client
	bells  map[gnet.EventLoop]*doorbell // constant after New
	poll   *poller
	pool   buf.Pool // memory for bytes read beyond a Space

	ctx    context.Context // ends dials and waits when the engine closes
	cancel context.CancelFunc
	wg     sync.WaitGroup // accept loops, poller, and every connection until it is finished
	once   sync.Once
	err    error // result of Close, set by once

	sharing lockorder.Mutex[engineSharing] // held while a shared socket is opened or closed; locked before mu

	mu        lockorder.Mutex[engineMu]
	closed    bool                               // guarded by mu
	listeners map[*Listener]struct{}             // guarded by mu; from Listen until it accepts no more
	conns     map[*Conn]struct{}                 // guarded by mu; from newConn to finish
	shared    map[netip.AddrPort]*sharedListener // guarded by sharing; by the address that the socket is bound to
	looks     *time.Timer                        // guarded by mu; runs lookForSilence; nil before the first connection
	looking   bool                               // guarded by mu; lookForSilence runs

	congestionOnce sync.Once // limits the log to one line for failures to set the congestion control on accepted connections

	half  halfOpen
	bound int // descriptors from this one on are not for connections; constant

	reads, writables, full, acceptErrors, crowded atomic.Uint64
}

// New starts an engine with its event loops. It holds four descriptors for each
// of them and two more, until Close.
func New(opts Options) (*Engine, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	if err := checkCongestion(opts.Congestion); err != nil {
		return nil, fmt.Errorf("%s: congestion control %q: %w", opts.Name, opts.Congestion, err)
	}
	e := &Engine{
		opts:      opts,
		log:       opts.Logger,
		listeners: make(map[*Listener]struct{}),
		shared:    make(map[netip.AddrPort]*sharedListener),
		conns:     make(map[*Conn]struct{}),
		bells:     make(map[gnet.EventLoop]*doorbell),
		bound:     descriptorBound(),
	}
	e.half.most, e.half.each = min(opts.HalfOpen, e.bound/halfOpenPart), opts.HalfOpenEach
	poll, err := newPoller()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", opts.Name, err)
	}
	e.poll = poll
	if opts.Loops == nil {
		if err := e.startLoops(); err != nil {
			e.poll.close()
			return nil, fmt.Errorf("%s: event loops: %w", opts.Name, err)
		}
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.wg.Go(func() { e.poll.run(e) })
	return e, nil
}

// startLoops starts event loops of gnet's.
func (e *Engine) startLoops() (err error) {
	e.client, err = gnet.NewClient(&events{e: e},
		gnet.WithNumEventLoop(e.opts.EventLoops),
		gnet.WithReadBufferCap(e.opts.ReadBuffer),
		gnet.WithLogger(engineLog{e.opts.Logger}))
	if err == nil {
		err = e.client.Start()
	}
	if err != nil {
		return err
	}
	for i := 0; err == nil && i < e.opts.EventLoops; i++ {
		err = e.hang()
	}
	if err != nil {
		_ = e.stop()
	}
	return err
}

// Stats returns the counters.
func (e *Engine) Stats() Stats {
	return Stats{
		Reads:        e.reads.Load(),
		Writables:    e.writables.Load(),
		Full:         e.full.Load(),
		AcceptErrors: e.acceptErrors.Load(),
		Crowded:      e.crowded.Load(),
		HalfOpen:     e.half.count(),
	}
}

// Unlisten ends listening; connections go on. Those that the kernel has made by then have
// been offered when it returns.
func (e *Engine) Unlisten() {
	e.mu.Lock()
	listeners := keys(e.listeners)
	e.mu.Unlock()
	for _, ln := range listeners {
		ln.unlisten()
	}
}

// Close ends listening and dialing, aborts all connections and returns when
// every handler has heard Closed. It must not be called from a handler.
func (e *Engine) Close() error {
	e.once.Do(func() {
		e.mu.Lock()
		e.closed = true
		listeners := keys(e.listeners)
		conns := keys(e.conns)
		e.mu.Unlock()

		e.cancel()
		for _, ln := range listeners {
			ln.Close()
		}
		for _, c := range conns {
			c.Close(transport.Abort)
		}
		e.poll.stop()
		e.wg.Wait()
		e.stopWatchingSilence()
		// Only now: a connection that is being enrolled waits for its loop.
		e.err = e.stop()
		e.poll.close()
	})
	return e.err
}

// stop ends the event loops. Nobody may ring any more.
func (e *Engine) stop() error {
	if e.client == nil {
		return nil
	}
	err := e.client.Stop()
	for _, b := range e.bells {
		b.close()
	}
	return err
}

// register takes a new connection into the engine's care, unless it is closed.
func (e *Engine) register(c *Conn) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	if e.conns[c] = struct{}{}; len(e.conns) == 1 {
		e.watchSilenceLocked()
	}
	e.wg.Add(1)
	return true
}

func (e *Engine) unregister(c *Conn) {
	e.mu.Lock()
	delete(e.conns, c)
	e.mu.Unlock()
	e.wg.Done()
}

// keys is a copy to walk through without the lock that guards m.
func keys[K comparable](m map[K]struct{}) []K {
	s := make([]K, 0, len(m))
	for k := range m {
		s = append(s, k)
	}
	return s
}

// addrPort is the netip form of a TCP address, with IPv4 unmapped and the zone
// of a link-local address kept.
func addrPort(a net.Addr) netip.AddrPort {
	return unmap(a.(*net.TCPAddr).AddrPort())
}

func unmap(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }
