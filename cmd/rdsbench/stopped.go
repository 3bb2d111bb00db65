package main

import (
	"github.com/spf13/cobra"

	"github.com/rds-go/rds/internal/bench"
	"github.com/rds-go/rds/rds"
)

func stoppedCommand() *cobra.Command {
	f := &flags{}
	cmd := mode(bench.Stopped, f, &cobra.Command{
		Use:   "stopped",
		Short: "Applications that stream on one connection, while one of them is stopped",
		Long: `Each application of the client's daemon streams to one of the server's, from each of
its sockets to one there. All share the daemons' one connection. In turn, --repeat
times: the rate of all pairs but the first is taken with all running; the first
receiver is stopped by SIGSTOP until its memory is full and its queue is not ready;
the rate is taken again; and the receiver goes on by SIGCONT, until all that its
sender's calls had been accepted for has arrived.

Every number of every socket is verified, in order, and in the end the counts of both
sides: one message lost or doubled ends the run with exit status 1, and so does one
that a daemon has dropped. Beside the ratio of the rates stands what the stopped
application costs: what waits for it in its daemon, and the daemon's memory.`,
		Example: `  rdsbench stopped --repeat 5
  rdsbench stopped --pairs 8 --size 64 --duration 5s --json`,
	})
	cmd.PreRun = func(cmd *cobra.Command, _ []string) {
		if !cmd.Flags().Changed("wire") {
			f.opts.Wire = string(rds.WireXRC) // a busy host would settle for TCP
		}
	}
	fs := cmd.Flags()
	fs.IntVar(&f.opts.Processes, "pairs", 32, "applications on each side")
	fs.IntVar(&f.opts.Sockets, "sockets", 12, "sockets of each, whose receive buffers have to hold more than its arena")
	f.size(fs, "8k")
	fs.IntVar(&f.opts.Batch, "batch", 8, "messages of a SendBatch or RecvBatch (1: calls for single messages)")
	f.pinning(fs)
	return cmd
}
