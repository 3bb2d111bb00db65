package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rds-go/rds/internal/bench"
	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/rds"
)

// mode is a subcommand. It has the common flags and those of its own.
type mode struct {
	kind  bench.Kind
	cmd   cobra.Command
	flags func(f *flags, cmd *cobra.Command, fs *pflag.FlagSet) // nil: none
}

func (m *mode) command() *cobra.Command {
	f, cmd := &flags{}, &m.cmd
	cmd.Args = cli.Args(cobra.NoArgs)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), m.kind) }
	provider := rds.ProviderNode
	if m.kind == bench.Fair || m.kind == bench.Attach || m.kind == bench.Stopped {
		provider = rds.ProviderDaemon
	}
	f.common(cmd.Flags(), provider)
	if m.flags != nil {
		m.flags(f, cmd, cmd.Flags())
	}
	return cmd
}

func oneWay(name, short, sizes, example string) mode {
	return mode{kind: bench.OneWay, cmd: cobra.Command{
		Use:   name,
		Short: short,
		Long: short + `: one socket to one socket, as fast as RDS takes it.

The sender calls WriteToAddrPort for each message and the receiver Recv; with
--batch N they call SendBatch and RecvBatch of up to N. With zero-copy the sender
takes its buffers from AllocMessage, writes the message's number and sends them.`,
		Example: example,
	}, flags: func(f *flags, _ *cobra.Command, fs *pflag.FlagSet) {
		f.size(fs, sizes)
		f.compare(fs, false)
		f.pinning(fs)
		f.zeroCopy(fs)
		fs.IntVar(&f.opts.Batch, "batch", 1, "messages of a SendBatch or RecvBatch (1: calls for single messages)")
	}}
}

