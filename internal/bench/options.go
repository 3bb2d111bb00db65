package bench

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/rds-go/rds/rds"
)

// Bounds of Options.
const (
	maxBatch = 1024
	maxDepth = 1024
	// smallZeroCopy is the size from which AllocMessage pays by default.
	smallZeroCopy = 64 << 10
)

// Options are what the flags of rdsbench say, with the defaults of the mode.
type Options struct {
	TCPSettings

	Server    string        // control address of a running server; empty starts one
	Listen    netip.Addr    // our RDS address; zero: 127.0.0.1, or the one that reaches Server
	Port      uint16        // RDS TCP port; 0: any that is free, with Server 16385 if it is
	Provider  string        // rds.ProviderNode, rds.ProviderDaemon or rds.ProviderKernel
	Socket    string        // socket of the running rdsd, with Server; empty: the default
	Wire      string        // wire of nodes and daemons: auto, xrc or tcp
	Paths     int           // 1 or 8
	Sizes     []int         // message sizes; Stress takes them in turn, others make a Work of each
	Reply     int           // bytes of a reply
	Depth     int           // outstanding requests of each socket
	Sockets   int           // sockets of the client, or of each host
	Hosts     int           // Connections
	Peers     int           // sockets of the server
	Processes int           // Mux, Stopped: on each side, each with Sockets or Peers sockets; 0: this one and the server
	Attaches  int           // Attach: how often
	Sessions  int           // Sessions: how many
	Batch     int           // messages of a batch call; 0: as the mode does by default
	ZeroCopy  string        // auto, on, off
	Rate      float64       // offered messages per second (Latency); 0: as fast as it goes
	Duration  time.Duration // length of one measured run
	Warmup    time.Duration
	Baseline  bool
	Repeat    int // number of runs, of which the median counts
	Pin       Pin
	Fault     Fault
	Ops       bool   // Stress: RDMA and atomic operations
	Faults    bool   // Stress with Ops: cut connections
	Seed      uint64 // seed of Ops

	Kills    time.Duration // Stress with Ops: mean time between kills of processes; 0: none
	Restarts time.Duration // Stress with Ops: mean time between restarts of daemons; 0: none

	Op       Op   // RDMA; empty: the table
	CRC      CRCs // RDMA: on, off or both; nodes and daemons: on, off or auto
	PingPong bool // RDMA
	Busy     bool // RDMA: poll completion queues
	ULPDU    int  // RDMA: longest segment; 0: what fits a TCP segment
	Queues   int  // RDMA: shared receive queues to send to; 0: none
	Stopped  int  // RDMA: number of Queues that take nothing; Mux: pairs of which one end takes nothing
	Workers  int  // Chernobyl: workers with good keys; Atomic: workers of each process
	RDS      bool // Chernobyl: workers are sockets
	Words    int  // Atomic

	ServerCPUProfile string // file for the server that is started
}

// TCPSettings are those of all TCP connections, of RDS and of the baseline.
type TCPSettings struct {
	Congestion string  `json:"congestion,omitempty"` // congestion control; empty: the system's
	Buffers    Buffers `json:"buffers"`
	Loops      int     `json:"loops,omitempty"` // event loops of RDS; 0: one when pinned, else the node's default
}

// Buffers are SO_SNDBUF and SO_RCVBUF of TCP connections, in bytes; 0 leaves
// one to the kernel's autotuning.
type Buffers struct {
	Send    int `json:"send,omitempty"`
	Receive int `json:"receive,omitempty"`
}

