// Command rdsinfo shows what goes on in an RDS node: counters, sockets,
// connections and queues, as rds-info shows them of Linux, and applications.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/rds-go/rds/cmd/rdsinfo/internal/report"
	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/internal/control"
	"github.com/rds-go/rds/rds"
)

const long = `rdsinfo prints reports about a running node: rdsd, or any program whose node has
a control socket. The reports look like those of rds-info; without a selection
all are printed but that of --objects, which may be long. Sizes are in bytes.

Where --control is not given, the socket is $RDS_CONTROL, else /run/rdsd.sock
if it exists, else $XDG_RUNTIME_DIR/rdsd.sock. Whoever may not ask there is
told by the socket of applications (--socket) about their own sockets and the
connections that these use; what is left out is said on standard error. With --provider kernel the
reports are those of the RDS in Linux.

With --kernel, the report is that of the Linux kernel about all TCP connections of RDS on this
host, those of containers and of other network namespaces too: round-trip times (RTT50: half
of them are not longer), how long data waits until the program reads it (Wait50, Wait99), queues
in bytes, and why packets were dropped. "rdsbpf load telemetry" lets the kernel count from then
on. Where that is not loaded, rdsinfo loads it for itself, as root, and counts from then on:
give it time with --for or --watch. With either, what is counted is that of the last period.

With --wakeups it counts, instead, how the threads of processes (the arguments)
are woken, for a while; that needs root. docs/PERFORMANCE.md reads such a report.

Exit status: 0 if the reports were printed, 1 if they could not be had, 2 for
wrong flags.`

const examples = `  rdsinfo                          all reports of rdsd
  rdsinfo -nv                      connections and their paths
  rdsinfo -IT                      what carries them: RDS on XRC, RDS over TCP
  rdsinfo -ak                      applications and their sockets
  rdsinfo -x                       who is registered with which target of XRC, and what is connected
  rdsinfo why                      what waits, for what, and since when
  rdsinfo -c --watch               counters, every second until Ctrl-C
  rdsinfo -c --watch=200ms --json  the same for a script, five times a second
  rdsinfo --control /tmp/a.sock    of another node
  rdsinfo --provider kernel -k     the kernel's sockets
  rdsinfo --kernel --for 10        TCP connections of RDS, as the kernel sees them for 10 s
  rdsinfo --wakeups --for 2s 17 23 who wakes the threads of two processes, and how late they run`

// fetchTimeout bounds the wait for a node that does not answer.
const fetchTimeout = 5 * time.Second

// Providers.
const (
	providerRDSD   = "rdsd"
	providerKernel = rds.ProviderKernel
)

type options struct {
	chosen   map[report.Kind]*bool
	verbose  bool
	control  string
	socket   string // socket of applications to ask at, instead of control
	named    bool   // control was chosen
	json     bool
	watching bool
	watch    cli.Interval
	provider string
	kernel   kernelOptions
	print    func(w io.Writer, info, before *rds.Info) error // prints one round; before is nil in the first round
}

func main() { os.Exit(cli.Main(newCommand())) }

func newCommand() *cobra.Command {
	o := options{chosen: make(map[report.Kind]*bool)}
	var wakeups tracing
	cmd := &cobra.Command{
		Use: "rdsinfo [-aAcIkmnrstTuvx] [flags]", Short: "Reports of an RDS node", Long: long, Example: examples,
		Args: cli.Args(cobra.ArbitraryArgs), // processes for --wakeups; else the interval, if a space follows --watch
		RunE: func(cmd *cobra.Command, args []string) error {
			o.watching = cmd.Flags().Changed("watch")
			if wakeups.on {
				if err := wakeups.check(cmd); err != nil {
					return err
				}
				ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
				defer stop()
				wakeups.time = time.Duration(o.kernel.period)
				return wakeups.run(ctx, args, o.json, os.Stdout)
			}
			if err := o.check(args); err != nil {
				return err
			}
			if err := o.kernel.check(&o, cmd); err != nil {
				return err
			}
			if o.kernel.chosen {
				return runKernel(cmd.Context(), &o, os.Stdout, os.Stderr)
			}
			o.print = o.reports
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return run(ctx, &o, os.Stdout, os.Stderr)
		},
	}
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.SetHelpCommand(&cobra.Command{Hidden: true})
	cmd.AddCommand(newWhyCommand(&o))
	f := cmd.Flags()
	for _, k := range []struct {
		kind       report.Kind
		name, help string
	}{
		{report.Applications, "applications", "applications attached to rdsd"},
		{report.Counters, "counters", "counters"},
		{report.Sockets, "sockets", "sockets"},
		{report.Connections, "connections", "connections"},
		{report.Receive, "receive", "receive queues"},
		{report.Send, "send", "send queues"},
		{report.Retransmit, "retransmit", "retransmit queues"},
		{report.TCP, "tcp", "connections of RDS over TCP"},
		{report.XRC, "xrc", "connections of RDS on XRC"},
		{report.Objects, "objects", "objects of XRC: sessions, domains, targets, initiators, shared receive queues, registrations"},
		{report.Users, "users", "what users have of their shares"},
		{report.Admission, "admission", "the allow-list of peers, and who was turned away"},
		{report.Memory, "memory", "memory regions, and keys of peers that were refused"},
	} {
		o.chosen[k.kind] = f.BoolP(k.name, string(rune(k.kind)), false, k.help)
	}
	o.kernel.flags(cmd)
	f.BoolVar(&wakeups.on, "wakeups", false, "count who wakes the threads of the processes given, or of those called rdsd")
	f.Float64Var(&wakeups.per, "per", 0, "with --wakeups: round trips a second, to print wake-ups for each; or of what else")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "print the paths of connections too")
	f = cmd.PersistentFlags()
	f.StringVar(&o.control, "control", "", "control socket of the node: its `path`")
	f.StringVar(&o.socket, "socket", "", "ask at rdsd's socket of applications, about what is your own: its `path`")
	f.BoolVar(&o.json, "json", false, "print one JSON object, with the paths of connections")
	f.Var(&o.watch, "watch", "print again every `interval` until Ctrl-C: seconds, or with ms or us")
	f.Lookup("watch").NoOptDefVal = "1"
	f.StringVar(&o.provider, "provider", providerRDSD, "rdsd: a node, by its control socket; kernel: Linux")
	return cmd
}