var socketModes = []mode{
	{kind: bench.Latency, cmd: cobra.Command{
		Use:   "latency",
		Short: "Ping-pong: round trips with one message outstanding",
		Long: `Whole round trips with one message outstanding.

Pin the processes, or the scheduler decides the outcome: a round trip takes 8 us
when both share a CPU and 65 us when each way has to wake an idle one.

With --rate, each round trip is due at a time of its own, and the percentiles
make up for those that a slow one delayed (corrected for coordinated omission).`,
		Example: `  rdsbench latency --pin same --baseline
  rdsbench latency --size 64,8k --pin split --json
  rdsbench latency --rate 2000 --duration 10s`,
	}, flags: func(f *flags, _ *cobra.Command, fs *pflag.FlagSet) {
		f.size(fs, "64")
		f.compare(fs, false)
		f.pinning(fs)
		f.zeroCopy(fs)
		fs.Float64Var(&f.opts.Rate, "rate", 0, "offered round trips per second (0: one after the other)")
	}},
	oneWay("rate", "Small messages one way, confirmed by count", "64,1k", `  rdsbench rate --baseline
  rdsbench rate --size 64 --batch 64 --baseline --repeat 5
  rdsbench rate --server 192.0.2.7 --paths 8`),
	oneWay("bandwidth", "Large messages one way, confirmed by count", "8k,64k,1m", `  rdsbench bandwidth --baseline --congestion reno
  rdsbench bandwidth --size 1m --zero-copy off
  rdsbench bandwidth --size 64k --cpuprofile send.prof --server-cpuprofile receive.prof`),
	{kind: bench.Mux, cmd: cobra.Command{
		Use:   "mux",
		Short: "n sockets to m sockets, all to all, request and reply",
		Long: `Each of the client's sockets goes round the server's, with --depth requests
outstanding; the server answers each. A socket is one goroutine on either side.
The rate is of requests answered, the latency from request to reply.

The baseline has a TCP connection for each pair of sockets, as a program without
multiplexing has: 4,096 for 64 x 64, which needs as many descriptors.

With --stopped N each of the client's sockets has one of the server's, and the
last N of those receive nothing while their clients flood them. The same is done
without that, and both rates are of the others.

With --processes N there are N processes on each side, of one socket each or
what --sockets and --peers say, attached to their side's one daemon. "TCP conns"
is what they all share.`,
		Example: `  rdsbench mux --baseline
  rdsbench mux --sockets 8 --peers 1000 --depth 32 --size 1k --reply 1k
  rdsbench mux --batch 1
  rdsbench mux --provider rdsd --processes 32`,
	}, flags: func(f *flags, cmd *cobra.Command, fs *pflag.FlagSet) {
		cmd.PreRun = func(cmd *cobra.Command, _ []string) {
			for name, n := range map[string]*int{"sockets": &f.opts.Sockets, "peers": &f.opts.Peers} {
				if f.opts.Processes > 0 && !cmd.Flags().Changed(name) {
					*n = 1
				}
			}
		}
		fs.IntVar(&f.opts.Processes, "processes", 0, "processes on each side, which share its rdsd")
		fs.IntVar(&f.opts.Stopped, "stopped", 0, "pairs instead of all to all, and so many of which the server's end receives nothing")
		f.size(fs, "256")
		f.many(fs, 64, 64, 8, 64)
		f.compare(fs, false)
		f.pinning(fs)
	}},
	{kind: bench.Stress, cmd: cobra.Command{
		Use:   "stress",
		Short: "Verify every payload and sequence number, as rds-stress does",
		Long: `Like mux, with requests of the given sizes in turn, and with everything
verified on both sides: length, each byte of the payload, and the number within
the pair of sockets. A gap, a repetition, another order or a wrong byte ends the
run at once with exit status 1.

With --rdma, as rds-stress -D, messages of random length come with operations on
memory of the server's: writes, which the server verifies when it has the message,
reads, atomic operations, and some with a key, an address or a right that is not
there, which have to be refused and must not arrive. Every fate, reply and
operation is accounted for on both sides. With --faults connections are cut, and
what is lost has to be reported, neither repeated nor delivered twice.

With --kills and --restarts it is a soak: --processes on each side, of which one is
killed (SIGKILL) every --kills, and daemons that are ended or killed every --restarts;
others take their places, and applications attach again. What is verified then:

- Between two that live nothing is lost, doubled, reordered or damaged.
- What a killed process had sent arrives as far as it got, in order, each at most once,
  also where it arrives at the receiver's successor.
- A message is missing only if its sender was told DROPPED, which without an operation
  may be only when the receiver's host has ended, or was killed itself, or if its
  receiver's life ended behind it. Replies, of which nobody asks for the fate, are
  missing only if their sender's daemon ended.
- Operations on a region whose life has ended are refused or dropped; memory is not
  written after the end of its region, whether its key is old, wrong or another's.
- Each word holds as many additions as succeeded, and at most those more whose fate
  nobody knows; no addition finds a word that more than these have made.

What processes know of this they keep in files, in the directory for temporary ones,
which their deaths do not take away. With --wire auto a host that is too busy to answer
on XRC within a second is served by TCP, without RDMA, and that ends the run.`,
		Example: `  rdsbench stress --duration 1m
  rdsbench stress --rdma --faults --duration 10m --processes 4
  rdsbench stress --rdma --faults --wire xrc --duration 10m --processes 3 --sockets 4 --peers 4 --kills 1s
  rdsbench stress --rdma --faults --wire xrc --duration 10m --processes 3 --sockets 4 --peers 4 --kills 1s --restarts 5s --provider rdsd
  rdsbench stress --size 32,1k,1m --sockets 4 --peers 4 --depth 2 --paths 8
  rdsbench stress --server 192.0.2.7 --provider kernel`,
	}, flags: func(f *flags, _ *cobra.Command, fs *pflag.FlagSet) {
		f.size(fs, "64,1k,8k,64k")
		f.many(fs, 8, 8, 8, 256)
		f.pinning(fs)
		fs.BoolVar(&f.opts.Ops, "rdma", false, "operations on the server's memory, too")
		fs.BoolVar(&f.opts.Faults, "faults", false, "with --rdma: cut connections all the time")
		fs.IntVar(&f.opts.Processes, "processes", 0, "with --rdma: client processes of --sockets each (default: this one); with --kills or --restarts on each side")
		fs.DurationVar(&f.opts.Kills, "kills", 0, "with --rdma and --processes: kill one of the processes every so often, and start another")
		fs.DurationVar(&f.opts.Restarts, "restarts", 0, "with --rdma, --processes and --provider rdsd: end or kill a daemon every so often, and start another")
		fs.Uint64Var(&f.opts.Seed, "seed", 1, "with --rdma: of what is random")
		fs.StringVar((*string)(&f.opts.Fault), "fault", "", "damage one message: corrupt or skip")
		fs.MarkHidden("fault")
	}},
	{kind: bench.Fair, cmd: cobra.Command{
		Use:   "fair",
		Short: "Latency of one application while another floods",
		Long: `One application sends 64 B a thousand times a second to another on the other
side, which sends them back: alone, and while a second application of the same
daemon sends 64 KiB as fast as it can to a sink on the other side.`,
		Example: "  rdsbench fair\n  rdsbench fair --duration 5s --repeat 3 --json",
	}},
	{kind: bench.Attach, cmd: cobra.Command{
		Use:   "attach",
		Short: "Time and memory of attaching to a daemon",
		Long: `The latency is of the whole way from nothing to the first answer: attach to the
daemon, bind, send 64 B to an application on the other side, receive its reply.

The memory is what attached applications cost the daemon, shared memory
included.`,
		Example: "  rdsbench attach\n  rdsbench attach --attaches 1000 --sessions 100",
	}, flags: func(f *flags, _ *cobra.Command, fs *pflag.FlagSet) {
		fs.IntVar(&f.opts.Attaches, "attaches", 200, "how often to attach for the latency")
		fs.IntVar(&f.opts.Sessions, "sessions", 1000, "attached applications for the memory")
	}},
	{kind: bench.Sockets, cmd: cobra.Command{
		Use:     "sockets",
		Short:   "Time and memory of binding many sockets",
		Long:    "Binds sockets on one node and looks at the time, the live heap and the\nphysical memory. It needs no server.",
		Example: "  rdsbench sockets\n  rdsbench sockets --sockets 50000 --json",
	}, flags: func(f *flags, _ *cobra.Command, fs *pflag.FlagSet) {
		fs.IntVar(&f.opts.Sockets, "sockets", 10000, "sockets to bind")
	}},
	{kind: bench.Stopped, cmd: cobra.Command{
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
	}, flags: func(f *flags, cmd *cobra.Command, fs *pflag.FlagSet) {
		cmd.PreRun = func(cmd *cobra.Command, _ []string) {
			if !cmd.Flags().Changed("wire") {
				f.opts.Wire = string(rds.WireXRC) // a busy host would settle for TCP
			}
		}
		fs.IntVar(&f.opts.Processes, "pairs", 32, "applications on each side")
		fs.IntVar(&f.opts.Sockets, "sockets", 12, "sockets of each, whose receive buffers have to hold more than its arena")
		f.size(fs, "8k")
		fs.IntVar(&f.opts.Batch, "batch", 8, "messages of a SendBatch or RecvBatch (1: calls for single messages)")
		f.pinning(fs)
	}},
}
