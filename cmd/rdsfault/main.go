package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/rds-go/rds/ebpf"
	"github.com/rds-go/rds/internal/cli"
)

const long = `rdsfault makes faults in TCP connections of this host, for tests. It takes root.

Without --port, --peer or --local these are the connections of RDS: TCP ports 16385 and
18634. Faults of packets are made on one interface, by programs that the kernel runs (tcx,
Linux 6.6). They end with the command: after --for, after --count packets, by Ctrl-C, or when
it is killed. Nothing stays behind.

The rate is that of packets. Where the kernel hands over a burst of packets as one
(segmentation offload) these share their fate; ip link set dev eth0 gso_max_segs 1 ends that.

Exit status: 0 if the faults were made, 1 if that failed half-way, 2 if it could not begin.`

const examples = `  rdsfault drop --interface eth0 --rate 1% --for 30s
  rdsfault drop --interface eth0 --peer 10.0.0.2 --direction in --count 100
  rdsfault duplicate --interface lo --rate 0.5%
  rdsfault corrupt --interface eth0 --rate 0.01% --netns blue
  rdsfault blackhole --interface eth0 --peer 10.0.0.2 --for 2s
  rdsfault delay --interface eth0 --by 20ms        needs tc qdisc replace dev eth0 root fq
  rdsfault abort                                   all connections of RDS, once
  rdsfault abort --every 50ms --count 20           one at random every 50 ms`

// options are the flags.
type options struct {
	netns     string
	iface     string
	local     string
	peer      string
	ports     []uint
	direction string
	rate      string
	count     uint64
	time      time.Duration
	by        time.Duration
	every     time.Duration
	json      bool
}

func main() { os.Exit(cli.Main(newCommand())) }

func newCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "rdsfault", Short: "Make faults in TCP connections, for tests", Long: long, Example: examples,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			return cli.Usagef("say which fault: drop, duplicate, corrupt, blackhole, delay or abort")
		},
	}
	for _, k := range kinds {
		cmd.AddCommand(faultCommand(k))
	}
	cmd.CompletionOptions.DisableDefaultCmd = true
	return cmd
}

// kind is a fault.
type kind struct {
	name  string
	short string
	past  string // what it did to packets
	begin func(*ebpf.Fault, ebpf.FaultMatch, ebpf.FaultLimits, *options) (*ebpf.FaultRule, error)
}

var kinds = []kind{
	{"drop", "Drop packets", "dropped", func(f *ebpf.Fault, m ebpf.FaultMatch, l ebpf.FaultLimits, _ *options) (*ebpf.FaultRule, error) {
		return f.Drop(m, l)
	}},
	{"duplicate", "Send packets twice", "sent twice", func(f *ebpf.Fault, m ebpf.FaultMatch, l ebpf.FaultLimits, _ *options) (*ebpf.FaultRule, error) {
		return f.Duplicate(m, l)
	}},
	{"corrupt", "Change a bit of the payload of packets, which no checksum shows", "changed", func(f *ebpf.Fault, m ebpf.FaultMatch, l ebpf.FaultLimits, _ *options) (*ebpf.FaultRule, error) {
		return f.Corrupt(m, l)
	}},
	{"blackhole", "Drop all packets for a time", "dropped", func(f *ebpf.Fault, m ebpf.FaultMatch, l ebpf.FaultLimits, _ *options) (*ebpf.FaultRule, error) {
		return f.Blackhole(m, l.For)
	}},
	{"delay", "Send outgoing packets later", "delayed", func(f *ebpf.Fault, m ebpf.FaultMatch, l ebpf.FaultLimits, o *options) (*ebpf.FaultRule, error) {
		return f.Delay(m, l, o.by)
	}},
	{"abort", "Abort connections, with a RST to the other end", "aborted", nil},
}

func faultCommand(k kind) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use: k.name, Short: k.short, Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			context.AfterFunc(ctx, stop) // the second signal kills
			return run(ctx, k, &o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.netns, "netns", "", "network namespace, by `name` or file (default: this one)")
	f.StringVar(&o.peer, "peer", "", "`address`, [address]:port or :port of the other end (default: any)")
	f.StringVar(&o.local, "local", "", "`address`, [address]:port or :port of this end (default: any)")
	f.UintSliceVar(&o.ports, "port", nil, "TCP ports of which one end has one (default: 16385,18634)")
	f.DurationVar(&o.time, "for", ebpf.DefaultFaultTime, "time after which it ends, at most 1h")
	if k.name != "blackhole" {
		f.Uint64Var(&o.count, "count", 0, "end after this many packets; 0 is any number")
	}
	if k.name == "abort" {
		f.Lookup("count").Usage = "with --every: end after this many connections; 0 is any number"
		f.DurationVar(&o.every, "every", 0, "abort one at random every so often (default: all, once)")
	} else {
		f.StringVar(&o.iface, "interface", "", "interface whose packets get the fault (required)")
		if k.name != "delay" {
			f.StringVar(&o.direction, "direction", "both", "of the packets: in, out or both")
		}
		if k.name != "blackhole" {
			f.StringVar(&o.rate, "rate", "100%", "share of the packets, such as 1% or 0.01")
		}
	}
	if k.name == "delay" {
		f.DurationVar(&o.by, "by", 10*time.Millisecond, "how much later, at most 10s")
	}
	f.BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

