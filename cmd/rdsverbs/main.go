// Command rdsverbs uses the verbs of transport/iwarp from the command line: the
// two sides of rping, a server of memory regions with single operations against
// it, and the limits of the device. Its peers are other rdsverbs, programs over
// Linux's siw such as rping, and whatever else follows the RFCs of iWARP. With
// transport/xrc it plays ping-pong by XRC, between two of its kind.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rds-go/rds/internal/cli"
)

const long = `rdsverbs does RDMA over TCP (iWARP) in user space, without an RNIC and without
privilege: with other rdsverbs, with Linux's soft iWARP (siw), and with whatever
else follows RFC 5040 to 5044.

  rping     ping-pong through RDMA Read and Write, with another rping
  serve     memory regions for others, and what happens to them
  op        single operations against a region, right ones and wrong ones
  xsrq      ping-pong of many processes with shared receive queues, over one connection
  devinfo   what the device can do

Exit status: 0 if all went well, 1 if not, 2 if it could not begin.`

func main() { os.Exit(cli.Main(newCommand())) }

func newCommand() *cobra.Command {
	root := group(&cobra.Command{Use: "rdsverbs", Short: "RDMA verbs over software iWARP", Long: long})
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(rpingCommand(), serveCommand(), opCommand(), xsrqCommand(), devinfoCommand())
	return root
}

// group makes a command of nothing but others.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = cli.Args(cobra.NoArgs)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cli.Usagef("%s what?", cmd.CommandPath()) }
	return cmd
}

// runner makes RunE of what ends with a signal; the second signal kills.
func runner(run func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		context.AfterFunc(ctx, stop)
		return run(ctx, args)
	}
}
