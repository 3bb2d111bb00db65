package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
)

// pingServer echoes the pings of many clients, each on a goroutine.
type pingServer struct {
	dev    *iwarp.Device
	pd     *iwarp.PD // protection domain of all connections; no region of it has remote rights
	ln     *iwarp.Listener
	o      *pingOptions
	params iwarp.ConnParams
	out    *printer

	endless bool // an interrupt is the normal end

	connections
}

func newPingServer(dev *iwarp.Device, o *pingOptions, params iwarp.ConnParams, at netip.AddrPort, out *printer) (*pingServer, error) {
	pd, err := dev.AllocPD()
	if err != nil {
		return nil, err
	}
	ln, err := dev.Listen(at)
	if err != nil {
		return nil, errors.Join(err, pd.Close())
	}
	out.print(listening{Type: "listening", Address: ln.Addr()})
	return &pingServer{dev: dev, pd: pd, ln: ln, o: o, params: params, out: out}, nil
}

func (s *pingServer) close() {
	_ = s.ln.Close()
	s.wg.Wait()
	_ = s.pd.Close()
}

// run serves that many connections, 0: until ctx ends, and waits for their end.
func (s *pingServer) run(ctx context.Context, connections int) error {
	s.endless = connections == 0
	err := s.serve(ctx, s.ln, connections, s.connection)
	switch {
	case s.failed.Load() > 0:
		return cli.Exit(cli.StatusFailed) // the lines of the connections have told why
	case s.endless && ctx.Err() != nil:
		return nil
	}
	return reason(ctx, err)
}

// connection serves one client to its end.
func (s *pingServer) connection(ctx context.Context, id int, in *iwarp.Incoming) {
	c, est, err := s.accept(ctx, id, in)
	if err != nil {
		s.failed.Add(1)
		s.out.print(problem{Type: "error", Connection: id, Error: err.Error()})
		return
	}
	defer c.close()
	s.out.print(connected(id, est))
	start := time.Now()
	n, size := 0, 0
	for err == nil {
		var got int
		if got, err = c.once(ctx, n); err == nil {
			n, size = n+1, got
		}
	}
	if errors.Is(err, errOver) {
		err = nil
		if want := int(s.o.count); want != 0 && n != want {
			err = fmt.Errorf("%d pings, %d were expected", n, want)
		}
	}
	if err != nil && !(s.endless && errors.Is(err, errInterrupted)) {
		s.failed.Add(1)
	}
	s.out.print(pingsEnd(id, "server", est, n, size, time.Since(start), err))
}

// accept makes a queue pair and its buffers for a request.
func (s *pingServer) accept(ctx context.Context, id int, in *iwarp.Incoming) (*pingConnection, *iwarp.Established, error) {
	e, err := newPingEnd(s.dev, s.pd, &s.o.terms)
	if err != nil {
		return nil, nil, errors.Join(err, in.Reject(nil))
	}
	c := &pingConnection{pingEnd: e, s: s, id: id, scratch: make([]byte, s.o.size)}
	if c.buf, err = s.pd.RegMR(make([]byte, s.o.size), mr.LocalWrite, pingBase); err != nil {
		c.close()
		return nil, nil, errors.Join(err, in.Reject(nil))
	}
	est, err := in.Accept(ctx, e.qp, s.params)
	if err != nil {
		c.close()
		return nil, nil, err
	}
	return c, est, nil
}

// errOver: the client has disconnected between two pings, as it should.
var errOver = errors.New("disconnected")

// pingConnection is one client's.
type pingConnection struct {
	*pingEnd
	s       *pingServer
	id      int
	buf     *iwarp.MR
	scratch []byte
}

// close ends the connection, with a FIN, not a reset, after an error of ours.
func (c *pingConnection) close() {
	c.qp.Fail()
	<-c.qp.Done()
	c.pingEnd.close()
	dereg(c.buf)
}

// once is one ping; it returns its size.
func (c *pingConnection) once(ctx context.Context, n int) (int, error) {
	from, err := c.receive(ctx)
	switch {
	case errors.Is(err, iwarp.ErrPeerClosed):
		return 0, errOver
	case err != nil:
		return 0, err
	case from.size == 0 || int64(from.size) > int64(len(c.buf.Bytes())):
		return 0, fmt.Errorf("ping of %d bytes, at most %d (--size)", from.size, len(c.buf.Bytes()))
	}
	size := int(from.size)
	ping, err := c.read(ctx, from)
	if err != nil {
		return 0, err
	}
	text, ok := pingText(ping)
	if !ok {
		return 0, fmt.Errorf("%w: ping %d has no end", errPing, n)
	}
	if c.s.o.validate {
		if err := checkPing(ping, c.scratch[:size], n); err != nil {
			return 0, err
		}
	}
	if c.s.o.verbose {
		c.s.out.print(pingLine{Type: "ping", Connection: c.id, Role: "server", Number: n, Data: string(text)})
	}
	if _, err := c.qp.PostSend(message(advert{})); err != nil {
		return 0, err
	}
	to, err := c.receive(ctx)
	if err != nil {
		return 0, err
	}
	echo := len(text) + 1
	if int64(to.size) < int64(echo) {
		return 0, fmt.Errorf("sink of %d bytes for a ping of %d", to.size, echo)
	}
	// The Send is delivered when the Write is placed (RFC 5040 section 5.5),
	// and the buffer is ours again when the client answers it.
	_, err = c.qp.PostSend(
		iwarp.WorkRequest{Op: iwarp.OpWrite, SGE: []iwarp.SGE{c.buf.SGE(0, echo)}, RemoteKey: to.key, RemoteAddr: to.addr},
		message(advert{}))
	return size, err
}

// read fetches the ping.
func (c *pingConnection) read(ctx context.Context, from advert) ([]byte, error) {
	ctx, cancel := c.step(ctx)
	defer cancel()
	_, err := c.qp.PostSend(iwarp.WorkRequest{Op: iwarp.OpRead, Flags: iwarp.Signaled,
		SGE: []iwarp.SGE{c.buf.SGE(0, int(from.size))}, RemoteKey: from.key, RemoteAddr: from.addr})
	if err != nil {
		return nil, err
	}
	if _, err := c.want(ctx, iwarp.OpRead); err != nil {
		return nil, err
	}
	return c.buf.Bytes()[:from.size], nil
}
