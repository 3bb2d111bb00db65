package client

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rds-go/rds/internal/daemon"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
)

// newDrained is a daemon that can be drained, without waiting for anything, and started again.
func newDrained(t testing.TB, l *lab) *restarted {
	t.Helper()
	return newRestartedWith(t, l, config.Node{Linger: -1})
}

// drain has the daemon take nothing more.
func (r *restarted) drain() {
	r.Helper()
	var d *datagram.DroppedError
	if err := r.svc.Drain(); err != nil && !errors.As(err, &d) {
		r.Fatal(err)
	}
}

// restart starts a daemon that was drained and has stopped.
func (r *restarted) restart() {
	r.Helper()
	daemon.Return(r.node)
	r.start()
}

// lent is memory that the provider takes.
func lent(t testing.TB, s *socket.Socket, n int) []byte {
	t.Helper()
	return rdstest.Lent(t, s, n, halfOf(s) != nil)
}

// lab makes nodes that reach each other, over TCP or in memory.
type lab struct{ rdstest.Lab }

func newLab(t testing.TB) *lab { return &lab{rdstest.NewLab(t)} }

func newLoopLab(t testing.TB) *lab { return &lab{rdstest.NewLoopLab(t)} }

// bubble runs a test, beside others, with a time of its own, in a lab in memory.
func bubble(t *testing.T, test func(t *testing.T, l *lab)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, newLoopLab(t)) })
}

func (l *lab) node(cfg config.Node) *node.Node {
	l.Helper()
	return rdstest.Start(&l.Lab, node.New, cfg)
}

// bind makes a socket on a node, at a new address unless one is given.
func (l *lab) bind(n *node.Node, addr ...netip.AddrPort) *socket.Socket {
	l.Helper()
	return rdstest.Bind(l.TB, n, addr...)
}

// pair is a socket on each of two nodes; a's address is the smaller one.
func (l *lab) pair(cfg config.Node) (a, b *socket.Socket) {
	l.Helper()
	return l.bind(l.node(cfg)), l.bind(l.node(cfg))
}

// bindOne is a socket on a node of its own.
func (l *lab) bindOne(cfg config.Node) *socket.Socket { l.Helper(); return l.bind(l.node(cfg)) }

func nodeOf(s *socket.Socket) *node.Node { return halfOf(s).Node }

// halfOf and clientHalfOf are what is behind a socket of a node, and of an application, nil if
// the socket is of another kind.
func halfOf(s *socket.Socket) *node.Socket {
	h, _ := s.Endpoint.(*node.Socket)
	return h
}

func clientHalfOf(s *socket.Socket) *Socket {
	h, _ := s.Endpoint.(*Socket)
	return h
}

// served is a node that serves applications.
func served(t testing.TB, l *lab, cfg config.Node, scfg config.Service) (*node.Node, *daemon.Service, string) {
	t.Helper()
	cfg.Serves = true
	n := l.node(cfg)
	svc, path := rdstest.Serve(t, daemon.New, n, scfg)
	return n, svc, path
}

func dialed(t testing.TB, path string) *Client { t.Helper(); return rdstest.Attach(t, Dial, path) }

func bound(t testing.TB, p rdstest.Provider, a netip.AddrPort) *socket.Socket {
	t.Helper()
	return rdstest.Bind(t, p, a)
}

// serving makes a node serve applications, and returns where.
func serving(t testing.TB, n *node.Node, cfg config.Service) (*daemon.Service, string) {
	t.Helper()
	return rdstest.Serve(t, daemon.New, n, cfg)
}

// rarely has a node do nothing of its own accord for a peer that it has not reached.
func rarely(cfg config.Node) config.Node {
	cfg.ReconnectMin, cfg.ReconnectMax = time.Hour, time.Hour
	return cfg
}

// received is what a Recv has returned.
type received struct {
	m   datagram.Message
	err error
}

// listener starts a Recv of s and returns when it listens at the doorbell of its
// application itself, at most longest long.
func listener(t *testing.T, c *Client, s *socket.Socket, longest time.Duration) <-chan received {
	t.Helper()
	l := &c.att.listening
	rdstest.Eventually(t, "the dispatcher listens", l.held.Load)
	l.longest = longest
	l.offered.Store(true)
	got := make(chan received, 1)
	go func() {
		m, err := s.Recv(context.Background())
		got <- received{m, err}
	}()
	rdstest.Eventually(t, "the receiver listens", func() bool {
		q := &s.Endpoint.(*Socket).Readers
		q.Mu.Lock()
		defer q.Mu.Unlock()
		return q.Head != nil && q.Head.Ear.Load() != nil
	})
	return got
}

