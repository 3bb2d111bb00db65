package tcp

import (
	"math/rand/v2"
	"net/netip"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/gnetloop"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/transport"
)

// Transport makes RDS links over TCP. New makes it, Close ends it.
type Transport struct {
	opts   Options
	engine gnetloop.Stack
	pool   buf.Pool // memory of the links' parsers

	mu       lockorder.Mutex[Transport]
	rand     *rand.Rand // guarded by mu
	lowPort  int        // set by New: the range source ports come from
	highPort int
}

var _ transport.Transport = (*Transport)(nil)

// New starts a transport with its event loops. It holds four descriptors for
// each of them and two more, until Close.
func New(opts Options) (*Transport, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	engine, err := gnetloop.Open(opts.engine())
	if err != nil {
		return nil, err
	}
	seed := opts.Seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t := &Transport{opts: opts, engine: engine, rand: rand.New(rand.NewPCG(seed, 0))}
	t.lowPort, t.highPort = ephemeralPorts()
	return t, nil
}

// Name returns "tcp".
func (t *Transport) Name() string { return name }

// Listen accepts links on local and Options.Port.
func (t *Transport) Listen(local netip.Addr, accept func(transport.Link)) error {
	_, err := t.engine.Listen(netip.AddrPortFrom(local, t.opts.Port), func(c gnetloop.Stream) {
		l := t.newLink(c)
		l.in.accepted = true
		accept(l)
	})
	return err
}

func (t *Transport) newLink(c gnetloop.Stream) *link {
	return &link{t: t, conn: c, stream: transport.Stream{Writev: c.Writev}}
}

// Stats returns the counters. The first five are those of
// net/rds/tcp_stats.c; the last two of them count what cannot happen here.
func (t *Transport) Stats() []transport.Counter {
	s := t.engine.Stats()
	return []transport.Counter{
		{Name: "tcp_data_ready_calls", Value: s.Reads},
		{Name: "tcp_write_space_calls", Value: s.Writables},
		{Name: "tcp_sndbuf_full", Value: s.Full},
		{Name: "tcp_connect_raced"},
		{Name: "tcp_listen_closed_stale"},
		{Name: "tcp_accept_errors", Value: s.AcceptErrors},
		{Name: "tcp_setups_crowded", Value: s.Crowded},
	}
}

// Unlisten ends listening; links go on.
func (t *Transport) Unlisten() { t.engine.Unlisten() }

// Sockets are the listening sockets, which another process can take over.
func (t *Transport) Sockets() gnetloop.Sockets { return t.engine }

// Close ends listening and dialing, aborts all links and returns when every
// handler has heard Closed. It must not be called from a handler.
func (t *Transport) Close() error { return t.engine.Close() }
