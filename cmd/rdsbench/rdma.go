package main

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rds-go/rds/internal/bench"
	"github.com/rds-go/rds/rds"
)

// below is for modes of what is below the sockets, where there is no provider.
func (f *flags) below(fs *pflag.FlagSet, hide ...string) {
	f.opts.Provider = ""
	for _, name := range append(hide, "provider", "socket", "paths", "port", "wire") {
		fs.MarkHidden(name)
	}
}

var verbsModes = []mode{
	{kind: bench.RDMA, cmd: cobra.Command{
		Use:   "rdma",
		Short: "Verbs over software iWARP: write, read, send",
		Long: `RDMA Writes, Reads and Sends between two processes, over one connection, and
plain TCP moving the same messages. Without --op it makes a table.

Write    one way into the server's memory, up to --depth outstanding. The time
         ends when Reads have brought back the number of each place written to:
         a peer answers them after it has placed all that came before. The
         baseline is messages one way, confirmed by count.
Read     blocks out of 8 MiB of the server's memory, --depth outstanding. The
         baseline is requests of 16 bytes, answered with the block, as many
         outstanding; both sides of it write when there is no more to read.
Send     one way into receive requests; up to 256 bytes are inline. The server
         posts receives again as messages complete, and says so for each quarter
         of them. The baseline is messages one way.

With --queues Sends go to shared receive queues of the one connection, a list to
each in its turn, and a goroutine of its own drains each. --stopped of them never
get memory, and the client has as much outstanding to them as to the others; the
same is done without that, and both rates are of the other queues.

Requests are posted, and completions polled, in lists of up to --batch. Programs
sleep until there is a completion, unless --busy has them poll.

With --ping-pong there is one message outstanding, and the time is of a round
trip: a Send each way; a Write each way, and 8 bytes of immediate data that tell
of it; a Read.`,
		Example: `  rdsbench rdma
  rdsbench rdma --op write --size 8k,1m --crc both --repeat 5
  rdsbench rdma --op read --size 8k --depth 32
  rdsbench rdma --op send --size 64 --batch 64
  rdsbench rdma --op send --queues 32 --stopped 1 --repeat 5
  rdsbench rdma --op send --ping-pong --pin same`,
	}, flags: func(f *flags, _ *cobra.Command, fs *pflag.FlagSet) {
		f.below(fs)
		fs.StringVar((*string)(&f.opts.Op), "op", "", "write, read or send (default: the table)")
		f.size(fs, "64")
		fs.IntVar(&f.opts.Depth, "depth", 0, "outstanding requests (default: 32, at most 4m of bytes; send: 2048)")
		fs.IntVar(&f.opts.Batch, "batch", 0, "requests of a list (default: a quarter of --depth; send: 64)")
		f.opts.CRC = bench.CRCBoth
		crc := fs.Lookup("crc")
		crc.DefValue, crc.Usage = string(f.opts.CRC), "CRC of the connection: on, off, both one after the other"
		fs.IntVar(&f.opts.Queues, "queues", 0, "shared receive queues to spread Sends over (0: the queue pair's own)")
		fs.IntVar(&f.opts.Stopped, "stopped", 0, "of them, those that never have memory posted")
		fs.BoolVar(&f.opts.PingPong, "ping-pong", false, "round trips")
		fs.BoolVar(&f.opts.Busy, "busy", false, "poll completion queues rather than sleep")
		fs.IntVar(&f.opts.ULPDU, "ulpdu", 0, "longest DDP segment in bytes (default: what fits a TCP segment)")
		f.compare(fs, true)
		f.pinning(fs)
	}},
	{kind: bench.Regions, cmd: cobra.Command{
		Use:   "mr",
		Short: "Memory regions: key checks, invalidation, barriers",
		Long: `What memory regions cost, in one process: checking a key, mapping and lazily
freeing, ending 1,000 regions with one barrier or with one each, and the latency
of a barrier (FreeInvalidate) beside 64 goroutines that copy in sections, and
beside 64 connections that write and read over loopback.`,
		Example: "  rdsbench mr\n  rdsbench mr --duration 5s --repeat 5 --json",
	}, flags: func(f *flags, _ *cobra.Command, fs *pflag.FlagSet) {
		f.below(fs, "server", "listen", "congestion", "tcp-buffers", "event-loops", "server-cpuprofile")
	}},
	{kind: bench.Chernobyl, cmd: cobra.Command{
		Use:   "chernobyl",
		Short: "1,000 workers on one connection, one more uses bad keys",
		Long: `Workers share one connection with shared receive queues. Each writes to memory
of its own on the server by RDMA Write, sends a message that builds on it to a
queue of its own, and waits until both have completed. The server verifies the
number of each message and every byte that was written before it: one lost,
doubled or early ends the run with exit status 1, and so does an error.

In the second third of the time one more worker sends, in a loop, Writes and Reads
with a stale key, beyond the end of its region, and without the right, and a
message that builds on such a Write. Each has to be refused, and nobody else is
to notice.

The baseline is a plain connection, where the first bad key is the end of it for
everybody (RFC 5040 section 7): the "network chernobyl". There the server answers
each message by another.

With --sockets it is the same one level above: the workers are RDS sockets of one
node, which share its connection to the server's node. Each writes to the region of
a socket of its own there and sends a message behind the write, which the server
verifies and answers, and every fourth operation reads what was written last. The
rogue is one more socket. There is no baseline. It works 15 times, in turn with as
long a time without it, and each of the 15 is compared with the times beside it.`,
		Example: `  rdsbench chernobyl
  rdsbench chernobyl --workers 100 --size 64 --duration 30s --html page.html
  rdsbench chernobyl --svg chernobyl.svg
  rdsbench chernobyl --sockets --svg chernobyl-sockets.svg`,
	}, flags: func(f *flags, cmd *cobra.Command, fs *pflag.FlagSet) {
		f.below(fs)
		cmd.PreRun = func(cmd *cobra.Command, _ []string) {
			if f.opts.RDS {
				f.opts.Provider = rds.ProviderNode
				if !cmd.Flags().Changed("duration") {
					f.opts.Duration = 31 * time.Second
				}
			}
		}
		f.opts.Duration = 6 * time.Second
		fs.Lookup("duration").DefValue = f.opts.Duration.String()
		fs.BoolVar(&f.opts.RDS, "sockets", false, "the workers are RDS sockets")
		fs.IntVar(&f.opts.Workers, "workers", 1000, "workers with good keys")
		f.size(fs, "8k")
		fs.BoolVar(&f.opts.Baseline, "baseline", true, "do the same over a plain connection")
		fs.StringVar(&f.svg, "svg", "", "also write the plot to this `file`")
		f.pinning(fs)
	}},
}
