package main

import (
	"io"
	"net/netip"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rds-go/rds/cmd/rdsinfo/internal/report"
	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/internal/resolve"
	"github.com/rds-go/rds/rds"
)

const whyLong = `rdsinfo why says, for each peer and socket of a node, what it waits for and since
when: one line for each cause, with what happens next and what to do. HOST, an address or a
name, limits it to the causes that concern a peer, or an address of this host. docs/OPERATIONS.md explains
the causes.`

const whyExamples = `  rdsinfo why               everything that waits
  rdsinfo why 10.0.0.2      what has to do with this peer
  rdsinfo why --json        the same for a script
  rdsinfo why --watch       again every second until Ctrl-C`

// newWhyCommand shares the flags of rdsinfo that choose a node and a form.
func newWhyCommand(o *options) *cobra.Command {
	var addr netip.Addr
	return &cobra.Command{
		Use: "why [HOST] [flags]", Short: "What waits, for what, and since when", Long: whyLong, Example: whyExamples,
		Args: cli.Args(cobra.MaximumNArgs(2)), // the arguments are HOST, and the interval if a space follows --watch
		RunE: func(cmd *cobra.Command, args []string) error {
			o.watching = cmd.Flags().Changed("watch")
			if len(args) > 0 {
				// A number after --watch is its interval.
				if interval := new(cli.Interval); !o.watching || len(args) > 1 || interval.Set(args[0]) != nil {
					a, err := resolve.Addr(cmd.Context(), args[0])
					if err != nil {
						return cli.Usage(err)
					}
					addr, args = a, args[1:]
				}
			}
			if err := o.check(args); err != nil {
				return err
			}
			if o.provider == providerKernel {
				return cli.Usagef("why is about nodes: Linux does not tell")
			}
			o.print = func(w io.Writer, info, _ *rds.Info) error {
				if o.json {
					return report.WriteWhyJSON(w, info, addr)
				}
				return report.WriteWhy(w, info, addr)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return run(ctx, o, os.Stdout, os.Stderr)
		},
	}
}
