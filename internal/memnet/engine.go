package memnet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync"

	"github.com/rds-go/rds/internal/gnetloop"
	"github.com/rds-go/rds/transport"
)

var (
	_ gnetloop.Network = (*Network)(nil)
	_ gnetloop.Stack   = (*stack)(nil)
	_ gnetloop.Stream  = (*stream)(nil)
)

// stack is a gnetloop.Stack: it has event loops, and a goroutine that calls Writable. Where
// no lock is named the network's guards a field.
type stack struct {
	n     *Network
	opts  gnetloop.Options
	sizes sizes

	ctx    context.Context // ends dials when the stack closes
	cancel context.CancelFunc
	once   sync.Once
	wg     sync.WaitGroup // accepting goroutines, and every connection until Closed has returned
	loops  sync.WaitGroup // event loops and the goroutine that calls Writable

	all       []*loop
	next      int // which loop has the next connection
	closed    bool
	stopped   bool // the goroutines of loops have to end
	listeners map[*acceptor]struct{}
	conns     map[*stream]struct{}

	room      *sync.Cond // Writable is due, or stopped is set
	writables []*stream  // connections whose Writable is due
	stats     gnetloop.Stats
}

// Open starts a stack on the network.
func (n *Network) Open(o gnetloop.Options) (gnetloop.Stack, error) {
	e := &stack{
		n: n, opts: o, listeners: make(map[*acceptor]struct{}), conns: make(map[*stream]struct{}), room: sync.NewCond(&n.mu),
		// The kernel doubles what it is asked for.
		sizes: sizes{send: 2 * cmp.Or(o.SendBuffer, o.LocalSendBuffer), receive: 2 * o.ReceiveBuffer},
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	for range cmp.Or(o.EventLoops, min(runtime.GOMAXPROCS(0), 4)) {
		l := &loop{e: e, news: sync.NewCond(&n.mu), buf: make([]byte, o.ReadBuffer)}
		e.all = append(e.all, l)
		e.loops.Go(l.run)
	}
	e.loops.Go(e.tellWritable)
	return e, nil
}

// Dial connects local to remote.
func (e *stack) Dial(ctx context.Context, local, remote netip.AddrPort) (gnetloop.Stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)()
	if remote = unmap(remote); e.opts.Gate != nil && !e.opts.Gate.Allows(remote.Addr()) {
		return nil, fmt.Errorf("%s: dial %v: %w", e.opts.Name, remote, transport.ErrNotAllowed)
	}
	s, err := e.n.dial(ctx, local, remote, e.sizes)
	var c *stream
	if err == nil {
		e.n.mu.Lock()
		c, err = e.adopt(s)
		e.n.mu.Unlock()
	}
	switch {
	case err == nil:
		return c, nil
	case e.ctx.Err() != nil || errors.Is(err, net.ErrClosed):
		return nil, fmt.Errorf("%s: dial %v: %w", e.opts.Name, remote, transport.ErrClosed)
	}
	return nil, err
}

// adopt makes a connection of a socket, unless the stack is closed. The caller holds the
// network's lock.
func (e *stack) adopt(s *socket) (*stream, error) {
	if e.closed {
		s.reset()
		e.n.run()
		return nil, net.ErrClosed
	}
	c := &stream{e: e, s: s, loop: e.all[e.next], here: here(s.local.Addr(), s.remote.Addr()), quiet: true, users: 1}
	e.next = (e.next + 1) % len(e.all)
	s.owner = c
	e.conns[c] = struct{}{}
	e.wg.Add(1)
	return c, nil
}

// Stats returns the counters.
func (e *stack) Stats() gnetloop.Stats {
	e.n.mu.Lock()
	defer e.n.mu.Unlock()
	return e.stats
}

// Close ends everything and returns when every handler has heard Closed.
func (e *stack) Close() error {
	e.once.Do(func() {
		e.n.mu.Lock()
		e.closed = true
		for a := range e.listeners {
			a.l.close()
		}
		for c := range e.conns {
			c.shut(transport.Abort, transport.ErrClosed)
		}
		e.n.mu.Unlock()
		e.cancel()
		e.wg.Wait()

		e.n.mu.Lock()
		e.stopped = true
		for _, l := range e.all {
			l.news.Signal()
		}
		e.room.Signal()
		e.n.mu.Unlock()
		e.loops.Wait()
	})
	return nil
}

// tellWritable calls Writable of the connections that have room again.
func (e *stack) tellWritable() {
	e.n.mu.Lock()
	defer e.n.mu.Unlock()
	for {
		for len(e.writables) == 0 && !e.stopped {
			e.room.Wait()
		}
		if len(e.writables) == 0 {
			return
		}
		c := e.writables[0]
		e.writables = e.writables[1:]
		if c.phase != open {
			continue // Closed follows instead
		}
		c.users++
		e.stats.Writables++
		e.n.mu.Unlock()
		c.h.Writable()
		e.n.mu.Lock()
		c.leave()
	}
}

// loop is an event loop.
type loop struct {
	e     *stack
	news  *sync.Cond // queue has a connection, or stack.stopped is set
	queue []*stream  // guarded by the network's lock; connections to look at
	buf   []byte     // used by the loop only
}

// add has the loop look at a connection. The caller holds the network's lock.
func (l *loop) add(c *stream) {
	if !c.queued {
		c.queued = true
		l.queue = append(l.queue, c)
		l.news.Signal()
	}
}

func (l *loop) run() {
	l.e.n.mu.Lock()
	defer l.e.n.mu.Unlock()
	for {
		for len(l.queue) == 0 && !l.e.stopped {
			l.news.Wait()
		}
		if len(l.queue) == 0 {
			return
		}
		c := l.queue[0]
		l.queue = l.queue[1:]
		c.queued = false
		c.serve(l.buf)
	}
}
