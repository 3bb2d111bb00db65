package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/rds-go/rds/internal/bench"
	"github.com/rds-go/rds/rds"
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
each message by another.

With --sockets it is the same one level above: the workers are RDS sockets of one
node, which share its connection to the server's node. Each writes to the region of
a socket of its own there and sends a message behind the write, which the server
verifies and answers, and every fourth operation reads what was written last. The
rogue is one more socket. There is no baseline. It works 15 times, in turn with as
long a time without it, and each of the 15 is compared with the times beside it.`,
		Example: `  rdsbench chernobyl
  rdsbench chernobyl --workers 100 --size 64 --duration 30s --html page.html
  rdsbench chernobyl --svg chernobyl.svg
  rdsbench chernobyl --sockets --svg chernobyl-sockets.svg`,
	})
	cmd.PreRun = func(cmd *cobra.Command, _ []string) {
		if f.opts.RDS {
			f.opts.Provider = rds.ProviderNode
			if !cmd.Flags().Changed("duration") {
				f.opts.Duration = 31 * time.Second
			}
		}
	}
	fs := cmd.Flags()
	f.opts.Duration = 6 * time.Second
	fs.Lookup("duration").DefValue = f.opts.Duration.String()
	fs.BoolVar(&f.opts.RDS, "sockets", false, "the workers are RDS sockets")
	fs.IntVar(&f.opts.Workers, "workers", 1000, "workers with good keys")
	f.size(fs, "8k")
	fs.BoolVar(&f.opts.Baseline, "baseline", true, "do the same over a plain connection")
	fs.StringVar(&f.svg, "svg", "", "also write the plot to this `file`")
	f.pinning(fs)
	return cmd
}
