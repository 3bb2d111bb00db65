package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/rds-go/rds/internal/address"
	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/rds/info"
)

// Client is the provider whose sockets are those of a running rdsd: the
// process attaches to the daemon and shares its connections with all other
// applications of the host. Messages pass through shared memory.
//
// When the daemon ends, every blocked call fails with ErrDaemonLost, and so do
// all later ones, unless config.Client.Reconnect is set. What was sent and not
// acknowledged by then may or may not be delivered: where its fate was asked for it ends
// with StatusDropped.
type Client struct {
	config config.Client
	secret [16]byte // ipc.Hello.Secret

	reattaching lockorder.Mutex[clientReattaching] // one search for a daemon at a time; locked before all other locks

	Mu       lockorder.Mutex[clientMu]
	att      *attachment // the present attachment; nil while there is none
	socks    map[*Socket]struct{}
	closed   bool
	stop     chan struct{}    // closed with the Client
	attached socket.WaitQueue // calls that wait for att
	work     sync.WaitGroup
}

// Dial is Dial of package rds.
func Dial(path string) (*Client, error) { return New(config.Client{Path: path}) }

// New is NewClient of package rds.
func New(cfg config.Client) (*Client, error) { return newClient(context.Background(), cfg) }

// newClient is New within ctx.
func newClient(ctx context.Context, cfg config.Client) (*Client, error) {
	if cfg.Path == "" {
		cfg.Path, _ = ipc.FindPath()
	}
	if cfg.ReconnectMin <= 0 {
		cfg.ReconnectMin = 10 * time.Millisecond
	}
	if cfg.ReconnectMax <= 0 {
		cfg.ReconnectMax = time.Second
	}
	c := &Client{config: cfg, socks: make(map[*Socket]struct{}), stop: make(chan struct{})}
	_, _ = rand.Read(c.secret[:]) // never fails
	t, err := c.attach(ctx)
	if err != nil {
		return nil, &datagram.OpError{Op: "dial", Err: err}
	}
	c.att = t
	c.start(t)
	return c, nil
}

// Await is newClient that tries again until ctx ends while no daemon answers.
// Its error then wraps ErrNoDaemon and the reason why ctx has ended.
func Await(ctx context.Context, cfg config.Client) (*Client, error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for wait := awaitMin; ; wait = min(2*wait, awaitMax) {
		c, err := newClient(ctx, cfg)
		if err == nil || !errors.Is(err, datagram.ErrNoDaemon) && !errors.Is(err, net.ErrClosed) { // from a daemon that stops
			return c, err
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return nil, &datagram.OpError{Op: "dial", Err: fmt.Errorf("%w: %w (%w)", datagram.ErrNoDaemon, ctx.Err(), cause(err))}
		case <-timer.C:
		}
	}
}

// The back-off of Await.
const awaitMin, awaitMax = 5 * time.Millisecond, 50 * time.Millisecond

// cause is what an OpError is about.
func cause(err error) error {
	if e := (*datagram.OpError)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}

// attachTimeout bounds the handshake.
const attachTimeout = 5 * time.Second

