package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rds-go/rds/internal/cli"
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

The processes of each side are attached to the rdsd of their host. On one machine two
rdsds are two hosts, such as 127.0.0.1 and 127.0.0.2; --socket says which is whose.`

// Bounds of a host and of a process.
const (
	maxXsrqQueues  = 256
	maxXsrqSenders = 128
	maxXsrqMemory  = 1 << 20 // octets of all messages of a process
)

// xsrqOptions are the flags that both sides have.
type xsrqOptions struct {
	socket  string
	queues  int
	service uint64
	size    cli.Number
	timeout cli.Interval
	json    bool
}

func (o *xsrqOptions) flags(f *pflag.FlagSet, size string, sizeDefault int) {
	o.timeout, o.size = cli.Interval(10*time.Second), cli.Number(sizeDefault)
	f.SortFlags = false
	f.StringVar(&o.socket, "socket", "", "`path` of the rdsd's socket; else the host's")
	f.IntVarP(&o.queues, "queues", "n", 4, "shared receive queues")
	f.Uint64Var(&o.service, "service", 1, "id of the first queue's service; the others follow")
	f.VarP(&o.size, "size", "S", size)
	f.VarP(&o.timeout, "timeout", "W", "how long to wait for the peer in each step")
	f.BoolVar(&o.json, "json", false, "print JSON, one object per line")
}

// check checks the options of a side whose processes have room for so many messages.
func (o *xsrqOptions) check(messages int) error {
	switch {
	case o.queues < 1 || o.queues > maxXsrqQueues:
		return cli.Usagef("%d queues are not in 1..%d", o.queues, maxXsrqQueues)
	case o.size < xsrqHeaderLen || o.size > maxPing:
		return cli.Usagef("size %d is not in %d..%d", o.size, xsrqHeaderLen, maxPing)
	case messages*int(o.size) > maxXsrqMemory:
		return cli.Usagef("%d messages of %d bytes in a process are more than %d bytes", messages, o.size, maxXsrqMemory)
	case o.service > answerServices-maxXsrqQueues:
		return cli.Usagef("service ids end at %d", uint64(answerServices-1))
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

// xsrqSide is a command with a process for each queue, or for each sender.
type xsrqSide struct {
	kind     string // queue or sender
	out      *printer
	children []*child
}

// start starts n processes, which share a domain, and returns what they say first.
func (x *xsrqSide) start(ctx context.Context, n int, domain *os.File, job func(i int) xsrqJob) ([]xsrqReport, error) {
	for i := range n {
		c, err := startChild(ctx, job(i), domain)
		if err != nil {
			return nil, err
		}
		x.children = append(x.children, c)
	}
	return x.hear()
}

// hear returns what the processes say next. The error is the first.
func (x *xsrqSide) hear() ([]xsrqReport, error) {
	reports, errs := make([]xsrqReport, len(x.children)), make([]error, len(x.children))
	var wg sync.WaitGroup
	for i, c := range x.children {
		wg.Go(func() {
			for again := true; again; {
				r, err := c.hear()
				if err != nil {
					r.Error = err.Error()
				}
				if again = r.Goes && err == nil; !again {
					reports[i] = r
				}
				if r.Error != "" {
					errs[i] = fmt.Errorf("%s %d: %s", x.kind, i, r.Error)
					x.out.print(lineOf("error", map[string]any{"index": i, "error": r.Error}, "%v", errs[i]))
				}
				if again {
					errs[i] = nil
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return reports, err
		}
	}
	return reports, nil
}

func (x *xsrqSide) close() {
	for _, c := range x.children {
		_ = c.end()
	}
}

// domainFile makes a file whose domain processes share as long as they have it open. The caller closes it.
func domainFile() (*os.File, error) {
	f, err := os.CreateTemp("", "rdsverbs-xsrq-")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

// xsrqLine is a line of output.
type xsrqLine struct {
	text   string
	fields map[string]any
}

func lineOf(kind string, fields map[string]any, text string, args ...any) xsrqLine {
	fields["type"] = kind
	return xsrqLine{fmt.Sprintf(text, args...), fields}
}

func (l xsrqLine) String() string               { return l.text }
func (l xsrqLine) MarshalJSON() ([]byte, error) { return json.Marshal(l.fields) }
