package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/rds-go/rds/internal/bench"
	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/internal/resolve"
)

// flags are the flags of a client mode.
type flags struct {
	opts    bench.Options
	sizes   string
	listen  string
	buffers string
	json    bool
	html    string
	svg     string
	cpu     string
	mem     string
}

func (f *flags) common(fs *pflag.FlagSet, provider string) {
	o := &f.opts
	fs.SortFlags = false
	fs.StringVar(&o.Server, "server", "", "HOST[:PORT] of a running rdsbench server (default: start one)")
	fs.StringVar(&f.listen, "listen", "", "our address or host name (default: 127.0.0.1, or the one that reaches --server)")
	fs.Uint16Var(&o.Port, "port", 0, "TCP port of RDS (default: any that is free, with --server 16385 if it is)")
	fs.StringVar(&o.Provider, "provider", provider, "where sockets come from: node, rdsd (a daemon on each side), or kernel (AF_RDS)")
	fs.StringVar(&o.Socket, "socket", "", "Unix socket of the running rdsd, with --server (default: $RDS_SOCKET, else rds.sock in /run/rds)")
	fs.StringVar(&o.Wire, "wire", "auto", "wire transport of nodes and daemons: auto, xrc or tcp")
	fs.StringVar((*string)(&o.CRC), "crc", string(bench.CRCOff), "CRC of nodes and daemons on XRC: on, off, or auto for on between hosts; over TCP there is none")
	fs.IntVar(&o.Paths, "paths", 1, "TCP connections per peer: 1 or 8")
	fs.StringVar(&o.Congestion, "congestion", "", "TCP congestion control, of RDS and of the baseline (default: the system's)")
	fs.StringVar(&f.buffers, "tcp-buffers", "0", "SEND[,RECEIVE] buffers of TCP, of RDS and of the baseline; 0: the kernel's tuning")
	fs.IntVar(&o.Loops, "event-loops", 0, "goroutines that read from peers (default: the node's, 1 when pinned)")
	fs.DurationVar(&o.Duration, "duration", time.Second, "measured time of a run")
	fs.DurationVar(&o.Warmup, "warmup", 200*time.Millisecond, "time before it")
	fs.IntVar(&o.Repeat, "repeat", 1, "runs of each work, in turn with the baseline; the median counts")
	fs.BoolVar(&f.json, "json", false, "print JSON")
	fs.StringVar(&f.html, "html", "", "also write a page with plots to this `file`")
	fs.StringVar(&f.cpu, "cpuprofile", "", "write a CPU profile of this process, the sender, to this `file`")
	fs.StringVar(&f.mem, "memprofile", "", "write an allocation profile of this process to this `file`")
	fs.StringVar(&o.ServerCPUProfile, "server-cpuprofile", "", "write a CPU profile of the server that is started to this `file`")
	o.Pin, o.ZeroCopy = bench.PinNone, "auto"
}

func (f *flags) size(fs *pflag.FlagSet, def string) {
	fs.StringVar(&f.sizes, "size", def, "message sizes in bytes, a list; k and m are powers of 1024")
}

func (f *flags) compare(fs *pflag.FlagSet, def bool) {
	fs.BoolVar(&f.opts.Baseline, "baseline", def, "do the same over plain TCP, with rdsd in embedded nodes too, and tell the ratio")
}

func (f *flags) pinning(fs *pflag.FlagSet) {
	fs.StringVar((*string)(&f.opts.Pin), "pin", string(bench.PinNone), "CPUs: same (all processes on one), split (one for each side), none")
}

func (f *flags) zeroCopy(fs *pflag.FlagSet) {
	fs.StringVar(&f.opts.ZeroCopy, "zero-copy", "auto", "send buffers of the stack: on, off, auto (from 64k)")
}

func (f *flags) many(fs *pflag.FlagSet, sockets, peers, depth, reply int) {
	o := &f.opts
	fs.IntVar(&o.Sockets, "sockets", sockets, "sockets of the client")
	fs.IntVar(&o.Peers, "peers", peers, "sockets of the server")
	fs.IntVar(&o.Depth, "depth", depth, "outstanding requests of each client socket")
	fs.IntVar(&o.Reply, "reply", reply, "bytes of a reply")
	fs.IntVar(&o.Batch, "batch", 0, "messages of a SendBatch or RecvBatch (default: --depth)")
}

// check completes the options.
func (f *flags) check(ctx context.Context, kind bench.Kind) error {
	o := &f.opts
	if f.sizes == "" {
		f.sizes = "64"
	}
	var err error
	if o.Sizes, err = bench.ParseSizes(f.sizes); err != nil {
		return err
	}
	if o.Buffers, err = bench.ParseBuffers(f.buffers); err != nil {
		return fmt.Errorf("--tcp-buffers: %w", err)
	}
	if f.listen != "" {
		if o.Listen, err = localAddress(ctx, f.listen); err != nil {
			return err
		}
	}
	if o.Server != "" && o.ServerCPUProfile != "" {
		return errors.New("--server-cpuprofile is of a server started here; give --cpuprofile to the other")
	}
	if kind == "" && o.ServerCPUProfile != "" {
		return errors.New("--server-cpuprofile needs a mode")
	}
	return o.Validate(kind)
}

// localAddress is what --listen says.
func localAddress(ctx context.Context, host string) (netip.Addr, error) {
	ip, err := resolve.Local(ctx, host)
	switch {
	case err != nil:
		return ip, fmt.Errorf("--listen: %w", err)
	case ip.IsUnspecified():
		return ip, fmt.Errorf("--listen: RDS needs one address of this host, not %v", ip)
	}
	return ip, nil
}

// run does a mode's works, or the demonstration, and reports.
func (f *flags) run(ctx context.Context, kind bench.Kind) error {
	if err := f.check(ctx, kind); err != nil {
		return cli.Usage(err)
	}
	works := f.opts.Demonstration()
	if kind != "" {
		works = f.opts.Plan(kind)
	}
	r := bench.Runner{Options: f.opts, Affinity: newPinner().pin}
	stopTicker := func() {}
	if cli.IsTerminal(os.Stderr) {
		t := bench.NewTicker(os.Stderr)
		r.Progress, stopTicker = t.Show, t.Stop
	}
	endProfile, err := profile(f.cpu, f.mem)
	if err != nil {
		stopTicker()
		return err
	}
	rep, err := r.Run(ctx, works)
	stopTicker()
	return errors.Join(err, endProfile(), f.report(rep))
}

func (f *flags) report(rep *bench.Report) error {
	var err error
	switch {
	case f.json:
		err = rep.WriteJSON(os.Stdout)
	case len(rep.Rows) > 0:
		err = rep.WriteText(os.Stdout)
	}
	if len(rep.Rows) == 0 {
		return err
	}
	if f.html != "" {
		err = errors.Join(err, writeFile(f.html, rep.WriteHTML))
	}
	if f.svg != "" {
		err = errors.Join(err, writeFile(f.svg, rep.WriteSVG))
	}
	return err
}

func writeFile(name string, write func(io.Writer) error) error {
	w, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(w), w.Close())
}
