package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/rds-go/rds/internal/bench"
)

func chernobylCommand() *cobra.Command {
	f := &flags{}
	cmd := below(bench.Chernobyl, f, nil, &cobra.Command{
		Use:   "chernobyl",
		Short: "1,000 workers on one connection, one more uses bad keys",
		Long: `Workers share one connection with shared receive queues. Each writes to memory
of its own on the server by RDMA Write, sends a message that builds on it to a
queue of its own, and waits until both have completed. The server verifies the
number of each message and every byte that was written before it: one lost,
doubled or early ends the run with exit status 1, and so does an error.

In the second third of the time one more worker sends, in a loop, Writes and Reads
with a stale key, beyond the end of its region, and without the right, and a
message that builds on such a Write. Each has to be refused, and nobody else is
to notice.

The baseline is a plain connection, where the first bad key is the end of it for
everybody (RFC 5040 section 7): the "network chernobyl". There the server answers
each message by another.`,
		Example: `  rdsbench chernobyl
  rdsbench chernobyl --workers 100 --size 64 --duration 30s --html page.html
  rdsbench chernobyl --svg chernobyl.svg`,
	})
	fs := cmd.Flags()
	f.opts.Duration = 6 * time.Second
	fs.Lookup("duration").DefValue = f.opts.Duration.String()
	fs.IntVar(&f.opts.Workers, "workers", 1000, "workers with good keys")
	f.size(fs, "8k")
	fs.BoolVar(&f.opts.Baseline, "baseline", true, "do the same over a plain connection")
	fs.StringVar(&f.svg, "svg", "", "also write the plot to this `file`")
	f.pinning(fs)
	return cmd
}
