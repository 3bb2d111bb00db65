package bench

import (
	"cmp"
)

// Op is what an RDMA or Regions work does.
type Op string

// The operations of an RDMA work.
const (
	OpWrite Op = "write" // one way: into the server's memory
	OpRead  Op = "read"  // out of the server's memory, with Depth outstanding
	OpSend  Op = "send"  // one way: into receive requests of the server
)

// Bounds of an RDMA work.
const (
	maxReads       = 128     // outstanding reads: as many as a responder of iwarp holds
	maxOutstanding = 1 << 14 // outstanding work requests other than reads
	inlineMost     = 256     // Sends up to this size are inline
	windowBytes    = 4 << 20 // bytes outstanding with default depths
	blocksBytes    = 8 << 20 // bytes of the memory that is read from, at least maxReads blocks
)

// CRCs are what --crc says.
type CRCs string

// Values of CRCs.
const (
	CRCOn   CRCs = "on"
	CRCOff  CRCs = "off"
	CRCBoth CRCs = "both" // RDMA
	CRCAuto CRCs = "auto" // nodes and daemons: on between hosts
)

// shape is the kind of work over sockets whose TCP baseline and figures it
// shares: OneWay, Latency, or its own.
func (w *Work) shape() Kind {
	switch {
	case w.Kind == Fetch:
		return RDMA
	case w.Kind != RDMA:
		return w.Kind
	case w.PingPong:
		return Latency
	case w.Op == OpRead:
		return RDMA
	}
	return OneWay
}

// subject is the transport that is measured.
func (w *Work) subject() Transport {
	switch {
	case w.belowSockets():
		return IWARP
	case w.Kind == Regions:
		return Device
	}
	return RDS
}

// sends is how many work requests the client has outstanding.
func (w *Work) sends() int {
	if w.Kind == Chernobyl { // each operation is a Write, a message, and its answer on a plain connection
		return 4 * (w.Workers + 1)
	}
	return w.Depth
}

// receives is how many receive requests of w.Size the server keeps posted.
func (w *Work) receives() int {
	if w.Kind == Chernobyl {
		return w.Workers + 1
	}
	return max(2*w.Batch, 16, min(4096, windowBytes/max(w.Size, 1)))
}

// blocks is how many blocks of w.Size there are to read.
func (w *Work) blocks() int {
	if w.Kind == Fetch {
		return fetchBlocks
	}
	return max(maxReads, blocksBytes/max(w.Size, 1))
}

// validateRDMA checks what is of RDMA works alone.
func (o *Options) validateRDMA(check func(ok bool, format string, args ...any)) {
	check(o.Op == "" || o.Op == OpWrite || o.Op == OpRead || o.Op == OpSend, "--op is write, read or send, not %q", o.Op)
	check(o.CRC == CRCOn || o.CRC == CRCOff || o.CRC == CRCBoth, "--crc is on, off or both, not %q", o.CRC)
	check(o.Depth >= 0 && o.Depth <= maxOutstanding, "--depth is at most %d, not %d", maxOutstanding, o.Depth)
	check(o.Op != OpRead || o.Depth <= maxReads, "--depth of reads is at most %d, not %d", maxReads, o.Depth)
	check(o.ULPDU == 0 || o.ULPDU >= 128 && o.ULPDU <= 64768, "--ulpdu is 0 or 128 to 64768, not %d", o.ULPDU)
	check(!o.PingPong || o.Op != "", "--ping-pong needs --op")
	check(o.Op != "" || o.Depth == 0 && o.Batch == 0, "--depth and --batch need --op")
	check(o.Queues == 0 || o.Op == OpSend && !o.PingPong, "--queues goes with --op send")
	check(o.Queues >= 0 && o.Queues <= maxQueues, "--queues is at most %d, not %d", maxQueues, o.Queues)
	check(o.Stopped == 0 || o.Stopped > 0 && o.Stopped < o.Queues, "--stopped is less than --queues, not %d", o.Stopped)
	check(o.Depth == 0 || o.Depth >= o.Queues, "--depth is at least --queues, not %d", o.Depth)
	for _, n := range o.Sizes {
		check(n > 0, "--size is above 0")
	}
}

// rdmaWorks are those of --op, or the table.
func (o *Options) rdmaWorks() []Work {
	if o.Op == "" {
		return o.rdmaTable()
	}
	var works []Work
	for _, size := range o.Sizes {
		works = append(works, o.rdmaCRC(Work{Op: o.Op, Size: size, Depth: o.Depth, Batch: o.Batch, PingPong: o.PingPong, Pin: o.Pin})...)
	}
	return works
}

// rdmaCRC completes a work, for each value of --crc.
func (o *Options) rdmaCRC(w Work) []Work {
	w.Kind, w.Baseline, w.Busy, w.ULPDU = RDMA, o.Baseline, o.Busy, o.ULPDU
	switch {
	case w.PingPong:
		w.Depth, w.Batch = 1, 1
	case w.Op == OpSend:
		w.Batch = cmp.Or(w.Batch, 64)
		w.Depth = cmp.Or(w.Depth, max(w.Batch, min(2048, windowBytes/w.Size)))
		w.queueDepth(o)
	default:
		w.Depth = cmp.Or(w.Depth, max(2, min(32, windowBytes/w.Size)))
		w.Batch = cmp.Or(w.Batch, max(1, w.Depth/4))
	}
	w.Batch = min(w.Batch, w.Depth)
	var works []Work
	for _, crc := range []CRCs{CRCOff, CRCOn} {
		if o.CRC == crc || o.CRC == CRCBoth {
			w.CRC = crc == CRCOn
			works = append(works, w)
		}
	}
	return works
}

// rdmaTable is what rdsbench rdma does without --op: large writes with and
// without CRC, blocks, small messages, and latency. What is not about the CRC
// is without, unless --crc says on.
func (o *Options) rdmaTable() []Work {
	once := *o
	if o.CRC == CRCBoth {
		once.CRC = CRCOff
	}
	works := o.rdmaCRC(Work{Op: OpWrite, Size: 1 << 20, Pin: o.Pin})
	for _, w := range []Work{
		{Op: OpWrite, Size: 8 << 10, Depth: 32, Pin: o.Pin},
		{Op: OpWrite, Size: 8 << 10, Depth: 32, Batch: 1, Pin: o.Pin},
		{Op: OpRead, Size: 8 << 10, Depth: 32, Pin: o.Pin},
		{Op: OpSend, Size: 64, Batch: 64, Pin: o.Pin},
		{Op: OpSend, Size: 64, Batch: 1, Pin: o.Pin},
		{Op: OpSend, Size: 64, PingPong: true, Pin: PinSame},
		{Op: OpWrite, Size: 64, PingPong: true, Pin: PinSame},
		{Op: OpRead, Size: 64, PingPong: true, Pin: PinSame},
		{Op: OpSend, Size: 64, PingPong: true, Pin: PinSplit},
		{Op: OpWrite, Size: 64, PingPong: true, Pin: PinSplit},
		{Op: OpRead, Size: 64, PingPong: true, Pin: PinSplit},
	} {
		works = append(works, once.rdmaCRC(w)...)
	}
	return works
}

// checkRDMA refuses works that a server would take too much memory for.
func (w *Work) checkRDMA() bool {
	depth := maxOutstanding
	if w.Op == OpRead {
		depth = maxReads
	}
	return w.Size > 0 && w.Depth >= 1 && w.Depth <= depth && w.Batch <= w.Depth && w.Depth*w.Size <= 1<<28 && w.checkQueues() &&
		(w.Op == OpWrite || w.Op == OpRead || w.Op == OpSend)
}