// Validate returns an error that names each option out of bounds, in one line.
func (o *Options) Validate(kind Kind) error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(o.Paths == 1 || o.Paths == 8, "--paths is 1 or 8, not %d", o.Paths)
	o.validateProvider(kind, check)
	check(o.Pin == PinNone || o.Pin == PinSame || o.Pin == PinSplit, "--pin is none, same or split, not %q", o.Pin)
	check(o.ZeroCopy == "auto" || o.ZeroCopy == "on" || o.ZeroCopy == "off", "--zero-copy is auto, on or off, not %q", o.ZeroCopy)
	check(o.Duration > 0 && o.Duration <= time.Hour, "--duration is above 0 and at most 1h, not %v", o.Duration)
	check(o.Warmup >= 0 && o.Warmup <= time.Minute, "--warmup is 0 to 1m, not %v", o.Warmup)
	check(o.Repeat >= 1 && o.Repeat <= 1000, "--repeat is 1 to 1000, not %d", o.Repeat)
	check(o.Batch >= 0 && o.Batch <= maxBatch, "--batch is at most %d, not %d", maxBatch, o.Batch)
	check(o.Rate >= 0, "--rate is not negative")
	check(o.Loops >= 0 && o.Loops <= 64, "--event-loops is 0 to 64, not %d", o.Loops)
	switch kind {
	case Mux, Stress:
		least := stampEnd
		if kind == Stress {
			least = stressHeader
		}
		for _, n := range append([]int{o.Reply}, o.Sizes...) {
			check(n >= least && n <= rds.MaxMessage, "%s messages have %d bytes to 1m, not %d", kind, least, n)
		}
		check(o.Depth >= 1 && o.Depth <= maxDepth, "--depth is 1 to %d, not %d", maxDepth, o.Depth)
		check(o.Sockets >= 1 && o.Sockets <= maxSockets, "--sockets is 1 to %d, not %d", maxSockets, o.Sockets)
		check(o.Peers >= 1 && o.Peers <= maxSockets, "--peers is 1 to %d, not %d", maxSockets, o.Peers)
		check(!o.Faults || o.Ops && o.Server == "", "--faults goes with --rdma, without --server")
		if o.Ops {
			o.validateSoak(check)
		}
		check(o.Kills == 0 && o.Restarts == 0 || o.Ops, "--kills and --restarts go with --rdma")
		check(o.Stopped == 0 || kind == Mux && o.Stopped > 0 && o.Stopped < max(o.Sockets, o.Processes) && o.Sockets == o.Peers && !o.Baseline,
			"--stopped is less than the number of pairs, as many sockets as peers, without --baseline")
		check(o.Depth*o.Reply <= rds.DefaultBuffer, "--depth times --reply is at most %s, the receive buffer of a socket", FormatSize(rds.DefaultBuffer))
	case Fetch:
		check(o.Depth >= 1 && o.Depth <= fetchDepth, "--depth is 1 to %d, not %d", fetchDepth, o.Depth)
		for _, n := range o.Sizes {
			check(n >= stampEnd && n <= fetchSize, "blocks have %d bytes to %s, not %d", stampEnd, FormatSize(fetchSize), n)
		}
	case Sockets:
		check(o.Sockets >= 1 && o.Sockets <= 50000, "--sockets is 1 to 50000, not %d", o.Sockets)
	case RDMA:
		o.validateRDMA(check)
	case Chernobyl:
		o.validateChernobyl(check)
	case Table:
		check(o.Wire != "tcp", "--wire tcp is what the table compares with")
		check(o.Provider != rds.ProviderKernel && o.Server == "", "the table is of nodes or daemons that are started here")
	case Atomic:
		check(o.Workers >= 1 && o.Workers <= 64, "--workers is 1 to 64, not %d", o.Workers)
		check(o.Words >= 2 && o.Words <= maxWords, "--words is 2 to %d, not %d", maxWords, o.Words)
		check(o.Depth >= 1 && o.Depth <= maxAtomicDepth, "--depth is 1 to %d, not %d", maxAtomicDepth, o.Depth)
	case Connections:
		check(o.Hosts >= 2 && o.Hosts <= maxHosts, "--hosts is 2 to %d, not %d", maxHosts, o.Hosts)
		check(o.Sockets >= 1 && o.Hosts*o.Sockets <= 4096, "--sockets is 1 to 4096 in all, not %d on each of %d hosts", o.Sockets, o.Hosts)
	case Stopped:
		o.validateStopped(check)
	case Attach:
		check(o.Attaches >= 1 && o.Attaches <= 100000, "--attaches is 1 to 100000, not %d", o.Attaches)
		check(o.Sessions >= 1 && o.Sessions < rds.DefaultSessionsOfUID, "--sessions is 1 to %d, not %d", rds.DefaultSessionsOfUID-1, o.Sessions)
	}
	check(kind == Sockets || kind == Connections || kind == Table || kind == Atomic || kind == Fair || kind == Attach || kind == Regions || len(o.Sizes) > 0, "--size is empty")
	if len(errs) == 0 {
		return nil
	}
	text := ""
	for i, err := range errs {
		if i > 0 {
			text += "; "
		}
		text += err.Error()
	}
	return errors.New(text)
}