func receivedWithin(t *testing.T, got <-chan received) *received {
	t.Helper()
	select {
	case r := <-got:
		return &r
	case <-rdstest.Background(t).Done():
		t.Fatal("Recv does not return")
		return nil
	}
}

// good wants message n, and releases it.
func (r *received) good(t *testing.T, n uint64) {
	t.Helper()
	if r.err != nil {
		t.Fatal(r.err)
	}
	rdstest.Must(t, rdstest.Verify(r.m.Data, n))
	r.m.Release()
}

// forever is longer than a test.
const forever = time.Hour

func listenerLab(t *testing.T, l *lab) (c *Client, a, b *socket.Socket, svc *daemon.Service) {
	_, svc, path := served(t, l, config.Node{}, config.Service{})
	c = dialed(t, path)
	return c, bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 100)), bound(t, c, rdstest.AddrOf(rdstest.NewAddr(), 200)), svc
}

// startBound starts a daemon, to which a socket is bound then.
func startBound(t *testing.T, d *restarted, s *socket.Socket) {
	t.Helper()
	d.start()
	rdstest.Eventually(t, "the socket to be bound", func() bool { return clientHalfOf(s).half.Load() != nil })
}

// newAttached is a socket that attaches again, and one of another host.
func newAttached(t *testing.T, l *lab) (d *restarted, s, far *socket.Socket) {
	t.Helper()
	d, far = newRestarted(t, l), l.bindOne(config.Node{})
	return d, bound(t, d.client(true), rdstest.AddrOf(rdstest.NewAddr(), 100)), far
}

// restarted is a daemon that can be ended and started again at its path.
type restarted struct {
	testing.TB
	node *node.Node
	svc  *daemon.Service
	path string
}

func newRestarted(t testing.TB, l *lab) *restarted {
	t.Helper()
	return newRestartedWith(t, l, config.Node{})
}

func newRestartedWith(t testing.TB, l *lab, cfg config.Node) *restarted {
	t.Helper()
	n, svc, path := served(t, l, cfg, config.Service{})
	r := &restarted{t, n, svc, path}
	t.Cleanup(func() { _ = r.svc.Close() })
	return r
}

func (r *restarted) stop() {
	r.Helper()
	var d *datagram.DroppedError
	if err := r.svc.Close(); err != nil && !errors.As(err, &d) {
		r.Fatal(err)
	}
}

func (r *restarted) start() {
	r.Helper()
	svc, err := daemon.New(r.node, config.Service{Path: r.path})
	rdstest.Must(r, err)
	r.svc = svc
}

// client attaches, and again and again if that is asked for.
func (r *restarted) client(again bool) *Client {
	r.Helper()
	c, err := New(config.Client{Path: r.path, Reconnect: again, ReconnectMin: time.Millisecond, ReconnectMax: 10 * time.Millisecond})
	rdstest.Must(r, err)
	r.Cleanup(func() { _ = c.Close() })
	return c
}

// stuffed sends to a host that is down until it is refused, and returns the bytes taken.
func stuffed(t *testing.T, s *socket.Socket, to netip.AddrPort, size int) (n int) {
	t.Helper()
	data := make([]byte, size)
	for {
		err := s.TrySend(to, data)
		if errors.Is(err, datagram.ErrWouldBlock) {
			if clientHalfOf(s) == nil || allTaken(clientHalfOf(s).half.Load().att) {
				return n
			}
			rdstest.Eventually(t, "the daemon to take what was submitted", func() bool { return allTaken(clientHalfOf(s).half.Load().att) })
			continue
		}
		rdstest.Must(t, err)
		n += size
	}
}

// allTaken tells whether the daemon has taken all that an application has submitted.
func allTaken(t *attachment) bool {
	u := &t.submission
	u.mu.Lock()
	defer u.mu.Unlock()
	n, _ := u.ring.Free(len(u.ends))
	return n == len(u.ends)
}
