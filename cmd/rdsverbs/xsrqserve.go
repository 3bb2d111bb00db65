package main

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/rds-go/rds/internal/cli"
)

// maxXsrqReceives bounds the receives of a queue.
const maxXsrqReceives = 512

func xsrqServeCommand() *cobra.Command {
	var o xsrqOptions
	var receives int
	cmd := &cobra.Command{
		Use: "serve", Short: "The side with the queues, which answers",
		Example: `  rdsverbs xsrq serve -n 8   until Ctrl-C`,
		Args:    cli.Args(cobra.NoArgs),
		RunE:    runner(func(ctx context.Context, _ []string) error { return runXsrqServe(ctx, &o, receives) }),
	}
	f := cmd.Flags()
	o.flags(f, "longest message that is taken", 4096)
	f.IntVar(&receives, "receives", 64, "receives that each queue has posted")
	return cmd
}

func runXsrqServe(ctx context.Context, o *xsrqOptions, receives int) error {
	if receives < 1 || receives > maxXsrqReceives {
		return cli.Usagef("--receives %d is not in 1..%d", receives, maxXsrqReceives)
	}
	if err := o.check(receives); err != nil {
		return err
	}
	domain, err := domainFile()
	if err != nil {
		return err
	}
	defer domain.Close()
	x := &xsrqSide{kind: "queue", out: &printer{w: os.Stdout, json: o.json}}
	defer x.close()
	reports, err := x.start(ctx, o.queues, domain, func(i int) xsrqJob {
		return xsrqJob{Socket: o.socket, Index: i, Service: o.service + uint64(i), Receives: receives, Size: int(o.size), Timeout: time.Duration(o.timeout)}
	})
	if err != nil {
		return cli.WithStatus(cli.StatusUsage, err)
	}
	for i, r := range reports {
		service, number, pid := o.service+uint64(i), r.Queues[0], x.children[i].cmd.Process.Pid
		x.out.print(lineOf("queue", map[string]any{"index": i, "service": service, "number": number, "pid": pid},
			"queue %d: service %d, number %#x, process %d", i, service, number, pid))
	}
	x.out.print(lineOf("listening", map[string]any{"queues": o.queues}, "listening: %d queues", o.queues))
	reports, err = x.hear()
	for i, r := range reports {
		if n := r.Served; n != nil {
			x.out.print(lineOf("served", map[string]any{"index": i, "messages": n.Messages, "answered": n.Answered, "dropped": n.Dropped},
				"queue %d: %d messages, %d answers, %d dropped", i, n.Messages, n.Answered, n.Dropped))
		}
	}
	return err
}
