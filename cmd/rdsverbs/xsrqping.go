package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/spf13/cobra"

	"github.com/rds-go/rds/internal/cli"
	"github.com/rds-go/rds/rds"
	"github.com/rds-go/rds/xrc"
)

// xsrqPing is the side that pings.
type xsrqPing struct {
	xsrqOptions
	xsrqSide
	connect string
	source  string
	senders int
	count   cli.Number
	stop    int

	client        *rds.Client
	local, remote netip.Addr
	numbers       []uint32 // of the server's queues
}

func xsrqPingCommand() *cobra.Command {
	var p xsrqPing
	cmd := &cobra.Command{
		Use: "ping -a ADDRESS", Short: "The side with the senders",
		Example: `  rdsverbs xsrq ping -a 10.0.0.2 -n 8 -m 8           eight senders, each with all eight queues
  rdsverbs xsrq ping -a 10.0.0.2 -n 8 -m 8 --stop 2  and two queues stop halfway`,
		Args: cli.Args(cobra.NoArgs),
		RunE: runner(func(ctx context.Context, _ []string) error { return p.run(ctx) }),
	}
	f := cmd.Flags()
	f.StringVarP(&p.connect, "connect", "a", "", "`address` of the server")
	f.StringVarP(&p.source, "source", "I", "", "local `address`, one of the rdsd's; else that of the route")
	p.flags(f, "size of a ping", 64)
	f.IntVarP(&p.senders, "senders", "m", 4, "processes that send")
	p.count = 1000
	f.VarP(&p.count, "count", "C", "pings of each sender to each queue")
	f.IntVar(&p.stop, "stop", 0, "halfway have this many queues post no more receives; the others have to go on")
	return cmd
}

func (p *xsrqPing) check() error {
	switch {
	case p.connect == "":
		return cli.Usagef("whose --connect address?")
	case p.senders < 1 || p.senders > maxXsrqSenders:
		return cli.Usagef("%d senders are not in 1..%d", p.senders, maxXsrqSenders)
	case p.stop < 0 || p.stop > 0 && p.stop >= p.queues:
		return cli.Usagef("--stop %d leaves none of %d queues", p.stop, p.queues)
	case p.count < 1 || p.stop > 0 && p.count < 2:
		return cli.Usagef("--count %d is too few", p.count)
	}
	return p.xsrqOptions.check(2 * p.queues)
}

// find finds the addresses of both sides.
func (p *xsrqPing) find(ctx context.Context) (err error) {
	if p.remote, err = lookUp(ctx, p.connect); err != nil {
		return err
	}
	if p.source != "" {
		p.local, err = lookUpLocal(ctx, p.source)
	} else if c, e := net.Dial("udp", netip.AddrPortFrom(p.remote, 9).String()); e != nil { // sends nothing
		err = e
	} else {
		p.local = c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
		_ = c.Close()
	}
	if err == nil && p.local == p.remote {
		err = cli.Usagef("the server is this host: it needs another address, or --source one")
	}
	return err
}

func (p *xsrqPing) run(ctx context.Context) error {
	if err := p.check(); err != nil {
		return err
	}
	if err := p.find(ctx); err != nil {
		return err
	}
	p.kind, p.out = "sender", &printer{w: os.Stdout, json: p.json}
	defer p.close()
	err := p.begin(ctx)
	if err == nil {
		err = p.end()
	}
	if ctx.Err() != nil {
		err = errInterrupted
	}
	return err
}