// match is what the flags choose.
func (o *options) match() (m ebpf.FaultMatch, err error) {
	if m.Local, err = end("--local", o.local); err != nil {
		return m, err
	}
	if m.Remote, err = end("--peer", o.peer); err != nil {
		return m, err
	}
	if len(o.ports) > ebpf.MaxPorts {
		return m, cli.Usagef("--port: %d ports, at most %d", len(o.ports), ebpf.MaxPorts)
	}
	for _, p := range o.ports {
		if p == 0 || p > 65535 {
			return m, cli.Usagef("--port %d: from 1 to 65535", p)
		}
		m.Ports = append(m.Ports, uint16(p))
	}
	switch o.direction {
	case "", "both":
	case "in":
		m.Direction = ebpf.FaultIn
	case "out":
		m.Direction = ebpf.FaultOut
	default:
		return m, cli.Usagef("--direction %q: in, out or both", o.direction)
	}
	return m, nil
}

// end reads an end of a connection: an address, a port, or both.
func end(flag, s string) (netip.AddrPort, error) {
	if s == "" {
		return netip.AddrPort{}, nil
	}
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.AddrPortFrom(a, 0), nil
	}
	if port, ok := strings.CutPrefix(s, ":"); ok {
		if n, err := strconv.ParseUint(port, 10, 16); err == nil && n > 0 {
			return netip.AddrPortFrom(netip.Addr{}, uint16(n)), nil
		}
	}
	a, err := netip.ParseAddrPort(s)
	if err != nil {
		return a, cli.Usagef("%s %q: want an address, [address]:port or :port", flag, s)
	}
	return a, nil
}

// limits are what the flags bound.
func (o *options) limits() (l ebpf.FaultLimits, err error) {
	l.Count, l.For = o.count, o.time
	if o.time <= 0 || o.time > ebpf.MaxFaultTime {
		return l, cli.Usagef("--for %v: above 0 and at most %v", o.time, ebpf.MaxFaultTime)
	}
	if o.rate == "" {
		return l, nil
	}
	number, percent := strings.CutSuffix(o.rate, "%")
	l.Rate, err = strconv.ParseFloat(number, 64)
	if percent {
		l.Rate /= 100
	}
	if err != nil || !(l.Rate > 0 && l.Rate <= 1) {
		return l, cli.Usagef("--rate %q: want a share of the packets above 0, such as 1%% or 0.01", o.rate)
	}
	return l, nil
}

// run is the command behind its flags.
func run(ctx context.Context, k kind, o *options) error {
	m, err := o.match()
	if err != nil {
		return err
	}
	l, err := o.limits()
	if err != nil {
		return err
	}
	switch {
	case o.iface == "" && k.begin != nil:
		return cli.Usagef("--interface is missing: which interface's packets?")
	case k.name == "delay" && (o.by <= 0 || o.by > ebpf.MaxFaultDelay):
		return cli.Usagef("--by %v: above 0 and at most %v", o.by, ebpf.MaxFaultDelay)
	case o.every < 0:
		return cli.Usagef("--every %v: above 0", o.every)
	case k.name == "abort" && o.count > 0 && o.every == 0:
		return cli.Usagef("--count %d: of connections aborted one at a time, which takes --every", o.count)
	}
	if o.netns != "" && !strings.Contains(o.netns, "/") {
		o.netns = "/run/netns/" + o.netns
	}
	f, err := ebpf.NewFault(ebpf.FaultOptions{Netns: o.netns, Interface: o.iface})
	if err != nil {
		return cli.WithStatus(cli.StatusUsage, err)
	}
	r := report{Fault: k.name, Interface: o.iface, past: k.past}
	began := time.Now()
	if k.begin == nil {
		err = abort(ctx, f, m, o, &r)
	} else {
		err = packets(ctx, f, m, l, k, o, &r)
	}
	r.Seconds = time.Since(began).Seconds()
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return r.write(os.Stdout, o.json)
}

// packets makes a fault of packets until it has ended.
func packets(ctx context.Context, f *ebpf.Fault, m ebpf.FaultMatch, l ebpf.FaultLimits, k kind, o *options, r *report) error {
	rule, err := k.begin(f, m, l, o)
	if err != nil {
		return cli.WithStatus(cli.StatusUsage, err)
	}
	fmt.Fprintf(os.Stderr, "%s on %s for %v at most; Ctrl-C ends it\n", k.name, o.iface, o.time)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !rule.Ended() {
		select {
		case <-ctx.Done():
		case <-tick.C:
			continue
		}
		break
	}
	c, err := rule.Stop()
	r.FaultCounts = &c
	return err
}

// abort aborts all connections once, or one at random every so often.
func abort(ctx context.Context, f *ebpf.Fault, m ebpf.FaultMatch, o *options, r *report) error {
	n := 0
	r.Aborted = &n
	more := func(most int) error {
		done, err := f.Abort(m, most)
		if n += done; n == 0 {
			err = cli.WithStatus(cli.StatusUsage, err)
		}
		return err
	}
	if o.every == 0 {
		return more(0)
	}
	fmt.Fprintf(os.Stderr, "abort every %v for %v at most; Ctrl-C ends it\n", o.every, o.time)
	ctx, stop := context.WithTimeout(ctx, o.time)
	defer stop()
	tick := time.NewTicker(o.every)
	defer tick.Stop()
	for o.count == 0 || uint64(n) < o.count {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := more(1); err != nil {
			return err
		}
	}
	return nil
}