// attach connects and shakes hands.
func (c *Client) attach(ctx context.Context) (*attachment, error) {
	conn, err := ipc.Dial(c.config.Path)
	if err != nil { // ipc.Dial's error names the socket
		if errors.Is(err, os.ErrPermission) {
			return nil, fmt.Errorf("%w: %w", datagram.ErrPermission, err)
		}
		return nil, fmt.Errorf("%w: %w", datagram.ErrNoDaemon, err)
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
		return nil, fmt.Errorf("%s: %w", c.config.Path, err)
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
	c.Mu.Lock()
	defer c.Mu.Unlock()
	switch {
	case c.closed:
		return nil, net.ErrClosed
	case c.att == nil:
		return nil, datagram.ErrDaemonLost
	}
	return c.att, nil
}

// Bind is Client.Bind of package rds.
func (c *Client) Bind(addr netip.AddrPort) (*socket.Socket, error) {
	addr = address.Unmap(addr)
	s, err := c.bind(context.Background(), addr)
	if err != nil {
		return nil, &datagram.OpError{Op: "bind", Local: addr, Err: err}
	}
	return s, nil
}

// BindContext is Client.BindContext of package rds.
func (c *Client) BindContext(ctx context.Context, addr netip.AddrPort) (*socket.Socket, error) {
	addr = address.Unmap(addr)
	for {
		w := c.attached.Add()
		s, err := c.bind(ctx, addr)
		if c.config.Reconnect && errors.Is(err, datagram.ErrDaemonLost) {
			if _, none := c.current(); errors.Is(none, datagram.ErrDaemonLost) {
				err = w.Wait(ctx)
			} else {
				err = ctx.Err() // another daemon has taken the place of t
			}
			if err == nil {
				c.attached.Done(w)
				continue
			}
			err = fmt.Errorf("%w: no rdsd answers at %s: %w", datagram.ErrDaemonLost, c.config.Path, err)
		}
		c.attached.Done(w)
		if err != nil {
			return nil, &datagram.OpError{Op: "bind", Local: addr, Err: err}
		}
		return s, nil
	}
}

// bind is Bind within ctx.
func (c *Client) bind(ctx context.Context, addr netip.AddrPort) (*socket.Socket, error) {
	t, err := c.current()
	if err != nil {
		return nil, err
	}
	s := newSocket(c, t)
	if err := s.bindWithin(ctx, t, addr); err != nil {
		return nil, err
	}
	if err := c.remember(s, t); err != nil {
		_ = s.Close()
		return nil, err
	}
	return socket.New(s), nil
}

// remember makes a socket that was bound at t one of the Client's, which hear of t's end. If
// t has ended it was too early, and the socket is nobody's.
func (c *Client) remember(s *Socket, t *attachment) error {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	switch {
	case c.closed:
		return net.ErrClosed
	case c.att != t:
		return datagram.ErrDaemonLost
	}
	c.socks[s] = struct{}{}
	return nil
}

// Info is Client.Info of package rds.
func (c *Client) Info() (info.Report, error) { return c.InfoWith() }

// InfoWith is Client.InfoWith of package rds.
func (c *Client) InfoWith(parts ...info.InfoPart) (info.Report, error) {
	var part info.InfoPart
	if slices.Contains(parts, info.InfoObjects) {
		part = info.InfoObjects
	}
	t, err := c.current()
	var report info.Report
	if err == nil {
		var b []byte
		if b, err = t.report(context.Background(), part); err == nil {
			err = json.Unmarshal(b, &report)
		}
	}
	if err != nil {
		return info.Report{}, &datagram.OpError{Op: "info", Err: err}
	}
	return report, nil
}

// Close is Client.Close of package rds.
func (c *Client) Close() error {
	c.Mu.Lock()
	if c.closed {
		c.Mu.Unlock()
		return &datagram.OpError{Op: "close", Err: net.ErrClosed}
	}
	c.closed = true
	close(c.stop)
	socks := make([]*Socket, 0, len(c.socks))
	for s := range c.socks {
		socks = append(socks, s)
	}
	t := c.att
	c.Mu.Unlock()
	total := socket.CloseAll(socks)
	if t != nil {
		t.end(net.ErrClosed)
	}
	c.attached.Wake(-1)
	c.work.Wait()
	if total.Messages > 0 {
		return &datagram.OpError{Op: "close", Err: &total}
	}
	return nil
}

// sockets lists the open sockets.
func (c *Client) sockets() []*Socket {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	out := make([]*Socket, 0, len(c.socks))
	for s := range c.socks {
		out = append(out, s)
	}
	return out
}

// forget takes a closed socket out.
func (c *Client) forget(s *Socket) {
	c.Mu.Lock()
	delete(c.socks, s)
	c.Mu.Unlock()
}

// lost follows the end of an attachment: the sockets hear of it, and a new one
// is looked for if that was asked for.
func (c *Client) lost(t *attachment) {
	c.Mu.Lock()
	if c.att == t {
		c.att = nil
	}
	socks := make([]*Socket, 0, len(c.socks))
	for s := range c.socks {
		socks = append(socks, s)
	}
	again := c.config.Reconnect && !c.closed
	if again {
		c.work.Add(1)
	}
	c.Mu.Unlock()
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
	most := c.config.ReconnectMax
	if since < soon {
		most = min(most, max(soonWait, c.config.ReconnectMin))
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
	for wait, since := c.config.ReconnectMin, time.Now(); ; wait = c.backOff(wait, time.Since(since)) {
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
		c.Mu.Lock()
		if c.closed {
			c.Mu.Unlock()
			t.end(net.ErrClosed)
			return
		}
		c.att = t
		socks := make([]*Socket, 0, len(c.socks))
		for s := range c.socks {
			socks = append(socks, s)
		}
		c.Mu.Unlock()
		for _, s := range socks {
			s.rebind(t)
		}
		c.attached.Wake(-1)
		return
	}
}

// Over tells whether Close was called.
func (c *Client) Over() bool {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return c.closed
}