// begin starts the senders, which connect.
func (p *xsrqPing) begin(ctx context.Context) (err error) {
	if p.client, err = rds.Dial(p.socket); err != nil {
		return cli.WithStatus(cli.StatusUsage, err)
	}
	session, err := p.client.XRC(ctx)
	if err != nil {
		return err
	}
	domain, err := domainFile()
	if err != nil {
		return err
	}
	defer domain.Close()
	dom, err := session.OpenDomain(domain, os.O_CREATE)
	if err != nil {
		return err
	}
	// The service for answers ends with this process. Answers to another client must not come here.
	answers := answerServices | rand.Uint64()
	if _, err := session.Advertise(xrc.ServiceAttr{ID: answers, Domain: dom}); err != nil {
		return err
	}
	reports, err := p.start(ctx, p.senders, domain, func(i int) xsrqJob {
		return xsrqJob{Socket: p.socket, Index: i, Queues: p.queues, Count: uint64(p.count), Stop: p.stop, Service: p.service, Receives: p.queues,
			Size: int(p.size), Local: p.local, Remote: p.remote, Answers: answers, Timeout: time.Duration(p.timeout)}
	})
	if err == nil {
		p.numbers = reports[0].Queues
		p.out.print(lineOf("connected", map[string]any{"local": p.local, "remote": p.remote, "queues": p.queues, "initiators": p.senders},
			"connected %v to %v: %d queues, %d initiators", p.local, p.remote, p.queues, p.senders))
	}
	return err
}

// newTimes is for round trips of up to a minute, in nanoseconds.
func newTimes() *hdrhistogram.Histogram { return hdrhistogram.New(1, time.Minute.Nanoseconds(), 2) }

// figuresOf adds figures to those of a line, and returns their text.
func figuresOf(h *hdrhistogram.Histogram, took time.Duration, fields map[string]any) string {
	us := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1e3 }
	n, rate, p50, p99 := h.TotalCount(), float64(h.TotalCount())/max(took.Seconds(), 1e-9), us(50), us(99)
	fields["pings"], fields["pings_per_s"], fields["p50_us"], fields["p99_us"] = n, rate, p50, p99
	return fmt.Sprintf("%d pings, %.0f/s, p50 %.0f us, p99 %.0f us", n, rate, p50, p99)
}

// end waits for the senders, and prints what came of their games.
func (p *xsrqPing) end() error {
	begin := time.Now()
	reports, err := p.hear()
	took, total := time.Since(begin), newTimes()
	for i, number := range p.numbers {
		times, unanswered, problem := newTimes(), 0, ""
		for _, r := range reports {
			if i >= len(r.Games) { // the sender's process has ended
				continue
			}
			g := &r.Games[i]
			if h, err := hdrhistogram.Decode(g.Times); err == nil {
				times.Merge(h)
			}
			if g.Unanswered {
				unanswered++
			}
			problem = cmp.Or(problem, g.Error)
		}
		total.Merge(times)
		f := map[string]any{"index": i, "service": p.service + uint64(i), "number": number}
		text := fmt.Sprintf("queue %d: %s", i, figuresOf(times, took, f))
		if i < p.stop {
			f["stopped"], f["unanswered"] = true, unanswered
			text += fmt.Sprintf("; stopped, %d unanswered", unanswered)
		}
		if problem != "" {
			f["error"] = problem
			text += ", then " + problem
		}
		p.out.print(lineOf("played", f, "%s", text))
	}
	info, _ := p.client.Info()
	tcp := 0
	for _, l := range info.XRC {
		if l.Remote.Addr() == p.remote {
			tcp++
		}
	}
	rc, cards := p.senders*p.queues, p.senders+p.queues // the latter go one way: one for each sender, and back one for each queue
	f := map[string]any{"queues": p.queues, "senders": p.senders, "size": int(p.size), "tcp_connections": tcp, "rc_connections": rc, "xrc_connections": cards}
	text := fmt.Sprintf("%d senders with %d queues, %d bytes: %s\nconnections: %d TCP; RC takes %d, XRC on cards %d",
		p.senders, p.queues, p.size, figuresOf(total, took, f), tcp, rc, cards)
	if err != nil {
		f["error"] = err.Error()
		text += "\nthen " + err.Error()
	}
	p.out.print(lineOf("end", f, "%s", text))
	return err
}