func (o *options) check(args []string) error {
	if len(args) > 0 {
		if !o.watching || len(args) > 1 {
			return cli.Usagef("unexpected argument %q", args[len(args)-1])
		}
		if err := o.watch.Set(args[0]); err != nil {
			return cli.Usagef("invalid argument %q for --watch: %w", args[0], err)
		}
	}
	if o.watching && o.watch == 0 {
		return cli.Usagef("the interval of --watch must not be 0")
	}
	if o.provider != providerRDSD && o.provider != providerKernel {
		return cli.Usagef("no provider %q (have %s, %s)", o.provider, providerRDSD, providerKernel)
	}
	if o.named = o.control != ""; !o.named {
		o.control = control.FindPath()
	}
	return nil
}

func (o *options) kinds() []report.Kind {
	var kinds []report.Kind
	for _, k := range report.Kinds() {
		if *o.chosen[k] {
			kinds = append(kinds, k)
		}
	}
	switch {
	case kinds != nil:
		return kinds
	case o.provider == providerKernel:
		return report.LinuxKinds()
	}
	return report.DefaultKinds()
}

// parts are those of the reports that were chosen.
func (o *options) parts() []rds.InfoPart {
	if *o.chosen[report.Objects] {
		return []rds.InfoPart{rds.InfoObjects}
	}
	return nil
}

// fetch gets the reports. Some may be missing where there is an error.
func (o *options) fetch(ctx context.Context) (rds.Info, error) {
	if o.provider == providerKernel {
		kernel, err := rds.OpenKernel()
		if err != nil {
			return rds.Info{}, err
		}
		defer kernel.Close()
		return kernel.Info()
	}
	if o.socket != "" {
		return own(o.socket, o.parts())
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	info, err := rds.FetchInfo(ctx, o.control, o.parts()...)
	switch {
	case err == nil:
		return info, nil
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return info, fmt.Errorf("no node answers on %s: start rdsd, or give the socket of another node with --control", o.control)
	case errors.Is(err, os.ErrPermission):
		if !o.named {
			if info, err := own("", o.parts()); err == nil {
				return info, nil
			}
		}
		return info, fmt.Errorf("no permission for %s", o.control)
	}
	return info, err
}

// own is what an application may know: reports by rdsd's socket of applications, "" for the
// default one.
func own(path string, parts []rds.InfoPart) (rds.Info, error) {
	c, err := rds.Dial(path)
	if err != nil {
		return rds.Info{}, err
	}
	defer c.Close()
	return c.InfoWith(parts...)
}

// reports prints the reports that were chosen.
func (o *options) reports(w io.Writer, info, before *rds.Info) error {
	if o.json {
		return report.WriteJSON(w, info, o.kinds())
	}
	return report.Write(w, report.View{Info: info, Before: before, Verbose: o.verbose}, o.kinds())
}

// run prints the reports once, or again and again until ctx ends. Then a
// failure is only told, because the node may come back, except for the first.
func run(ctx context.Context, o *options, stdout *os.File, stderr io.Writer) error {
	info, err := o.fetch(ctx)
	if err != nil && info.Provider == "" {
		return err
	}
	out := output{file: stdout, screen: !o.json && o.watching && cli.IsTerminal(stdout)}
	var before *rds.Info
	var tick <-chan time.Time
	if o.watching {
		t := time.NewTicker(time.Duration(o.watch))
		defer t.Stop()
		tick = t.C
	}
	if info.LeftOut != "" {
		fmt.Fprintf(stderr, "rdsinfo: %s\n", info.LeftOut)
	}
	for {
		var round bytes.Buffer
		if err != nil {
			to := stderr
			if out.screen {
				to = &round
			}
			fmt.Fprintf(to, "rdsinfo: %v\n", err)
		}
		if info.Provider != "" {
			if info.Time.IsZero() { // Linux does not tell the time of a snapshot
				info.Time = time.Now()
			}
			if err := o.print(&round, &info, before); err != nil {
				return err
			}
			shown := info
			before = &shown
		}
		if err := out.show(round.Bytes()); err != nil {
			return err
		}
		if tick == nil {
			return nil
		}
		select {
		case <-tick:
		case <-ctx.Done():
			return nil
		}
		if info, err = o.fetch(ctx); ctx.Err() != nil {
			return nil
		}
	}
}
