package gnetloop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"

	"github.com/rds-go/rds/transport"
)

// Dial connects local to remote and returns the connection unstarted. The
// kernel chooses a local port that is 0.
func (e *Engine) Dial(ctx context.Context, local, remote netip.AddrPort) (*Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)()

	d := net.Dialer{KeepAlive: -1, Control: e.dialing}
	d.SetMultipathTCP(false)
	local, remote = unmap(local), unmap(remote)
	if e.opts.Gate != nil && !e.opts.Gate.Allows(remote.Addr()) {
		return nil, fmt.Errorf("%s: dial %v: %w", e.opts.Name, remote, transport.ErrNotAllowed)
	}
	tc, err := d.DialTCP(ctx, network(remote.Addr()), local, remote)
	var c *Conn
	if err == nil {
		c, err = e.newConn(tc, true)
	}
	switch {
	case err == nil:
		return c, nil
	case e.ctx.Err() != nil || errors.Is(err, net.ErrClosed):
		return nil, fmt.Errorf("%s: dial %v: %w", e.opts.Name, remote, transport.ErrClosed)
	case errors.Is(err, os.ErrDeadlineExceeded):
		// Package net reports the same deadline either way, as it happens.
		return nil, fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	return nil, err
}

// dialing is control for a socket that is to connect.
func (e *Engine) dialing(network, address string, c syscall.RawConn) error {
	var last bool
	if err := c.Control(func(fd uintptr) { last = int(fd) >= e.bound }); err != nil {
		return err
	}
	if last {
		return errReserved
	}
	return e.control(network, address, c)
}
