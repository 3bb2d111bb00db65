package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"time"
)

// env is what the command line says.
type env struct {
	addr     string        // loopback address of the server, or of the broker
	workload string        // pingpong, oneway, mux, sockets
	size     int           // message bytes
	dur      time.Duration // measured time
	warm     time.Duration // warm-up time
	count    int           // endpoints to open in sockets
	broker   int           // pid of a broker whose CPU and memory count too
}

// streamBuffer is the bufio buffer of a stream: 64 KiB, or 4 KiB where there
// are thousands of streams.
func (e *env) streamBuffer() int {
	if e.workload == "mux" || e.workload == "sockets" {
		return 4 << 10
	}
	return 64 << 10
}

// Sizes that the mux workload fixes.
const (
	muxSocks  = 64  // sockets on each side
	muxWindow = 8   // outstanding messages of one sending socket
	muxMsg    = 256 // message bytes
	muxReply  = 64  // reply bytes
)

var workloads = []string{"pingpong", "oneway", "mux", "sockets"}

// lifetime bounds every process.
const lifetime = 60 * time.Second

// A peer knows how to run each side of a workload.
type peer struct {
	serve  func(e *env) error // runs until killed
	client func(e *env) error // prints one result line
}

var peers = map[string]peer{
	"tcp":       tcpPeer(tcpFramed),
	"tcp-1w":    tcpPeer(tcpOneWrite),
	"tcpmux":    sockPeer(muxAttach, 0),
	"gnet":      {gnetServe, gnetClient},
	"grpc":      {grpcServe, grpcUnaryClient},
	"grpc-st":   {grpcServe, func(e *env) error { return connClient(e, grpcDial) }},
	"nats":      sockPeer(natsAttach, 4<<20),
	"rds":       sockPeer(rdsAttach(1), 0),
	"rds-batch": sockPeer(rdsAttach(64), 0),
}

func main() {
	time.AfterFunc(lifetime, func() { fmt.Fprintln(os.Stderr, "benchmarks: limit of", lifetime); os.Exit(3) })
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "benchmarks:", os.Args[1:], err)
		os.Exit(1)
	}
}

func run(args []string) error {
	e := &env{}
	fs := flag.NewFlagSet("benchmarks", flag.ExitOnError)
	fs.StringVar(&e.addr, "addr", "127.0.0.1:7100", "loopback address of the server, or of the NATS broker")
	fs.IntVar(&e.size, "size", 64, "message bytes")
	fs.DurationVar(&e.dur, "dur", 2*time.Second, "measured time")
	fs.DurationVar(&e.warm, "warm", 200*time.Millisecond, "warm-up time")
	fs.IntVar(&e.count, "n", 10000, "endpoints to open in the sockets workload")
	fs.IntVar(&e.broker, "broker", 0, "pid of a broker whose CPU and memory count too")
	if len(args) == 0 {
		args = []string{""}
	}
	switch args[0] {
	case "report":
		return report(os.Stdout, args[1:])
	case "broker":
		fs.Parse(args[1:])
		return natsBroker(e)
	case "server", "client":
		if len(args) < 3 {
			return fmt.Errorf("want a peer and a workload")
		}
		fs.Parse(args[3:])
		p, ok := peers[args[1]]
		e.workload = args[2]
		switch {
		case !ok:
			return fmt.Errorf("no peer %q", args[1])
		case !slices.Contains(workloads, e.workload):
			return fmt.Errorf("no workload %q (have %v)", e.workload, workloads)
		case args[0] == "server":
			return p.serve(e)
		}
		return p.client(e)
	}
	return fmt.Errorf("want server, client, broker or report")
}
