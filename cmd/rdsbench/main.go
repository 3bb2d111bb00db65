package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/rds"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process
	root := rootCommand()
	root.SetContext(ctx)
	status := cli.Main(root)
	stop()
	os.Exit(status)
}

func rootCommand() *cobra.Command {
	var f flags
	root := &cobra.Command{
		Use:   "rdsbench",
		Short: "Measure RDS sockets against plain TCP",
		Long: `Rdsbench measures RDS sockets between two processes, and plain TCP doing the
same work in turn.

Without a mode it makes the whole table on loopback: ping-pong with both
processes on one CPU, one way from 64 B to 1 MiB, 64 x 64 sockets with replies,
and what 10,000 bound sockets cost.

With --provider rdsd the two processes are applications, each attached to a
daemon of its side. Without --server the daemons are processes of rdsbench too,
with the same options, and the baseline is also the same work by two processes
with embedded nodes ("x node"). The table then is of what a daemon makes
different, with 32 x 32 processes that share one connection.

A time is taken after a warm-up; one way it ends when the receiver has confirmed
the count. Receivers check length and number of every message. CPU is of both
sides, daemons included. "x TCP" is the ratio to the baseline: of the rate, or of the median
latency. The baseline writes a 4-byte length and the message through 64 KiB of
bufio, one way without a flush between messages: a thousand messages of 64 B
leave in one system call.`,
		Example: `  rdsbench
  rdsbench --repeat 5 --duration 2s --html table.html
  rdsbench --congestion reno
  rdsbench --provider rdsd`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), "")
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	f.common(root.Flags(), rds.ProviderNode)
	f.compare(root.Flags(), true)
	modes := slices.Concat(socketModes, xrcModes, verbsModes)
	for i := range modes {
		root.AddCommand(modes[i].command())
	}
	root.AddCommand(serverCommand(), childCommand())
	return root
}
