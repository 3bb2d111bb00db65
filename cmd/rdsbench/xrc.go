package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rds-go/rds/internal/bench"
)

// xrcModes are of what XRC brings.
var xrcModes = []mode{
	{kind: bench.Table, cmd: cobra.Command{
		Use:   "xrc",
		Short: "The table of RDS on XRC, beside RDS over TCP and plain TCP",
		Long: `Each line is RDS on XRC; under it the same over RDS on TCP ("x wire") and by plain
TCP ("x TCP"), in turn: ping-pong, one way from 64 B to 1 MiB, 64 x 64 sockets on
one connection, blocks of 8 KiB by RDMA write, and 31 pairs of sockets beside one
whose receiver has stopped while its sender floods, against the same 31 without.

With --provider rdsd the applications are attached to daemons, and the comparison
is with embedded nodes ("x node"); the pairs then are 64 processes.`,
		Example: `  rdsbench xrc --repeat 5
  rdsbench xrc --repeat 5 --congestion reno --provider rdsd`,
	}},
	{kind: bench.Fetch, cmd: cobra.Command{
		Use:   "fetch",
		Short: "Blocks by RDMA write and a message",
		Long: `The client exposes a buffer for each outstanding request and asks for a block of
the server's by a message that offers the buffer. The server writes the block
there by RDMA and replies by the same message. The client verifies the number of
each block. The baseline is requests of 16 bytes, answered with the block.`,
		Example: `  rdsbench fetch --baseline --repeat 5
  rdsbench fetch --size 4k --depth 128 --pin split
  rdsbench fetch --provider rdsd --baseline`,
	}, flags: func(f *flags, _ *cobra.Command, fs *pflag.FlagSet) {
		f.size(fs, "8k")
		fs.IntVar(&f.opts.Depth, "depth", 32, "outstanding requests")
		f.compare(fs, false)
		f.pinning(fs)
	}},
	{kind: bench.Connections, cmd: cobra.Command{
		Use:   "connections",
		Short: "TCP connections and memory of many hosts, all to all",
		Long: `Runs hosts, each a node on a loopback address of its own, in one process. Every
socket sends a message to all sockets of all other hosts. Then the kernel's list
of connections is counted: each host has to have one to each other host. Beside it
stands what queue pairs of RC and of XRC would take, with a process for each
socket. The memory is what is left when all have been idle for a few seconds.`,
		Example: "  rdsbench connections\n  rdsbench connections --hosts 64 --sockets 8 --json",
	}, flags: func(f *flags, _ *cobra.Command, fs *pflag.FlagSet) {
		fs.IntVar(&f.opts.Hosts, "hosts", 16, "nodes, each on an address of its own")
		fs.IntVar(&f.opts.Sockets, "sockets", 16, "sockets of each")
	}},
	{kind: bench.Atomic, cmd: cobra.Command{
		Use:   "atomic",
		Short: "Fetch-and-add and compare-and-swap by many, verified",
		Long: `Workers change words of the server's memory, all of them one word or many: by
adding 1, or by replacing the number that a worker last knew by the next. In the
end the words have to add up to the changes that all workers say they have made;
a word may never be seen to go back. Below the sockets ("verbs") each worker has a
connection; by sockets ("rds") all workers of a process share one. A process is
a host of its own, or with --provider rdsd one of the client's daemon. The rate is
of operations, those that found another number than they expected included.`,
		Example: `  rdsbench atomic
  rdsbench atomic --workers 16 --processes 8 --duration 10s`,
	}, flags: func(f *flags, _ *cobra.Command, fs *pflag.FlagSet) {
		fs.IntVar(&f.opts.Workers, "workers", 4, "workers of each process")
		fs.IntVar(&f.opts.Processes, "processes", 2, "processes, in the lines that have several (0: no such lines)")
		fs.IntVar(&f.opts.Words, "words", 1024, "words, in the lines that have many")
		fs.IntVar(&f.opts.Depth, "depth", 8, "outstanding operations of each worker")
	}},
}
