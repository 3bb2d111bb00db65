package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/rds-go/rds/ebpf"
	"github.com/rds-go/rds/internal/cli"
)

const watchLong = `watch prints the strangers that were refused, a line each, every interval until Ctrl-C: how
often they tried since the last time, how often in all, and when they did last. Where connections
are refused silently one that a stranger tries to make counts several times, because TCP repeats
itself. Addresses may be forged: nobody has answered them.`

// refusedLine is a stranger that was refused since the last time.
type refusedLine struct {
	Address netip.Addr `json:"address"`
	New     uint64     `json:"new"`
	ebpf.Counts
}

func watchCommand(o *options) *cobra.Command {
	every := cli.Interval(time.Second)
	cmd := &cobra.Command{
		Use: "watch", Short: "Who is refused, until Ctrl-C", Long: watchLong, Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every == 0 {
				return cli.Usagef("the interval must not be 0")
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return o.watch(ctx, cmd.OutOrStdout(), time.Duration(every))
		},
	}
	cmd.Flags().Var(&every, "interval", "time between looks: seconds, or with ms or us")
	jsonFlag(cmd, o)
	return cmd
}

func (o *options) watch(ctx context.Context, w io.Writer, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	before, err := o.refused()
	if err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		// The filter may have been loaded anew: then others are the pins that count.
		now, err := o.refused()
		if err != nil {
			return err
		}
		for _, l := range newlyRefused(before, now) {
			if o.json {
				err = json.NewEncoder(w).Encode(l)
			} else {
				_, err = fmt.Fprintf(w, "%s %-39s %8d refused %10d in all\n", l.Last.Format(time.TimeOnly), l.Address, l.New, l.Refused)
			}
			if err != nil {
				return err
			}
		}
		before = now
	}
}

// refused reads the counters of the pinned filter.
func (o *options) refused() (map[netip.Addr]ebpf.Counts, error) {
	a, err := ebpf.OpenAdmission(o.pins())
	if err != nil {
		return nil, said(o.pins(), err)
	}
	defer a.Close()
	return a.Counters()
}

// newlyRefused is what has come from one look to the next, the most first.
func newlyRefused(before, now map[netip.Addr]ebpf.Counts) (lines []refusedLine) {
	for a, n := range now {
		was := before[a].Refused
		if n.Refused < was { // the address was forgotten, and has come again
			was = 0
		}
		if n.Refused > was {
			lines = append(lines, refusedLine{Address: a, New: n.Refused - was, Counts: n})
		}
	}
	slices.SortFunc(lines, func(a, b refusedLine) int {
		return cmp.Or(cmp.Compare(b.New, a.New), a.Address.Compare(b.Address))
	})
	return lines
}
