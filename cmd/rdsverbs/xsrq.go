package main

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/transport/xrc"
)

const xsrqLong = `xsrq does what ibv_xsrq_pingpong does, without a card that can XRC: processes
receive by shared receive queues of their own, and all share the one connection
between two hosts.

serve starts a process for each queue, which advertises it under a service id and
answers each message to the queue that the sender names in the message. ping
starts a process for each sender, which plays ping-pong with all queues at once.
Its last lines say how many connections that took, and how many it takes with
queue pairs for each two processes (RC) and with cards that can XRC. A process that
is killed costs the others nothing.

The processes of each side are attached to a daemon: the rdsd of --socket, or one
within the command. Each side is a host of its own: on one machine they need two
addresses, such as 127.0.0.1 and 127.0.0.2.`

// defaultXsrqPort leaves the port of RDS on XRC to an rdsd on the same addresses.
const defaultXsrqPort = xrc.DefaultPort + 1

// Bounds of a host.
const (
	maxXsrqQueues  = 256
	maxXsrqSenders = 128
)

// xsrqOptions are the flags that both sides have.
type xsrqOptions struct {
	socket  string
	port    uint16
	queues  int
	service uint64
	size    cli.Number
	crc     onOff
	timeout cli.Interval
	json    bool
}

func (o *xsrqOptions) flags(f *pflag.FlagSet, size string, sizeDefault int) {
	o.crc, o.timeout, o.size = true, cli.Interval(10*time.Second), cli.Number(sizeDefault)
	f.StringVar(&o.socket, "socket", "", "`path` of the rdsd to use; else the command has a daemon of its own")
	f.Uint16VarP(&o.port, "port", "p", defaultXsrqPort, "TCP port of a daemon of its own, the same on both sides")
	f.IntVarP(&o.queues, "queues", "n", 4, "shared receive queues")
	f.Uint64Var(&o.service, "service", 1, "id of the first queue's service; the others follow")
	f.VarP(&o.size, "size", "S", size)
	f.Var(&o.crc, "crc", "on asks for CRCs, off does without if the peer does too")
	f.VarP(&o.timeout, "timeout", "W", "how long to wait for the peer in each step")
	f.BoolVar(&o.json, "json", false, "print JSON, one object per line")
}

func (o *xsrqOptions) check() error {
	switch {
	case o.queues < 1 || o.queues > maxXsrqQueues:
		return cli.Usagef("%d queues are not in 1..%d", o.queues, maxXsrqQueues)
	case o.size < xsrqHeaderLen || o.size > maxPing:
		return cli.Usagef("size %d is not in %d..%d", o.size, xsrqHeaderLen, maxPing)
	case o.service > answerServices-maxXsrqQueues:
		return cli.Usagef("service ids end at %d", uint64(answerServices-1))
	case o.port == 0:
		return cli.Usagef("which --port? Both sides have the same")
	case o.timeout <= 0:
		return cli.Usagef("--timeout is not positive")
	}
	return nil
}

func xsrqCommand() *cobra.Command {
	cmd := group(&cobra.Command{Use: "xsrq", Short: "Ping-pong with shared receive queues over one connection", Long: xsrqLong})
	cmd.AddCommand(xsrqServeCommand(), xsrqPingCommand(), xsrqProcessCommand())
	return cmd
}
