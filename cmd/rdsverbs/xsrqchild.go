package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/xrc/objects"
)

// xsrqJob is what a process is to do. It is the first value on its standard input, and the domain's file is its
// descriptor 3, if it shares one. At the end of its standard input it ends.
type xsrqJob struct {
	Socket   string // of the daemon
	Shared   bool   // descriptor 3 is the domain's file
	Index    int
	Sends    int           // number of queues of the server that a sender plays with; 0: the process has a queue of the server
	Service  uint64        // service of the queue; of a sender: that of the server's first queue
	Receives int           // receives posted
	Size     int           // size of each receive
	Local    netip.Addr    // address of this side
	Remote   netip.Addr    // sender: address of the server
	Answers  uint64        // sender: service by which answers come
	Timeout  time.Duration // bounds each wait for the peer
}

// xsrqOrder is what a sender is told: first the server's queues, then rounds.
type xsrqOrder struct {
	Queues []objects.Answer `json:",omitempty"`
	Round  *xsrqRound       `json:",omitempty"`
}

// xsrqReport is what a process says.
type xsrqReport struct {
	Error      string         `json:",omitempty"` // what went wrong
	Number     uint32         `json:",omitempty"` // of the process's shared receive queue
	Initiators int            `json:",omitempty"` // sender: that it has
	Times      [][]byte       `json:",omitempty"` // sender, after a round: histograms, one for each queue
	Errors     map[int]string `json:",omitempty"` // sender, after a round: by queues that failed
	Unanswered []int          `json:",omitempty"` // sender, after a round: queues whose answer is due
	Served     *servedLine    `json:",omitempty"` // queue, at its end
}

// child is a process that was started.
type child struct {
	index int
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *json.Decoder
	err   bytes.Buffer
}

// startChild starts a process, which has said nothing yet.
func startChild(job xsrqJob, domain *os.File) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{index: job.Index, cmd: exec.Command(self, "xsrq", "process")}
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out, c.cmd.Stderr = json.NewDecoder(out), &c.err
	if job.Shared = domain != nil; job.Shared {
		c.cmd.ExtraFiles = []*os.File{domain}
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	c.tell(job)
	return c, nil
}

// tell tells the process something. If it has ended, hear says so.
func (c *child) tell(v any) { _ = json.NewEncoder(c.in).Encode(v) }

// hear returns what the process says next, or how it has ended.
func (c *child) hear() (r xsrqReport, err error) {
	if err := c.out.Decode(&r); err == nil {
		return r, nil
	}
	err = c.end()
	if text := strings.TrimSpace(c.err.String()); text != "" {
		err = fmt.Errorf("%s", text)
	}
	return r, fmt.Errorf("its process has ended: %v", err)
}

// end has the process end, and waits for that. What it says meanwhile has to be heard first.
func (c *child) end() error {
	_ = c.in.Close()
	return c.cmd.Wait()
}

// xsrqProcessCommand is what a process of xsrq runs.
func xsrqProcessCommand() *cobra.Command {
	return &cobra.Command{Use: "process", Hidden: true, Args: cli.Args(cobra.NoArgs), RunE: func(*cobra.Command, []string) error {
		signal.Ignore(os.Interrupt, syscall.SIGTERM) // they are for the command, which ends its processes
		return runXsrqProcess(os.Stdin, json.NewEncoder(os.Stdout))
	}}
}

func runXsrqProcess(in io.Reader, out *json.Encoder) error {
	from := json.NewDecoder(in)
	var job xsrqJob
	if err := from.Decode(&job); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	orders := make(chan xsrqOrder)
	go func() {
		defer cancel()
		for {
			var o xsrqOrder
			if from.Decode(&o) != nil {
				return
			}
			select {
			case orders <- o:
			case <-ctx.Done():
				return
			}
		}
	}()
	if job.Sends > 0 {
		return runSender(ctx, &job, orders, out)
	}
	return runQueue(ctx, &job, out)
}
