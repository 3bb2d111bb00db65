package rds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/rds-go/rds/internal/ipc"
)

// Client is the provider whose sockets are those of a running rdsd: the
// process attaches to the daemon and shares its connections with all other
// applications of the host. Messages pass through shared memory.
//
// When the daemon ends, every blocked call fails with ErrDaemonLost, and so do
// all later ones, unless ClientConfig.Reconnect is set. What was sent and not
// acknowledged by then may or may not be delivered: where its fate was asked for it ends
// with StatusDropped.
type Client struct {
	cfg ClientConfig

	reattaching sync.Mutex // one search for a daemon at a time; locked before all other locks

	mu       sync.Mutex
	att      *attachment // the present attachment; nil while there is none
	socks    map[*clientSocket]struct{}
	closed   bool
	stop     chan struct{} // closed with the Client
	attached waitQueue     // calls that wait for att
	work     sync.WaitGroup
}

// Dial attaches to the rdsd that listens on path; "" means the default path of
// ClientConfig.
func Dial(path string) (*Client, error) { return NewClient(ClientConfig{Path: path}) }

// NewClient attaches to an rdsd. Its error is ErrNoDaemon if none is there.
func NewClient(cfg ClientConfig) (*Client, error) { return newClient(context.Background(), cfg) }

// newClient is NewClient within ctx.
func newClient(ctx context.Context, cfg ClientConfig) (*Client, error) {
	if cfg.Path == "" {
		cfg.Path, _ = ipc.FindPath()
	}
	if cfg.ReconnectMin <= 0 {
		cfg.ReconnectMin = 10 * time.Millisecond
	}
	if cfg.ReconnectMax <= 0 {
		cfg.ReconnectMax = time.Second
	}
	c := &Client{cfg: cfg, socks: make(map[*clientSocket]struct{}), stop: make(chan struct{})}
	t, err := c.attach(ctx)
	if err != nil {
		return nil, &OpError{Op: "dial", Err: err}
	}
	c.att = t
	c.start(t)
	return c, nil
}

// awaitClient is newClient that tries again until ctx ends while no daemon answers.
// Its error then wraps ErrNoDaemon and the reason why ctx has ended.
func awaitClient(ctx context.Context, cfg ClientConfig) (*Client, error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for wait := awaitMin; ; wait = min(2*wait, awaitMax) {
		c, err := newClient(ctx, cfg)
		if err == nil || !errors.Is(err, ErrNoDaemon) && !errors.Is(err, net.ErrClosed) { // from a daemon that stops
			return c, err
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return nil, &OpError{Op: "dial", Err: fmt.Errorf("%w: %w (%w)", ErrNoDaemon, ctx.Err(), cause(err))}
		case <-timer.C:
		}
	}
}

// The back-off of awaitClient.
const awaitMin, awaitMax = 5 * time.Millisecond, 50 * time.Millisecond

// cause is what an OpError is about.
func cause(err error) error {
	if e := (*OpError)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}

// attachTimeout bounds the handshake.
const attachTimeout = 5 * time.Second

// attach connects and shakes hands.
func (c *Client) attach(ctx context.Context) (*attachment, error) {
	conn, err := ipc.Dial(c.cfg.Path)
	if err != nil { // ipc.Dial's error names the socket
		if errors.Is(err, os.ErrPermission) {
			return nil, fmt.Errorf("%w: %w", ErrPermission, err)
		}
		return nil, fmt.Errorf("%w: %w", ErrNoDaemon, err)
	}
	_ = conn.SetDeadline(time.Now().Add(attachTimeout))
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = conn.SetDeadline(time.Unix(1, 0))
	})
	t, err := newAttachment(c, conn)
	if !stop() {
		<-ended // otherwise the function would set its deadline after newAttachment has cleared the deadline
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("%s: %w", c.cfg.Path, err)
	}
	_ = conn.SetDeadline(time.Time{})
	return t, nil
}

// start runs an attachment's goroutines.
func (c *Client) start(t *attachment) {
	c.work.Go(t.dispatch)
	c.work.Go(t.replies)
}

// current is the present attachment, or the error of not having one.
func (c *Client) current() (*attachment, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, net.ErrClosed
	case c.att == nil:
		return nil, ErrDaemonLost
	}
	return c.att, nil
}

// Bind makes a socket bound to addr, one of the daemon's addresses, or its only one if
// addr has none, as in netip.AddrPortFrom(netip.Addr{}, 4000). Without a
// daemon it fails at once with ErrDaemonLost.
func (c *Client) Bind(addr netip.AddrPort) (*Socket, error) {
	addr = unmap(addr)
	s, err := c.bind(context.Background(), addr)
	if err != nil {
		return nil, &OpError{Op: "bind", Local: addr, Err: err}
	}
	return s, nil
}

