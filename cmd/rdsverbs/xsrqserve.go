package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/xrc/objects"
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
		return err
	}
	return s.run(ctx)
}

// xsrqServer is a daemon with a process for each queue.
type xsrqServer struct {
	d      *xsrqDaemon
	o      *xsrqServeOptions
	out    *printer
	queues []*child
}

// queueLine tells of a queue of a server.
type queueLine struct {
	Type    string `json:"type"` // queue
	Index   int    `json:"index"`
	Service uint64 `json:"service"`
	Number  uint32 `json:"number"`
	PID     int    `json:"pid"`
}

func (l queueLine) String() string {
	return fmt.Sprintf("queue %d: service %d, number %#x, process %d", l.Index, l.Service, l.Number, l.PID)
}

// queueProblem is what went wrong with a queue.
type queueProblem struct {
	Type  string `json:"type"` // error
	Index int    `json:"index"`
	Error string `json:"error"`
}

func (p queueProblem) String() string { return fmt.Sprintf("queue %d: %s", p.Index, p.Error) }

func newXsrqServer(addr netip.Addr, o *xsrqServeOptions, out *printer) (*xsrqServer, error) {
	d, err := newXsrqDaemon(addr, &o.xsrqOptions, (o.receives+8*maxAnswers)*int(o.size))
	if err != nil {
		return nil, err
	}
	s := &xsrqServer{d: d, o: o, out: out}
	if err := s.begin(); err != nil {
		s.close()
		return nil, cli.WithStatus(cli.StatusUsage, err)
	}
	out.print(listening{Type: "listening", Address: netip.AddrPortFrom(addr, o.port)})
	return s, nil
}

func (s *xsrqServer) close() {
	for _, c := range s.queues {
		_ = c.end()
	}
	s.d.close()
}

// begin starts the processes, which make the queues and advertise them.
func (s *xsrqServer) begin() error {
	var domain *os.File
	if !s.o.ownDomains {
		f, err := domainFile()
		if err != nil {
			return err
		}
		defer f.Close()
		domain = f
	}
	for i := range s.o.queues {
		c, err := startChild(xsrqJob{Socket: s.d.socket, Index: i, Service: s.o.service + uint64(i), Receives: s.o.receives, Size: int(s.o.size),
			Local: s.d.addr, Timeout: time.Duration(s.o.timeout)}, domain)
		if err != nil {
			return err
		}
		s.queues = append(s.queues, c)
	}
	for i, c := range s.queues {
		r, err := c.hear()
		if err != nil {
			return fmt.Errorf("queue %d: %w", i, err)
		}
		s.out.print(queueLine{Type: "queue", Index: i, Service: s.o.service + uint64(i), Number: r.Number, PID: c.cmd.Process.Pid})
	}
	return nil
}

// run serves until ctx ends, or no process is left.
func (s *xsrqServer) run(ctx context.Context) error {
	defer s.d.close()
	stop := context.AfterFunc(ctx, func() {
		for _, c := range s.queues {
			_ = c.in.Close()
		}
	})
	defer stop()
	errs := make([]error, len(s.queues))
	served := make([]*servedLine, len(s.queues))
	var wg sync.WaitGroup
	for i, c := range s.queues {
		wg.Go(func() {
			for served[i] == nil {
				r, err := c.hear()
				if err != nil {
					errs[i] = fmt.Errorf("queue %d: %w", i, err)
					r.Error = err.Error()
				}
				if r.Error != "" {
					s.out.print(queueProblem{Type: "error", Index: i, Error: r.Error})
				}
				if served[i] = r.Served; err != nil {
					return
				}
			}
			_ = c.end()
		})
	}
	wg.Wait()
	for _, l := range served {
		if l != nil {
			s.out.print(l)
		}
	}
	if s.d.node != nil { // rdsinfo -x tells it of an rdsd
		stats := s.d.node.Xrc.Objects().Stats()
		s.out.print(targetsLine{Type: "targets", Targets: stats.TotalTargets(), Dead: stats.Targets[objects.StateError], EventsLost: stats.EventsLost})
	}
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
