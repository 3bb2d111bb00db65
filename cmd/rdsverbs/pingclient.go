package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
)

// pingClient pings one server.
type pingClient struct {
	*pingEnd
	dev     *iwarp.Device
	o       *pingOptions
	out     *printer
	ping    *iwarp.MR // memory that the server reads
	echo    *iwarp.MR // memory that the server writes
	scratch []byte
}

// Regions begin at different addresses, none of them 0, so that a mistaken
// address is seen.
const (
	pingBase = 1 << 32
	echoBase = 2 << 32
)

func newPingClient(dev *iwarp.Device, o *pingOptions, out *printer) (*pingClient, error) {
	pd, err := dev.AllocPD()
	if err != nil {
		return nil, err
	}
	e, err := newPingEnd(dev, pd, &o.terms)
	if err != nil {
		return nil, err
	}
	c := &pingClient{pingEnd: e, dev: dev, o: o, out: out, scratch: make([]byte, o.size)}
	if c.ping, err = pd.RegMR(make([]byte, o.size), mr.RemoteRead, pingBase); err == nil {
		c.echo, err = pd.RegMR(make([]byte, o.size), mr.LocalWrite|mr.RemoteWrite, echoBase)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *pingClient) close() {
	c.pingEnd.close()
	dereg(c.ping)
	dereg(c.echo)
	_ = c.pd.Close()
}

// run connects, pings, and disconnects.
func (c *pingClient) run(ctx context.Context, from, to netip.AddrPort, params iwarp.ConnParams) error {
	step, cancel := c.step(ctx)
	est, err := c.dev.ConnectFrom(step, c.qp, from, to, params)
	cancel()
	if err != nil {
		return reason(step, err)
	}
	c.out.print(connected(0, est))
	start := time.Now()
	n := 0
	whole := context.WithoutCancel(ctx) // an interrupt comes between two pings
	for ; c.o.count == 0 || n < int(c.o.count); n++ {
		if ctx.Err() != nil {
			err = errInterrupted
			break
		}
		if err = c.once(whole, n); err != nil {
			break
		}
	}
	took := time.Since(start)
	if err == nil || errors.Is(err, errInterrupted) {
		if c.o.count == 0 {
			err = nil
		}
		step, cancel = c.step(whole)
		err = errors.Join(err, c.disconnect(step))
		cancel()
	}
	c.out.print(pingsEnd(0, "client", est, n, int(c.o.size), took, err))
	if err != nil {
		return fmt.Errorf("after %d pings: %w", n, err)
	}
	return nil
}

// once is one ping.
func (c *pingClient) once(ctx context.Context, n int) error {
	fillPing(c.ping.Bytes(), n)
	if c.o.validate {
		clear(c.echo.Bytes()) // an echo that never came must not look like one
	}
	for _, m := range []*iwarp.MR{c.ping, c.echo} {
		if _, err := c.qp.PostSend(message(advert{addr: m.Base(), key: m.Key(), size: uint32(len(m.Bytes()))})); err != nil {
			return err
		}
		if _, err := c.receive(ctx); err != nil {
			return err
		}
	}
	if c.o.validate {
		if err := checkPing(c.echo.Bytes(), c.scratch, n); err != nil {
			return err
		}
	}
	if c.o.verbose {
		text, _ := pingText(c.echo.Bytes())
		c.out.print(pingLine{Type: "ping", Role: "client", Number: n, Data: string(text)})
	}
	return nil
}