// validateProvider checks what goes with which provider.
func (o *Options) validateProvider(kind Kind, check func(ok bool, format string, args ...any)) {
	if kind == RDMA || kind == Regions || kind == Chernobyl && !o.RDS { // these kinds have no sockets
		check(o.Provider == "" && o.wire() == "", "%s takes no --provider and no --wire", kind)
		return
	}
	daemon := o.Provider == rds.ProviderDaemon
	check(o.CRC == CRCOn || o.CRC == CRCOff || o.CRC == CRCAuto, "--crc is on, off or auto, not %q", o.CRC)
	check(o.Wire == "" || o.Wire == "auto" || o.Wire == "xrc" || o.Wire == "tcp", "--wire is auto, xrc or tcp, not %q", o.Wire)
	check(o.wire() == "" || o.Provider == rds.ProviderNode || daemon && o.Server == "", "--wire is of nodes, or daemons, that are started here")
	check(daemon || o.Provider == rds.ProviderNode || o.Provider == rds.ProviderKernel, "--provider is node, rdsd or kernel, not %q", o.Provider)
	check(o.Socket == "" || daemon && o.Server != "", "--socket is of a running rdsd: it needs --provider rdsd and --server")
	ours := daemon && o.Server == "" // the daemons are started here
	switch kind {
	case "":
		check(!daemon || ours, "--provider rdsd with --server needs a mode")
	case Atomic:
		check(o.Provider != rds.ProviderKernel && o.wire() != rds.WireTCP, "atomic operations need nodes or daemons that speak XRC")
		check(o.Processes >= 0 && o.Processes <= 64 && (o.Processes == 0 || o.Server == ""), "--processes is at most 64, and none with --server")
	case Connections:
		check(o.Provider == rds.ProviderNode && o.Server == "" && o.Paths == 1, "the hosts are nodes of this process, with --paths 1")
	case Sockets:
		check(!daemon, "sockets are counted in a node: --provider node or kernel")
	case Fair, Attach, Stopped:
		check(ours, "%s starts daemons of its own: --provider rdsd, without --server", kind)
	case Mux:
		check(o.Processes >= 0 && o.Processes <= 256, "--processes is at most 256, not %d", o.Processes)
		check(o.Processes == 0 || ours, "--processes needs --provider rdsd, without --server: it is by a daemon that processes share a connection")
		check(o.Processes == 0 || !o.Baseline, "--processes has no --baseline")
		check(o.Processes == 0 || o.Pin != PinSplit, "--processes goes with --pin none or same")
	}
}

// transports are those a work is done over, one after the other.
func (o *Options) transports(w *Work) []Transport {
	switch {
	case w.Kind == Mux && w.Stopped > 0, w.Kind == Stopped:
		return []Transport{RDS, Active}
	case w.Kind == Mux && w.Processes > 0:
		return []Transport{RDS, OneProcessor}
	case w.OverTCP && w.Baseline:
		return []Transport{RDS, OverTCP, TCP}
	case w.OverTCP:
		return []Transport{RDS, OverTCP}
	case w.Kind == Fair:
		return []Transport{RDS, Alone}
	case w.Kind == Chernobyl && w.Baseline:
		return []Transport{IWARP, Plain}
	case w.Kind == Regions && w.Op == OpInvalidate:
		return []Transport{Device, Singles}
	case w.Kind == RDMA && !w.Baseline:
		return o.stopped(w)
	case !w.Baseline || w.Kind == Regions:
		return []Transport{w.subject()}
	case w.Kind == RDMA:
		return append(o.stopped(w), TCP)
	case o.Provider == rds.ProviderDaemon && o.Server == "":
		return []Transport{RDS, Node, TCP}
	}
	return []Transport{RDS, TCP}
}

// stopped are the transports of an RDMA work, without the baseline.
func (o *Options) stopped(w *Work) []Transport {
	if w.Stopped > 0 {
		return []Transport{IWARP, Running}
	}
	return []Transport{IWARP}
}

