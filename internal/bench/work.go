package bench

import (
	"fmt"
	"strings"
	"time"
)

// Kind is what a Work does.
type Kind string

// Kinds of Work.
const (
	Latency Kind = "latency" // ping-pong, one message outstanding
	OneWay  Kind = "one-way" // one socket to one socket; the receiver confirms the count
	Mux     Kind = "mux"     // all sockets to all sockets, request and reply
	Stress  Kind = "stress"  // Mux with every payload and sequence number verified
	Fetch   Kind = "fetch"   // blocks: asked for by message, answered by an RDMA write and a message
	Sockets Kind = "sockets" // bind many sockets: time and memory

	Atomic Kind = "atomic" // words of the server's memory, changed by many

	Connections Kind = "connections" // many hosts, all to all: TCP connections, and memory of idle ones

	// These are below the sockets.
	RDMA    Kind = "rdma"    // verbs over iWARP
	Regions Kind = "regions" // memory regions by themselves, in one process

	Chernobyl Kind = "chernobyl" // many workers on one connection, one of them with bad keys

	// These need an rdsd.
	Fair     Kind = "fair"     // Latency beside an application that floods
	Attach   Kind = "attach"   // attach, bind, send and get an answer
	Sessions Kind = "sessions" // attach many applications: time and memory
	Stopped  Kind = "stopped"  // pairs of applications, one of which is stopped and goes on
)

// Transport is what carries the messages of a run.
type Transport string

// Transports.
const (
	RDS Transport = "rds"
	TCP Transport = "tcp" // the baseline: net.TCPConn with a 4-byte length before each message

	Node  Transport = "embedded node" // RDS by nodes in the two processes, to compare rdsd with
	Alone Transport = "rds, alone"    // Fair without the flood

	OverTCP Transport = "rds over tcp" // RDS by nodes that do not speak XRC
	// OneProcessor is Mux with Processes that have GOMAXPROCS 1, where a user's have as many
	// processors as there are CPUs.
	OneProcessor Transport = "rds, one processor each"

	Active Transport = "rds, none stopped" // Mux without what is sent to stopped sockets, Stopped with all running

	IWARP   Transport = "iwarp"               // RDMA and Chernobyl works
	Plain   Transport = "plain iwarp"         // Chernobyl without shared queues
	Running Transport = "iwarp, none stopped" // RDMA without what is sent to stopped queues
	Device  Transport = "regions"             // Regions works
	Singles Transport = "a barrier each"      // a barrier for each region, to compare batched invalidation with
)

// Pin says on which CPUs the two processes run.
type Pin string

// Pins. Two processes that wait for each other take 8 us per round trip on one
// CPU and 65 us on two (each way wakes an idle CPU), so latency that is not
// pinned is left to chance.
const (
	PinNone  Pin = "none"
	PinSame  Pin = "same"  // both sides on the first CPU, GOMAXPROCS 1
	PinSplit Pin = "split" // server on the first, client on the second, GOMAXPROCS 1
)

// Work is one line of a report.
type Work struct {
	Kind      Kind    `json:"kind"`
	Size      int     `json:"size"`            // bytes of a message, or of a request
	Sizes     []int   `json:"sizes,omitempty"` // Stress: requests take these in turn
	Reply     int     `json:"reply,omitempty"` // bytes of a reply (Mux, Stress)
	Depth     int     `json:"depth,omitempty"` // outstanding requests of each client socket
	Sockets   int     `json:"sockets,omitempty"`
	Peers     int     `json:"peers,omitempty"`     // sockets of the server
	Hosts     int     `json:"hosts,omitempty"`     // Connections: number of hosts, each with Sockets sockets
	Processes int     `json:"processes,omitempty"` // Mux, Stopped: processes on each side, of which each has Sockets or Peers sockets; 0: one
	Batch     int     `json:"batch"`               // messages of a SendBatch or RecvBatch; 1: calls for single messages
	ZeroCopy  bool    `json:"zero_copy,omitempty"`
	Rate      float64 `json:"offered_rate,omitempty"` // Latency: messages per second, 0 for as fast as it goes
	Baseline  bool    `json:"-"`
	OverTCP   bool    `json:"-"` // compare with RDS over TCP
	Pin       Pin     `json:"pin,omitempty"`
	Fault     Fault   `json:"fault,omitempty"`

	Op       Op     `json:"op,omitempty"`        // RDMA, Regions
	CRC      bool   `json:"crc,omitempty"`       // RDMA: on the connection
	PingPong bool   `json:"ping_pong,omitempty"` // RDMA: round trips
	Busy     bool   `json:"busy,omitempty"`      // RDMA: poll completion queues rather than wait
	ULPDU    int    `json:"ulpdu,omitempty"`     // RDMA: longest segment, 0: what fits a TCP segment
	Queues   int    `json:"queues,omitempty"`    // RDMA: shared receive queues that Sends are spread over; 0: the queue pair's own
	Stopped  int    `json:"stopped,omitempty"`   // RDMA: number of Queues that never have memory posted; Mux: server sockets that receive nothing
	Workers  int    `json:"workers,omitempty"`   // Regions, Chernobyl, Atomic: goroutines
	Words    int    `json:"words,omitempty"`     // Atomic: words of 8 bytes
	Ops      bool   `json:"ops,omitempty"`       // Stress: operations on the server's memory, too
	Faults   bool   `json:"faults,omitempty"`    // Stress with Ops: connections are cut
	Seed     uint64 `json:"seed,omitempty"`      // Stress with Ops: seed of the random numbers

	Kills    time.Duration `json:"kills,omitempty"`    // Stress with Ops: mean time between kills of processes
	Restarts time.Duration `json:"restarts,omitempty"` // Stress with Ops: mean time between restarts of daemons

	Verbs bool `json:"verbs,omitempty"` // Atomic: below the sockets, a connection for each worker; Chernobyl: below the sockets
}