// BindContext is Bind that, with ClientConfig.Reconnect, waits for a daemon
// until ctx ends. Its error then names the daemon's socket, and wraps
// ErrDaemonLost and the reason why ctx has ended.
func (c *Client) BindContext(ctx context.Context, addr netip.AddrPort) (*Socket, error) {
	addr = unmap(addr)
	for {
		w := c.attached.add()
		s, err := c.bind(ctx, addr)
		if c.cfg.Reconnect && errors.Is(err, ErrDaemonLost) {
			if _, none := c.current(); errors.Is(none, ErrDaemonLost) {
				err = w.wait(ctx)
			} else {
				err = ctx.Err() // another daemon has taken the place of t
			}
			if err == nil {
				c.attached.done(w)
				continue
			}
			err = fmt.Errorf("%w: no rdsd answers at %s: %w", ErrDaemonLost, c.cfg.Path, err)
		}
		c.attached.done(w)
		if err != nil {
			return nil, &OpError{Op: "bind", Local: addr, Err: err}
		}
		return s, nil
	}
}

// bind is Bind within ctx.
func (c *Client) bind(ctx context.Context, addr netip.AddrPort) (*Socket, error) {
	t, err := c.current()
	if err != nil {
		return nil, err
	}
	s := newClientSocket(c, t)
	if err := s.bindWithin(ctx, t, addr); err != nil {
		return nil, err
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		_ = s.close()
		return nil, net.ErrClosed
	}
	c.socks[s] = struct{}{}
	now := c.att
	c.mu.Unlock()
	if now != t {
		s.lost(t)
		if now != nil { // reattach did not know this socket yet
			s.rebind(now)
		}
	}
	return newSocket(s), nil
}

// Info is the daemon's.
func (c *Client) Info() (Info, error) { return c.info("") }

// InfoWith is Info with the parts named. A daemon that does not know a part leaves it out.
func (c *Client) InfoWith(parts ...InfoPart) (Info, error) {
	if slices.Contains(parts, InfoObjects) {
		return c.info(InfoObjects)
	}
	return c.info("")
}

// info asks the daemon for a report with a part, "" for none.
func (c *Client) info(part InfoPart) (Info, error) {
	t, err := c.current()
	var info Info
	if err == nil {
		var b []byte
		if b, err = t.report(context.Background(), part); err == nil {
			err = json.Unmarshal(b, &info)
		}
	}
	if err != nil {
		return Info{}, &OpError{Op: "info", Err: err}
	}
	return info, nil
}

// Close closes the sockets, each lingering for what it has sent, and leaves the
// daemon.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return &OpError{Op: "close", Err: net.ErrClosed}
	}
	c.closed = true
	close(c.stop)
	socks := make([]*clientSocket, 0, len(c.socks))
	for s := range c.socks {
		socks = append(socks, s)
	}
	t := c.att
	c.mu.Unlock()
	total := closeAll(socks)
	if t != nil {
		t.end(net.ErrClosed)
	}
	c.attached.wake(-1)
	c.work.Wait()
	if total.Messages > 0 {
		return &OpError{Op: "close", Err: &total}
	}
	return nil
}

// sockets lists the open sockets.
func (c *Client) sockets() []*clientSocket {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]*clientSocket, 0, len(c.socks))
	for s := range c.socks {
		out = append(out, s)
	}
	return out
}

// forget takes a closed socket out.
func (c *Client) forget(s *clientSocket) {
	c.mu.Lock()
	delete(c.socks, s)
	c.mu.Unlock()
}

// lost follows the end of an attachment: the sockets hear of it, and a new one
// is looked for if that was asked for.
func (c *Client) lost(t *attachment) {
	c.mu.Lock()
	if c.att == t {
		c.att = nil
	}
	socks := make([]*clientSocket, 0, len(c.socks))
	for s := range c.socks {
		socks = append(socks, s)
	}
	again := c.cfg.Reconnect && !c.closed
	if again {
		c.work.Add(1)
	}
	c.mu.Unlock()
	for _, s := range socks {
		s.lost(t)
	}
	if again {
		go c.reattach()
	}
}

// A daemon that ends is followed by another one soon, as a rule, and what peers send to
// it waits for the ports of this Client.
const (
	soon     = 10 * time.Second      // how long after the end of a daemon attempts are frequent
	soonWait = 50 * time.Millisecond // longest wait between attempts in that time
)

// backOff is the wait behind one of wait, so long after the end of the daemon.
func (c *Client) backOff(wait, since time.Duration) time.Duration {
	most := c.cfg.ReconnectMax
	if since < soon {
		most = min(most, max(soonWait, c.cfg.ReconnectMin))
	}
	return min(2*wait, most)
}

// reattach looks for a daemon until there is one, and binds the sockets there. Where
// that one ends at once the next search begins when this one has done with it, or
// sockets could be left with what they had of the daemon that has ended.
func (c *Client) reattach() {
	defer c.work.Done()
	c.reattaching.Lock()
	defer c.reattaching.Unlock()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for wait, since := c.cfg.ReconnectMin, time.Now(); ; wait = c.backOff(wait, time.Since(since)) {
		select {
		case <-c.stop:
			return
		case <-timer.C:
		}
		t, err := c.attach(context.Background())
		if err != nil {
			timer.Reset(wait)
			continue
		}
		c.start(t)
		c.mu.Lock()
		if c.closed {
			c.mu.Unlock()
			t.end(net.ErrClosed)
			return
		}
		c.att = t
		socks := make([]*clientSocket, 0, len(c.socks))
		for s := range c.socks {
			socks = append(socks, s)
		}
		c.mu.Unlock()
		for _, s := range socks {
			s.rebind(t)
		}
		c.attached.wake(-1)
		return
	}
}

// over tells whether Close was called.
func (c *Client) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}
