package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/rds"
	"github.com/rds-go/rds/xrc"
	"github.com/rds-go/rds/xrc/objects"
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
	d, err := newXsrqDaemon(local, &o.xsrqOptions, 2*o.queues*int(o.size))
	if err != nil {
		return err
	}
	defer d.close()
	c := &xsrqClient{d: d, o: o, remote: remote, out: out}
	defer func() {
		for _, s := range c.senders {
			_ = s.end()
		}
	}()
	if err := c.begin(ctx); err != nil {
		return err
	}
	return c.run(ctx)
}

// xsrqClient is a daemon with a process for each sender.
type xsrqClient struct {
	d       *xsrqDaemon
	o       *xsrqPingOptions
	remote  netip.Addr
	out     *printer
	client  *rds.Client
	session *xrc.Session
	queues  []objects.Answer // the server's queues
	senders []*child
	opened  int // number of initiators opened
}

// begin starts the senders, resolves the services and connects.
func (c *xsrqClient) begin(ctx context.Context) (err error) {
	if c.client, err = rds.Dial(c.d.socket); err != nil {
		return cli.WithStatus(cli.StatusUsage, err)
	}
	if c.session, err = c.client.XRC(ctx); err != nil {
		return err
	}
	f, err := domainFile()
	if err != nil {
		return err
	}
	defer f.Close()
	dom, err := c.session.OpenDomain(f, os.O_CREATE)
	if err != nil {
		return err
	}
	// The service for answers ends with this process. Answers to another client must not come here.
	answers := answerServices | rand.Uint64()
	if _, err := c.session.Advertise(xrc.ServiceAttr{ID: answers, Domain: dom}); err != nil {
		return err
	}
	for i := range c.o.senders {
		s, err := startChild(xsrqJob{Socket: c.d.socket, Index: i, Sends: c.o.queues, Service: c.o.service, Receives: c.o.queues, Size: int(c.o.size),
			Local: c.d.addr, Remote: c.remote, Answers: answers, Timeout: time.Duration(c.o.timeout)}, f)
		if err != nil {
			return err
		}
		c.senders = append(c.senders, s)
		context.AfterFunc(ctx, func() { _ = s.in.Close() })
	}
	// The first of these makes the connection, which then has the other questions, too.
	if _, err := all(ctx, c.senders); err != nil {
		return err
	}
	for i := range c.o.queues {
		step, cancel := c.step(ctx)
		a, err := c.session.Resolve(step, c.d.addr, c.remote, c.o.service+uint64(i))
		cancel()
		if err != nil {
			return fmt.Errorf("service %d: %w", c.o.service+uint64(i), reason(step, err))
		}
		c.queues = append(c.queues, a)
	}
	for _, s := range c.senders {
		s.tell(xsrqOrder{Queues: c.queues})
	}
	reports, err := all(ctx, c.senders)
	if err != nil {
		return err
	}
	for _, r := range reports {
		c.opened += r.Initiators
	}
	c.out.print(hostsLine{Type: "connected", Local: c.d.addr, Remote: netip.AddrPortFrom(c.remote, c.o.port), Queues: len(c.queues), Initiators: c.opened})
	return nil
}

// all returns what the senders say next. The error is the first.
func all(ctx context.Context, senders []*child) ([]xsrqReport, error) {
	reports, errs := make([]xsrqReport, len(senders)), make([]error, len(senders))
	var wg sync.WaitGroup
	for i, s := range senders {
		wg.Go(func() {
			r, err := s.hear()
			if err == nil && r.Error != "" {
				err = errors.New(r.Error)
			}
			if reports[i] = r; err != nil {
				errs[i] = fmt.Errorf("sender %d: %w", i, err)
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return reports, errInterrupted
	}
	for _, err := range errs {
		if err != nil {
			return reports, err
		}
	}
	return reports, nil
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
		only := &xsrqRound{Kind: xsrqPing, Last: queues, Count: count}
		err := c.play(ctx, only, c.senders)
		c.report(only, nil, err)
		return err
	}
	before, after := &xsrqRound{Kind: xsrqPing, Last: queues, Count: count / 2},
		&xsrqRound{Kind: xsrqPing, First: stop, Last: queues, Count: count - count/2, Endless: true}
	err := c.play(ctx, before, c.senders)
	if err == nil {
		err = c.play(ctx, &xsrqRound{Kind: xsrqStop, Last: stop, Count: 1}, c.senders[:1])
	}
	if err == nil {
		err = c.play(ctx, after, c.senders)
	}
	c.report(before, after, err)
	return err
}
