package tcp

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/panjf2000/gnet/v2"
	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/transport"
)

// Transport makes RDS links over TCP. New makes it, Close ends it.
type Transport struct {
	opts   Options
	log    *zap.Logger
	engine *gnet.Client
	poll   *poller
	pool   buf.Pool

	ctx    context.Context // ends dials and waits when the transport closes
	cancel context.CancelFunc
	wg     sync.WaitGroup // accept loops, poller, and every link until it is finished
	once   sync.Once
	err    error // of Close, after once

	mu        sync.Mutex
	closed    bool               // guarded by mu
	listeners []*net.TCPListener // guarded by mu
	links     map[*link]struct{} // guarded by mu; from newLink to finish
	rand      *rand.Rand         // guarded by mu
	lowPort   int                // set by New: the range source ports come from
	highPort  int

	congestionOnce sync.Once // the failure to set it on an accepted link is logged once

	dataReady    atomic.Uint64
	writeSpace   atomic.Uint64
	sndbufFull   atomic.Uint64
	acceptErrors atomic.Uint64
}

var _ transport.Transport = (*Transport)(nil)

// New starts a transport with its event loops. It holds two descriptors for
// each of them and two more, until Close.
func New(opts Options) (*Transport, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	if err := checkCongestion(opts.Congestion); err != nil {
		return nil, fmt.Errorf("tcp: congestion control %q: %w", opts.Congestion, err)
	}
	seed := opts.Seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t := &Transport{
		opts:  opts,
		log:   opts.Logger,
		links: make(map[*link]struct{}),
		rand:  rand.New(rand.NewPCG(seed, 0)),
	}
	t.lowPort, t.highPort = ephemeralPorts()
	poll, err := newPoller()
	if err != nil {
		return nil, fmt.Errorf("tcp: %w", err)
	}
	t.poll = poll
	t.engine, err = gnet.NewClient(&events{t: t},
		gnet.WithNumEventLoop(opts.EventLoops),
		gnet.WithReadBufferCap(opts.ReadBuffer),
		gnet.WithLogger(engineLog{opts.Logger}))
	if err == nil {
		err = t.engine.Start()
	}
	if err != nil {
		t.poll.close()
		return nil, fmt.Errorf("tcp: event loops: %w", err)
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.wg.Go(func() { t.poll.run(t) })
	return t, nil
}

// Name returns "tcp".
func (t *Transport) Name() string { return "tcp" }

// Stats returns the counters. The first five are those of
// net/rds/tcp_stats.c; the last two of them count what cannot happen here.
func (t *Transport) Stats() []transport.Counter {
	return []transport.Counter{
		{Name: "tcp_data_ready_calls", Value: t.dataReady.Load()},
		{Name: "tcp_write_space_calls", Value: t.writeSpace.Load()},
		{Name: "tcp_sndbuf_full", Value: t.sndbufFull.Load()},
		{Name: "tcp_connect_raced"},
		{Name: "tcp_listen_closed_stale"},
		{Name: "tcp_accept_errors", Value: t.acceptErrors.Load()},
	}
}

// Close ends listening and dialing, aborts all links and returns when every
// handler has heard Closed. It must not be called from a handler.
func (t *Transport) Close() error {
	t.once.Do(func() {
		t.mu.Lock()
		t.closed = true
		listeners := t.listeners
		links := make([]*link, 0, len(t.links))
		for l := range t.links {
			links = append(links, l)
		}
		t.mu.Unlock()

		t.cancel()
		for _, ln := range listeners {
			_ = ln.Close()
		}
		for _, l := range links {
			l.Close(transport.Abort)
		}
		t.poll.stop()
		t.wg.Wait()
		// Only now: a link that is being enrolled waits for its loop.
		t.err = t.engine.Stop()
		t.poll.close()
	})
	return t.err
}

// register takes a new link into the transport's care, unless it is closed.
func (t *Transport) register(l *link) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.links[l] = struct{}{}
	t.wg.Add(1)
	return true
}

func (t *Transport) unregister(l *link) {
	t.mu.Lock()
	delete(t.links, l)
	t.mu.Unlock()
	t.wg.Done()
}

// addrPort is the netip form of a TCP address, with IPv4 unmapped and the zone
// of a link-local address kept.
func addrPort(a net.Addr) netip.AddrPort {
	ap := a.(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
