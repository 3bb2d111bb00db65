package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/rds-go/rds/cmd/rdsinfo/internal/report"
	"github.com/rds-go/rds/ebpf"
	"github.com/rds-go/rds/internal/cli"
)

// kernelOptions are the flags of --kernel.
type kernelOptions struct {
	chosen bool
	pins   string
	period cli.Interval
}

func (k *kernelOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&k.chosen, "kernel", false, "TCP connections of RDS on this host, as the kernel sees them")
	f.Var(&k.period, "for", "with --kernel or --wakeups: count for so long: `seconds`, or with ms or us")
	f.StringVar(&k.pins, "pins", ebpf.DefaultDir, "with --kernel: `directory` that rdsbpf has pinned in")
}

// check says what does not go with the flags.
func (k *kernelOptions) check(o *options, cmd *cobra.Command) error {
	for name, with := range map[string]string{"for": "--kernel or --wakeups", "pins": "--kernel", "per": "--wakeups"} {
		if cmd.Flags().Changed(name) && (!k.chosen || name == "per") {
			return cli.Usagef("--%s goes with %s", name, with)
		}
	}
	if !k.chosen {
		return nil
	}
	for _, selected := range o.chosen {
		if *selected {
			return cli.Usagef("--kernel is a report of its own")
		}
	}
	for _, name := range []string{"control", "socket", "provider", "verbose"} {
		if cmd.Flags().Changed(name) {
			return cli.Usagef("--%s does not go with --kernel: the kernel tells of all nodes", name)
		}
	}
	if o.watching && cmd.Flags().Changed("for") {
		return cli.Usagef("give --for or --watch, not both")
	}
	return nil
}

// openTelemetry opens what is pinned, or loads telemetry for this process.
func openTelemetry(dir string, stderr io.Writer) (*ebpf.Telemetry, error) {
	t, err := ebpf.OpenTelemetry(dir)
	if err == nil || !errors.Is(err, os.ErrNotExist) && !errors.Is(err, ebpf.ErrNotSupported) {
		return t, err
	}
	t, err = ebpf.LoadTelemetry(ebpf.TelemetryOptions{})
	if err != nil {
		return nil, fmt.Errorf("%w; root can let everybody of a group read by \"rdsbpf load telemetry\"", err)
	}
	fmt.Fprintf(stderr, "rdsinfo: no telemetry is loaded in %s: RTTs, waits and drops are counted from now on\n", dir)
	return t, nil
}

// runKernel prints the kernel's reports once, or again and again until ctx ends.
func runKernel(ctx context.Context, o *options, stdout *os.File, stderr io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	t, err := openTelemetry(o.kernel.pins, stderr)
	if err != nil {
		return err
	}
	defer t.Close()
	out := output{file: stdout, screen: !o.json && o.watching && cli.IsTerminal(stdout)}
	r := kernelReader{telemetry: t}
	for _, f := range t.Features() {
		if f.Err != nil {
			r.missing = append(r.missing, f.Err.Error())
			fmt.Fprintf(stderr, "rdsinfo: %v\n", f.Err)
		}
	}
	period := time.Duration(o.kernel.period)
	if o.watching {
		period = time.Duration(o.watch)
	}
	if period > 0 && !o.watching {
		if _, err := r.read(); err != nil {
			return err
		}
		select {
		case <-time.After(period):
		case <-ctx.Done():
		}
	}
	for {
		k, err := r.read()
		if err != nil {
			return err
		}
		var round bytes.Buffer
		write := report.WriteKernel
		if o.json {
			write = report.WriteKernelJSON
		}
		if err := write(&round, k); err != nil {
			return err
		}
		if err := out.show(round.Bytes()); err != nil || !o.watching {
			return err
		}
		select {
		case <-time.After(period):
		case <-ctx.Done():
			return nil
		}
	}
}

// kernelReader makes reports; each but the first one counts from the one before it.
type kernelReader struct {
	telemetry *ebpf.Telemetry
	missing   []string
	last      time.Time                  // time of the last report; zero: there was none
	counted   map[uint64]ebpf.Connection // connections of the last report, by cookies
	drops     map[string]uint64
}

func (r *kernelReader) read() (*report.Kernel, error) {
	all, err := r.telemetry.Snapshot()
	if err != nil {
		return nil, err
	}
	drops, err := r.telemetry.Drops()
	if err != nil && !errors.Is(err, ebpf.ErrNotSupported) && !errors.Is(err, ebpf.ErrPermission) {
		return nil, err
	}
	k := &report.Kernel{Time: time.Now(), Since: r.last, Missing: r.missing}
	if r.last.IsZero() {
		k.Since = r.telemetry.Since()
	}
	slices.SortFunc(all, func(a, b ebpf.Connection) int {
		return cmp.Or(cmp.Compare(a.Netns, b.Netns), a.Local.Compare(b.Local), a.Remote.Compare(b.Remote))
	})
	owners := owners(all)
	r.sinceLast(all)
	for _, c := range all {
		p := owners[c.Inode]
		k.Connections = append(k.Connections, report.KernelConnection{Connection: c, PID: p.pid, Command: p.command})
	}
	total := make(map[string]uint64, len(drops))
	for _, d := range drops {
		total[d.Reason] = d.Packets
		if d.Packets -= r.drops[d.Reason]; d.Packets > 0 {
			k.Drops = append(k.Drops, d)
		}
	}
	r.last, r.drops = k.Time, total
	return k, nil
}

// sinceLast subtracts from the histograms of connections what they had at the last report.
func (r *kernelReader) sinceLast(connections []ebpf.Connection) {
	counted := make(map[uint64]ebpf.Connection, len(connections))
	for i := range connections {
		c := &connections[i]
		counted[c.Cookie] = *c
		if before, there := r.counted[c.Cookie]; there && c.Continues(&before) {
			c.RTTs, c.Waits = c.RTTs.Since(&before.RTTs), c.Waits.Since(&before.Waits)
		}
	}
	r.counted = counted
}
