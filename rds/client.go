package rds

import (
	"context"
	"net/netip"

	"github.com/rds-go/rds/internal/client"
	"github.com/rds-go/rds/xrc"
)

// Client is the provider whose sockets are those of a running rdsd: the
// process attaches to the daemon and shares its connections with all other
// applications of the host. Messages pass through shared memory.
//
// When the daemon ends, every blocked call fails with ErrDaemonLost, and so do
// all later ones, unless ClientConfig.Reconnect is set. What was sent and not
// acknowledged by then may or may not be delivered: where its fate was asked for it ends
// with StatusDropped. A socket that is attached again tells the loss once, between what the
// daemon has brought and what the next one brings, if no other call has told it before: what
// was lost on its way to the socket was due there.
type Client struct{ c *client.Client }

// Dial attaches to the rdsd that listens on path; "" means the default path of
// ClientConfig.
func Dial(path string) (*Client, error) {
	c, err := client.Dial(path)
	if err != nil {
		return nil, err
	}
	return &Client{c}, nil
}

// NewClient attaches to an rdsd. Its error is ErrNoDaemon if none is there.
func NewClient(cfg ClientConfig) (*Client, error) {
	c, err := client.New(cfg)
	if err != nil {
		return nil, err
	}
	return &Client{c}, nil
}

// awaitClient is newClient that tries again until ctx ends while no daemon answers.
// Its error then wraps ErrNoDaemon and the reason why ctx has ended.
func awaitClient(ctx context.Context, cfg ClientConfig) (*Client, error) {
	c, err := client.Await(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &Client{c}, nil
}

// Bind makes a socket bound to addr, one of the daemon's addresses, or its only one if
// addr has none, as in netip.AddrPortFrom(netip.Addr{}, 4000). Without a
// daemon it fails at once with ErrDaemonLost.
func (c *Client) Bind(addr netip.AddrPort) (*Socket, error) {
	s, err := c.c.Bind(addr)
	if err != nil {
		return nil, err
	}
	return &Socket{*s}, nil
}

// BindContext is Bind that, with ClientConfig.Reconnect, waits for a daemon
// until ctx ends. Its error then names the daemon's socket, and wraps
// ErrDaemonLost and the reason why ctx has ended.
func (c *Client) BindContext(ctx context.Context, addr netip.AddrPort) (*Socket, error) {
	s, err := c.c.BindContext(ctx, addr)
	if err != nil {
		return nil, err
	}
	return &Socket{*s}, nil
}

// Info is the daemon's.
func (c *Client) Info() (Info, error) { return c.c.Info() }

// InfoWith is Info with the parts named. A daemon that does not know a part leaves it out.
func (c *Client) InfoWith(parts ...InfoPart) (Info, error) { return c.c.InfoWith(parts...) }

// XRC begins objects of XRC that the daemon has for this process: domains that processes share by a file,
// shared receive queues, registrations with targets. There is one such session at a time. It
// ends with the attachment, also if another process takes the daemon's place. ErrNotSupported: the
// daemon has no XRC.
func (c *Client) XRC(ctx context.Context) (*xrc.Session, error) {
	o, err := c.c.Objects()
	if err != nil {
		return nil, &OpError{Op: "xrc", Err: err}
	}
	s, err := xrc.Open(ctx, o)
	if err != nil {
		return nil, &OpError{Op: "xrc", Err: err}
	}
	return s, nil
}

// over tells whether Close was called.
func (c *Client) over() bool { return c.c.Over() }

// Close closes the sockets, each lingering for what it has sent, and leaves the
// daemon.
func (c *Client) Close() error { return c.c.Close() }
