package main

import (
	"github.com/spf13/cobra"

	"github.com/rds-go/rds/internal/bench"
)

// below is a mode for what is below the sockets, where there is no provider.
func below(kind bench.Kind, f *flags, hide []string, cmd *cobra.Command) *cobra.Command {
	cmd = mode(kind, f, cmd)
	f.opts.Provider = ""
	for _, name := range append(hide, "provider", "socket", "paths", "port", "wire") {
		cmd.Flags().MarkHidden(name)
	}
	return cmd
}

func rdmaCommand() *cobra.Command {
	f := &flags{}
	cmd := below(bench.RDMA, f, nil, &cobra.Command{
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
	})
	fs := cmd.Flags()
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
	return cmd
}

func regionsCommand() *cobra.Command {
	f := &flags{}
	network := []string{"server", "listen", "congestion", "tcp-buffers", "event-loops", "server-cpuprofile"}
	return below(bench.Regions, f, network, &cobra.Command{
		Use:   "mr",
		Short: "Memory regions: key checks, invalidation, barriers",
		Long: `What memory regions cost, in one process: checking a key, mapping and lazily
freeing, ending 1,000 regions with one barrier or with one each, and the latency
of a barrier (FreeInvalidate) beside 64 goroutines that copy in sections, and
beside 64 connections that write and read over loopback.`,
		Example: "  rdsbench mr\n  rdsbench mr --duration 5s --repeat 5 --json",
	})
}