// Fault is damage that a Stress client does to one of its own messages, to
// show that the checks find it.
type Fault string

// Faults.
const (
	FaultNone    Fault = ""
	FaultCorrupt Fault = "corrupt" // one bit of a payload is changed
	FaultSkip    Fault = "skip"    // a sequence number is left out
)

// title is a work's name under construction.
type title struct{ strings.Builder }

// add adds to the title if ok.
func (t *title) add(ok bool, format string, args ...any) {
	if ok {
		fmt.Fprintf(t, format, args...)
	}
}

// Title names the work in a table.
func (w *Work) Title() string {
	var s title
	size := FormatSize(w.Size)
	pin := func() {
		s.add(w.Pin == PinSame, ", one CPU")
		s.add(w.Pin == PinSplit, ", a CPU each")
	}
	switch w.Kind {
	case Latency:
		s.add(true, "ping-pong %s", size)
		pin()
		s.add(w.Rate > 0, ", %g/s offered", w.Rate)
	case OneWay:
		s.add(true, "one-way %s", size)
		s.add(w.Batch > 1, ", batch %d", w.Batch)
		s.add(w.Batch <= 1, ", single")
	case Fetch:
		s.add(true, "fetch %s, depth %d", size, w.Depth)
	case Mux, Stress:
		sizes := []string{size}
		for i, n := range w.Sizes {
			sizes = append(sizes[:i], FormatSize(n))
		}
		s.add(true, "%s %s, %s, depth %d", w.Kind, w.crowd(), strings.Join(sizes, "/"), w.Depth)
		s.add(w.Stopped > 0, ", %d stopped", w.Stopped)
		s.add(w.Ops, ", RDMA")
		s.add(w.Faults, ", faults")
		s.add(w.Kills > 0, ", kills every %v", w.Kills)
		s.add(w.Restarts > 0, ", restarts every %v", w.Restarts)
	case Stopped:
		s.add(true, "%d pairs of applications of %d sockets, %s", w.Processes, w.Sockets, size)
	case Connections:
		s.add(true, "%d hosts x %d sockets, all to all", w.Hosts, w.Sockets)
	case Sockets:
		s.add(true, "bind %d sockets", w.Sockets)
	case Fair:
		s.add(true, "ping-pong %s, %g/s offered, beside a flood", size, w.Rate)
	case Attach:
		s.add(true, "attach, bind, first answer")
	case Sessions:
		s.add(true, "attach %d applications", w.Sockets)
	case Atomic:
		level := map[bool]string{true: "verbs", false: "rds"}[w.Verbs]
		s.add(true, "%s, %s, %d word", level, w.Op, w.Words)
		s.add(w.Words > 1, "s")
		s.add(true, ", ")
		s.add(w.Processes > 0, "%d processes of ", w.Processes)
		s.add(true, "%d workers, depth %d", w.Workers, w.Depth)
		return s.String()
	case RDMA:
		s.add(w.PingPong, "ping-pong ")
		s.add(true, "%s %s", w.Op, size)
		s.add(!w.PingPong, ", depth %d", w.Depth)
		s.add(!w.PingPong && w.Batch > 1, ", lists of %d", w.Batch)
		s.add(!w.PingPong && w.Batch <= 1, ", single")
		s.add(w.Queues > 0, ", %d queues", w.Queues)
		s.add(w.Stopped > 0, ", %d stopped", w.Stopped)
		s.add(w.CRC, ", CRC")
		s.add(w.ULPDU > 0, ", segments of %d", w.ULPDU)
		s.add(w.Busy, ", polling")
		pin()
		return s.String()
	case Regions:
		return w.regionsTitle()
	case Chernobyl:
		s.add(true, "%d %s write %s", w.Workers, w.workers(), size)
	}
	s.add(w.ZeroCopy, ", zero-copy")
	s.add(w.Pin != PinNone && w.Pin != "" && w.Kind != Latency, ", pin %s", w.Pin)
	return s.String()
}

// workers is what the workers of a Chernobyl work are.
func (w *Work) workers() string {
	if w.Verbs {
		return "workers"
	}
	return "sockets"
}

// crowd is how many ask how many.
func (w *Work) crowd() string {
	switch {
	case w.Stopped > 0:
		return fmt.Sprintf("%d pairs of %s", max(w.Processes, w.Sockets), map[bool]string{true: "processes", false: "sockets"}[w.Processes > 0])
	case w.mortal():
		return fmt.Sprintf("%dx%d processes of %d and %d sockets", w.Processes, w.Processes, w.Sockets, w.Peers)
	case w.Ops && w.Processes > 0:
		return fmt.Sprintf("%d processes of %dx%d", w.Processes, w.Sockets, w.Peers)
	case w.Processes == 0:
		return fmt.Sprintf("%dx%d", w.Sockets, w.Peers)
	}
	s := fmt.Sprintf("%dx%d processes", w.Processes, w.Processes)
	if w.Sockets != 1 || w.Peers != 1 {
		s += fmt.Sprintf(" of %d and %d sockets", w.Sockets, w.Peers)
	}
	return s
}

// maxSize is the longest message of the work.
func (w *Work) maxSize() int {
	n := max(w.Size, w.Reply)
	for _, s := range w.Sizes {
		n = max(n, s)
	}
	return n
}
