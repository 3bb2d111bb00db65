package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/rds"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc"
	"github.com/rds-go/rds/xrc/objects"
)

// xsrqJob is what a process is to do. It is the first value on its standard input, and the domain's file is its
// descriptor 3. At the end of its standard input it ends.
type xsrqJob struct {
	Socket   string // of the rdsd
	Index    int
	Queues   int           // sender: number of queues of the server; 0: the process has a queue of the server
	Count    uint64        // sender: pings to each queue
	Stop     int           // sender: queues that it need not wait for; sender 0 stops them
	Service  uint64        // service of the queue; of a sender: that of the server's first queue
	Receives int           // receives posted
	Size     int           // size of each receive
	Local    netip.Addr    // sender: address of this side
	Remote   netip.Addr    // sender: address of the server
	Answers  uint64        // sender: service by which answers come
	Timeout  time.Duration // bounds each wait for the peer
}

// xsrqReport is what a process says.
type xsrqReport struct {
	Error  string         `json:",omitempty"` // what went wrong
	Goes   bool           `json:",omitempty"` // the process goes on after Error
	Queues []uint32       `json:",omitempty"` // numbers of the process's queue, or of those that a sender has found
	Games  []gameReport   `json:",omitempty"` // sender, at its end: one for each queue
	Served *messageCounts `json:",omitempty"` // queue, at its end
}

// child is a process that was started.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

// startChild starts a process, which has said nothing yet. It ends with ctx.
func startChild(ctx context.Context, job xsrqJob, domain *os.File) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(self, "xsrq", "process")}
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out, c.cmd.Stderr, c.cmd.ExtraFiles = json.NewDecoder(out), os.Stderr, []*os.File{domain}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	_ = json.NewEncoder(c.in).Encode(job) // if the process has ended, hear says so
	context.AfterFunc(ctx, func() { _ = c.in.Close() })
	return c, nil
}

// hear returns what the process says next, or how it has ended.
func (c *child) hear() (r xsrqReport, err error) {
	if c.out.Decode(&r) != nil {
		err = fmt.Errorf("its process has ended: %v", c.end())
	}
	return r, err
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
		in, out, domain := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout), os.NewFile(3, "domain")
		var job xsrqJob
		if err := in.Decode(&job); err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			_ = in.Decode(&struct{}{}) // the end
			cancel()
		}()
		run := runQueue
		if job.Queues > 0 {
			run = runSender
		}
		if err := run(ctx, &job, domain, out); err != nil {
			_ = out.Encode(xsrqReport{Error: err.Error()})
		}
		return nil
	}}
}

// process is what a process has of XRC to send and to receive. All ends with the process.
type process struct {
	*xrc.Session
	*xsrqJob
	pd  *xrc.PD
	cq  *xrc.CQ
	dom *xrc.Domain
	srq *xrc.SRQ
	mem *xrc.Region // slots for messages

	done  chan []iwarp.Completion // closed when the daemon has ended
	ended chan uint32             // numbers of initiators that have ended
}

// newProcess attaches to the daemon and posts the receives, of the first slots for messages. Up to sends requests may be
// outstanding.
func newProcess(ctx context.Context, job *xsrqJob, domain *os.File, slots, sends int) (*process, error) {
	c, err := rds.Dial(job.Socket)
	if err != nil {
		return nil, err
	}
	p := &process{xsrqJob: job, done: make(chan []iwarp.Completion), ended: make(chan uint32)}
	if p.Session, err = c.XRC(ctx); err != nil {
		return nil, err
	}
	if p.dom, err = p.OpenDomain(domain, os.O_CREATE); err != nil {
		return nil, err
	}
	if p.pd, err = p.AllocPD(); err != nil {
		return nil, err
	}
	if p.cq, err = p.CreateCQ(job.Receives + sends); err != nil {
		return nil, err
	}
	if p.srq, err = p.CreateSRQ(xrc.SRQAttr{Domain: p.dom, PD: p.pd, CQ: p.cq, MaxWR: job.Receives}); err != nil {
		return nil, err
	}
	if p.mem, err = p.pd.Alloc(slots*job.Size, mr.LocalWrite); err != nil {
		return nil, err
	}
	for i := range job.Receives {
		if err := p.post(i); err != nil {
			return nil, err
		}
	}
	go p.poll(ctx)
	go p.hear(ctx)
	return p, nil
}

// poll passes on the completions.
func (p *process) poll(ctx context.Context) {
	defer close(p.done)
	for p.cq.Wait(ctx) == nil {
		list := make([]iwarp.Completion, 64)
		select {
		case p.done <- list[:p.cq.Poll(list)]:
		case <-ctx.Done():
		}
	}
}

// hear passes on which initiators have ended.
func (p *process) hear(ctx context.Context) {
	for {
		e, err := p.NextEvent(ctx)
		if err != nil {
			return
		}
		_ = p.Ack(e)
		fatal := e.Kind == objects.EventQPFatal || e.Kind == objects.EventQPRequest || e.Kind == objects.EventQPAccess || e.Kind == objects.EventDeviceFatal
		if e.Object.Kind != objects.KindInitiator || !fatal {
			continue
		}
		select {
		case p.ended <- e.Object.Number:
		case <-ctx.Done():
		}
	}
}

// post posts the receive that a slot is for.
func (p *process) post(slot int) error {
	_, err := p.srq.PostReceive(iwarp.ReceiveRequest{ID: uint64(slot), SGE: p.sge(slot, p.Size)})
	return err
}

// slot is memory for a message.
func (p *process) slot(i int) []byte { return p.mem.Bytes()[i*p.Size:][:p.Size] }

func (p *process) sge(slot, n int) []iwarp.SGE { return []iwarp.SGE{p.mem.SGE(slot*p.Size, n)} }

// step bounds one wait for the peer.
func (p *process) step(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, p.Timeout, errTimeout)
}

// xsrqHeader begins every message of xsrq, big-endian. The answer is the same message with another kind.
type xsrqHeader struct {
	Mark    [4]byte
	Kind    xsrqKind
	Service uint64   // service by which the domain of the answer's queue is found
	Answer  uint32   // number of that queue
	Queue   uint32   // which queue of the server, from 0
	Number  uint64   // which message of the sender to that queue
	Host    [16]byte // address of the sender's host
}

const (
	xsrqHeaderLen = 48

	// answerServices is where the ids of services for answers begin.
	answerServices = 1 << 63
)

var xsrqMark = [4]byte([]byte("XSRQ"))

// xsrqKind is what a message wants.
type xsrqKind uint32

const (
	kindPing   xsrqKind = 1
	kindStop   xsrqKind = 2 // a ping, after which the queue posts no more receives as long as the sender's host has its service
	kindAnswer xsrqKind = 3
)

// put writes the header to the beginning of b.
func (h xsrqHeader) put(b []byte) {
	h.Mark = xsrqMark
	_, _ = binary.Encode(b, binary.BigEndian, &h)
}

// parseXsrq reads the header of a message, false if it has none.
func parseXsrq(b []byte) (h xsrqHeader, ok bool) {
	_, err := binary.Decode(b, binary.BigEndian, &h)
	return h, err == nil && h.Mark == xsrqMark
}

// makeAnswer makes the answer of a message, in place.
func makeAnswer(b []byte) { binary.BigEndian.PutUint32(b[4:], uint32(kindAnswer)) }

// answers tells whether b is the answer to the message sent.
func answers(b, sent []byte) bool {
	h, ok := parseXsrq(b)
	return ok && h.Kind == kindAnswer && len(b) == len(sent) && bytes.Equal(b[8:], sent[8:])
}
