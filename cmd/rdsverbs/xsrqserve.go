package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"

	"github.com/spf13/cobra"

	"github.com/rds-go/rds/internal/cli"
	objects "github.com/rds-go/rds/xrc"
)

// xsrqServeOptions are the flags of the side that answers.
type xsrqServeOptions struct {
	xsrqOptions
	listen     string
	receives   int
	ownDomains bool
}

func xsrqServeCommand() *cobra.Command {
	var o xsrqServeOptions
	cmd := &cobra.Command{
		Use: "serve -a ADDRESS", Short: "The side with the queues, which answers",
		Example: `  rdsverbs xsrq serve -a 10.0.0.2 -n 8                 until Ctrl-C
  rdsverbs xsrq serve -a 10.0.0.2 -n 8 --own-domains   as eight unrelated jobs`,
		Args: cli.Args(cobra.NoArgs),
		RunE: runner(func(ctx context.Context, _ []string) error { return runXsrqServe(ctx, &o) }),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&o.listen, "listen", "a", "", "`address` to listen on, one of this host's own")
	o.xsrqOptions.flags(f, "longest message that is taken", 4096)
	f.IntVar(&o.receives, "receives", 64, "receives that each queue has posted")
	f.BoolVar(&o.ownDomains, "own-domains", false, "give each queue a domain of its own; else they share one")
	return cmd
}

func runXsrqServe(ctx context.Context, o *xsrqServeOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	if o.receives < 1 || o.receives > 1<<12 || uint64(o.queues)*uint64(o.receives)*uint64(o.size) > maxMemory {
		return cli.Usagef("--receives %d is not in 1..%d, or all of all queues have more than %d bytes", o.receives, 1<<12, maxMemory)
	}
	if o.listen == "" {
		return cli.Usagef("which address to --listen on?")
	}
	addr, err := lookUpLocal(ctx, o.listen)
	if err != nil {
		return err
	}
	s, err := newXsrqServer(addr, o, &printer{w: os.Stdout, json: o.json})
	if err != nil {
		return cli.WithStatus(cli.StatusUsage, err)
	}
	defer s.h.close()
	return s.run(ctx)
}

// xsrqServer is a host with queues, each served by a goroutine.
type xsrqServer struct {
	h      *xsrqHost
	o      *xsrqServeOptions
	out    *printer
	queues []*servedQueue
}

// queueLine tells of a queue of a server.
type queueLine struct {
	Type    string `json:"type"` // queue
	Index   int    `json:"index"`
	Service uint64 `json:"service"`
	Number  uint32 `json:"number"`
}

func (l queueLine) String() string {
	return fmt.Sprintf("queue %d: service %d, number %#x", l.Index, l.Service, l.Number)
}

func newXsrqServer(addr netip.Addr, o *xsrqServeOptions, out *printer) (*xsrqServer, error) {
	h, err := newXsrqHost(addr, &o.xsrqOptions)
	if err != nil {
		return nil, err
	}
	s := &xsrqServer{h: h, o: o, out: out}
	if err := s.begin(); err != nil {
		h.close()
		return nil, err
	}
	out.print(listening{Type: "listening", Address: netip.AddrPortFrom(addr, o.port)})
	return s, nil
}

// begin makes the queues and advertises them.
func (s *xsrqServer) begin() error {
	domain := -1
	if !s.o.ownDomains {
		f, err := domainFile()
		if err != nil {
			return err
		}
		defer f.Close()
		domain = int(f.Fd())
	}
	for i := range s.o.queues {
		p, err := s.h.newProcess(processAttr{name: fmt.Sprint("queue ", i), domain: domain,
			receives: s.o.receives, size: int(s.o.size), sends: maxRepliers * maxAnswers})
		if err != nil {
			return err
		}
		service := s.o.service + uint64(i)
		if _, err := p.Advertise(objects.ServiceAttr{ID: service, Domain: p.dom, SRQ: p.srq}); err != nil {
			return err
		}
		s.queues = append(s.queues, newServedQueue(s, i, p))
		s.out.print(queueLine{Type: "queue", Index: i, Service: service, Number: p.number})
	}
	return nil
}

// run serves until ctx ends, or a queue fails.
func (s *xsrqServer) run(ctx context.Context) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(s.queues))
	var wg sync.WaitGroup
	for i, q := range s.queues {
		wg.Go(func() {
			defer cancel()
			errs[i] = q.run(inner)
		})
	}
	wg.Wait()
	for _, q := range s.queues {
		s.out.print(q.line())
	}
	stats := s.h.Objects().Stats()
	s.out.print(targetsLine{Type: "targets", Targets: stats.TotalTargets(), Dead: stats.Targets[objects.StateError], EventsLost: stats.EventsLost})
	return errors.Join(errs...)
}

// targetsLine tells of the targets that a server has in the end. Nobody reads its events.
type targetsLine struct {
	Type       string `json:"type"` // targets
	Targets    int    `json:"targets"`
	Dead       int    `json:"dead"` // those in error
	EventsLost uint64 `json:"events_lost"`
}

func (l targetsLine) String() string {
	return fmt.Sprintf("%d targets, %d of them dead; %d events that nobody has read", l.Targets, l.Dead, l.EventsLost)
}
