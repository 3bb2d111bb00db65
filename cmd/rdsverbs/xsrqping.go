package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/rds-go/rds/internal/cli"
	objects "github.com/rds-go/rds/xrc"
)

// xsrqPingOptions are the flags of the side that pings.
type xsrqPingOptions struct {
	xsrqOptions
	connect string
	source  string
	senders int
	count   cli.Number
	stop    int
}

func xsrqPingCommand() *cobra.Command {
	var o xsrqPingOptions
	cmd := &cobra.Command{
		Use: "ping -a ADDRESS", Short: "The side with the senders",
		Example: `  rdsverbs xsrq ping -a 10.0.0.2 -n 8 -m 8           eight senders, each with all eight queues
  rdsverbs xsrq ping -a 10.0.0.2 -n 8 -m 8 --stop 2  and two queues stop halfway`,
		Args: cli.Args(cobra.NoArgs),
		RunE: runner(func(ctx context.Context, _ []string) error {
			return runXsrqPing(ctx, &o, &printer{w: os.Stdout, json: o.json})
		}),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&o.connect, "connect", "a", "", "`address` of the server")
	f.StringVarP(&o.source, "source", "I", "", "local `address`, which no other host has; else that of the route")
	o.xsrqOptions.flags(f, "size of a ping", 64)
	f.IntVarP(&o.senders, "senders", "m", 4, "processes that send")
	o.count = 1000
	f.VarP(&o.count, "count", "C", "pings of each sender to each queue")
	f.IntVar(&o.stop, "stop", 0, "halfway have this many queues post no more receives; the others have to go on")
	return cmd
}

func (o *xsrqPingOptions) check() error {
	if err := o.xsrqOptions.check(); err != nil {
		return err
	}
	switch {
	case o.connect == "":
		return cli.Usagef("whose --connect address?")
	case o.senders < 1 || o.senders > maxXsrqSenders:
		return cli.Usagef("%d senders are not in 1..%d", o.senders, maxXsrqSenders)
	case uint64(o.senders)*uint64(o.queues)*uint64(o.size) > maxMemory/2:
		return cli.Usagef("pings of %d bytes from %d senders to %d queues are more than %d bytes", o.size, o.senders, o.queues, maxMemory/2)
	case o.stop < 0 || o.stop >= o.queues:
		return cli.Usagef("--stop %d leaves none of %d queues", o.stop, o.queues)
	case o.count < 1 || o.stop > 0 && o.count < 2:
		return cli.Usagef("--count %d is too few", o.count)
	}
	return nil
}

// addresses are those of this side and of the server.
func (o *xsrqPingOptions) addresses(ctx context.Context) (local, remote netip.Addr, err error) {
	if remote, err = lookUp(ctx, o.connect); err != nil {
		return local, remote, err
	}
	if o.source != "" {
		local, err = lookUpLocal(ctx, o.source)
	} else {
		local, err = addressTo(ctx, remote)
	}
	if err == nil && local == remote {
		err = cli.Usagef("the server is this host: it needs another address, or --source one")
	}
	return local, remote, err
}

func runXsrqPing(ctx context.Context, o *xsrqPingOptions, out *printer) error {
	if err := o.check(); err != nil {
		return err
	}
	local, remote, err := o.addresses(ctx)
	if err != nil {
		return err
	}
	h, err := newXsrqHost(local, &o.xsrqOptions)
	if err != nil {
		return err
	}
	defer h.close()
	// Answers to an earlier life of this host must not come here.
	c := &xsrqClient{h: h, o: o, service: answerServices | h.Objects().Incarnation(), remote: remote, out: out}
	if err := c.begin(ctx); err != nil {
		return err
	}
	return c.run(ctx)
}

// xsrqClient is a host with senders.
type xsrqClient struct {
	h       *xsrqHost
	o       *xsrqPingOptions
	remote  netip.Addr
	out     *printer
	queues  []objects.Answer // the server's queues
	senders []*sender
	opened  int    // number of initiators opened
	service uint64 // service id for answers
}

// begin starts the senders, resolves the services and connects.
func (c *xsrqClient) begin(ctx context.Context) error {
	f, err := domainFile()
	if err != nil {
		return err
	}
	defer f.Close()
	for i := range c.o.senders {
		s, err := newSender(c, i, int(f.Fd()))
		if err != nil {
			return fmt.Errorf("sender %d: %w", i, err)
		}
		c.senders = append(c.senders, s)
	}
	first := c.senders[0]
	if _, err := first.Advertise(objects.ServiceAttr{ID: c.service, Domain: first.dom, SRQ: first.srq}); err != nil {
		return err
	}
	// This makes the connection, which then has the other questions, too.
	if err := first.connect(ctx, 0); err != nil {
		return err
	}
	for i := range c.o.queues {
		step, cancel := c.step(ctx)
		a, err := c.h.Resolve(step, c.h.addr, c.remote, c.o.service+uint64(i))
		cancel()
		if err != nil {
			return fmt.Errorf("service %d: %w", c.o.service+uint64(i), reason(step, err))
		}
		c.queues = append(c.queues, a)
	}
	for _, s := range c.senders {
		for i := range c.queues {
			if err := s.route(ctx, i); err != nil {
				return err
			}
		}
		c.opened += len(s.channels)
	}
	c.out.print(hostsLine{Type: "connected", Local: c.h.addr, Remote: netip.AddrPortFrom(c.remote, c.o.port), Queues: len(c.queues), Initiators: c.opened})
	return nil
}

// hostsLine is the first line of the side that pings.
type hostsLine struct {
	Type       string         `json:"type"` // connected
	Local      netip.Addr     `json:"local"`
	Remote     netip.AddrPort `json:"remote"`
	Queues     int            `json:"queues"`
	Initiators int            `json:"initiators"` // number of initiators: one for each sender and domain
}

func (l hostsLine) String() string {
	return fmt.Sprintf("connected %v to %v: %d queues, %d initiators", l.Local, l.Remote, l.Queues, l.Initiators)
}

// step bounds one wait for the server.
func (c *xsrqClient) step(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, time.Duration(c.o.timeout), errTimeout)
}

// run pings. Halfway it stops queues.
func (c *xsrqClient) run(ctx context.Context) error {
	queues, stop, count := c.o.queues, c.o.stop, uint64(c.o.count)
	if stop == 0 {
		only := newRound(xsrqPing, 0, queues, count)
		err := c.play(ctx, only, c.senders)
		c.report(only, nil, err)
		return err
	}
	before, after := newRound(xsrqPing, 0, queues, count/2), newRound(xsrqPing, stop, queues, count-count/2)
	after.endless = true
	err := c.play(ctx, before, c.senders)
	if err == nil {
		err = c.play(ctx, newRound(xsrqStop, 0, stop, 1), c.senders[:1])
	}
	if err == nil {
		err = c.play(ctx, after, c.senders)
	}
	c.report(before, after, err)
	return err
}

// play has senders play a round, all at once. The first error ends it.
func (c *xsrqClient) play(ctx context.Context, r *round, senders []*sender) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begin := time.Now()
	var wg sync.WaitGroup
	for _, s := range senders {
		wg.Go(func() {
			if err := s.play(ctx, r); err != nil {
				cancel(fmt.Errorf("sender %d: %w", s.index, err))
			}
		})
	}
	wg.Wait()
	r.took = time.Since(begin)
	if ctx.Err() == nil {
		return nil
	}
	if err := context.Cause(ctx); err != context.Canceled {
		return err
	}
	return errInterrupted
}