// Plan makes the works of a mode.
func (o *Options) Plan(kind Kind) []Work {
	base := Work{Kind: kind, Baseline: o.Baseline, Pin: o.Pin, Batch: max(o.Batch, 1)}
	switch kind {
	case Attach:
		attach := Work{Kind: Attach, Size: 64, Batch: 1, Sockets: o.Attaches}
		return []Work{{Kind: Sessions, Batch: 1, Sockets: o.Sessions}, attach} // first, while the daemon is small
	case Fair:
		return []Work{{Kind: Fair, Size: 64, Batch: 1, Rate: 1000}}
	case Sockets:
		base.Sockets, base.Baseline = o.Sockets, false
		return []Work{base}
	case RDMA:
		return o.rdmaWorks()
	case Regions:
		return o.regionsWorks()
	case Table:
		return o.xrcTable()
	case Atomic:
		return o.atomicWorks()
	case Connections:
		return []Work{{Kind: Connections, Size: 64, Batch: 1, Hosts: o.Hosts, Sockets: o.Sockets}}
	case Stress:
		base.Sizes, base.Baseline, base.Fault = o.Sizes, false, o.Fault
		base.Size = o.Sizes[0]
		base.Ops, base.Faults, base.Seed, base.Processes = o.Ops, o.Faults, o.Seed, o.Processes
		base.Kills, base.Restarts = o.Kills, o.Restarts
		return []Work{o.many(base)}
	}
	var works []Work
	for _, n := range o.Sizes {
		w := base
		w.Size = n
		switch kind {
		case Mux:
			w = o.many(w)
			w.Processes, w.Stopped = o.Processes, o.Stopped
		case Latency:
			w.Batch, w.Rate = 1, o.Rate
		case Stopped:
			w.Sockets, w.Peers, w.Processes = o.Sockets, o.Sockets, o.Processes
		case Chernobyl:
			w.Op, w.Workers, w.Depth, w.Verbs, w.Baseline = OpWrite, o.Workers, 1, !o.RDS, o.Baseline && !o.RDS
			if o.RDS {
				w.Sockets = 2 * o.Workers // the sockets of both sides take their time to bind
			}
		case Fetch:
			w.Depth, w.Batch = o.Depth, min(o.Depth, fetchBatch)
		}
		w.ZeroCopy = (kind == Latency || kind == OneWay) && o.zeroCopy(n)
		works = append(works, w)
	}
	return works
}

func (o *Options) many(w Work) Work {
	w.Reply, w.Depth, w.Sockets, w.Peers = o.Reply, o.Depth, o.Sockets, o.Peers
	if o.Batch == 0 {
		w.Batch = o.Depth
	}
	return w
}

func (o *Options) zeroCopy(size int) bool {
	return o.ZeroCopy == "on" || o.ZeroCopy != "off" && size >= smallZeroCopy
}

// Demonstration is the table that rdsbench makes without arguments: latency on
// one CPU, rates from 64 B to 1 MiB, many sockets, and what a socket costs.
// With rdsd it is what differs from a node: how messages get to the daemon,
// and that many processes share it.
func (o *Options) Demonstration() []Work {
	oneWay := func(size, batch int) Work {
		return Work{Kind: OneWay, Size: size, Batch: batch, ZeroCopy: o.zeroCopy(size), Baseline: o.Baseline}
	}
	pingPong := Work{Kind: Latency, Size: 64, Batch: 1, Pin: PinSame, Baseline: o.Baseline}
	if o.Provider == rds.ProviderDaemon {
		return []Work{
			pingPong, oneWay(64, 1), oneWay(64, 64), oneWay(64<<10, 1),
			{Kind: Mux, Size: 256, Reply: 64, Depth: 8, Batch: 8, Sockets: 1, Peers: 1, Processes: 32},
			{Kind: Mux, Size: 256, Reply: 64, Depth: 128, Batch: 128, Sockets: 1, Peers: 1, Processes: 32},
		}
	}
	return []Work{
		{Kind: Sockets, Sockets: 10000, Batch: 1}, // first, while this process is small
		pingPong,
		oneWay(64, 1), oneWay(64, 64), oneWay(1<<10, 64), oneWay(8<<10, 8), oneWay(64<<10, 1), oneWay(1<<20, 1),
		{Kind: Mux, Size: 256, Reply: 64, Depth: 8, Batch: 8, Sockets: 64, Peers: 64, Baseline: o.Baseline},
	}
}
