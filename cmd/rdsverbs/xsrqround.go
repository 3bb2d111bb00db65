package main

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// xsrqRound is a part of what senders do, and what came of it.
type xsrqRound struct {
	Kind        xsrqKind
	First, Last int    // the queues of the round: from First up to but not including Last
	Count       uint64 // pings that each sender has with each of the queues
	// Endless: it plays with those before First, too, as long as the round takes.
	Endless bool

	times      []*hdrhistogram.Histogram // one for each queue below Last
	unanswered []int                     // number of senders that wait, for each queue below Last
	errs       map[int]string            // by queues that failed
	took       time.Duration
}

// newTimes is for round trips of up to a minute, in nanoseconds.
func newTimes() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, time.Minute.Nanoseconds(), 2)
}

func newTimesOf(queues int) []*hdrhistogram.Histogram {
	list := make([]*hdrhistogram.Histogram, queues)
	for i := range list {
		list[i] = newTimes()
	}
	return list
}

// play has senders play a round, all at once. What fails does not end it for the others.
func (c *xsrqClient) play(ctx context.Context, r *xsrqRound, senders []*child) error {
	begin := time.Now()
	for _, s := range senders {
		s.tell(xsrqOrder{Round: r})
	}
	reports, err := all(ctx, senders)
	r.took = time.Since(begin)
	r.times, r.unanswered, r.errs = newTimesOf(r.Last), make([]int, r.Last), make(map[int]string)
	for _, p := range reports {
		for i, b := range p.Times {
			if h, err := hdrhistogram.Decode(b); err == nil {
				r.times[i].Merge(h)
			}
		}
		for _, i := range p.Unanswered {
			r.unanswered[i]++
		}
		maps.Copy(r.errs, p.Errors)
	}
	return err
}

// figures are those of a queue, or of all, in one round or in both.
type figures struct {
	Pings int64   `json:"pings"`
	Rate  float64 `json:"pings_per_s"`
	P50   float64 `json:"p50_us"`
	P99   float64 `json:"p99_us"`
}

func figuresOf(h *hdrhistogram.Histogram, took time.Duration) figures {
	us := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1e3 }
	return figures{Pings: h.TotalCount(), Rate: float64(h.TotalCount()) / max(took.Seconds(), 1e-9), P50: us(50), P99: us(99)}
}

func (f figures) String() string {
	return fmt.Sprintf("%d pings, %.0f/s, p50 %.0f us, p99 %.0f us", f.Pings, f.Rate, f.P50, f.P99)
}

// playedLine tells of a queue that was played with.
type playedLine struct {
	Type    string `json:"type"` // played
	Index   int    `json:"index"`
	Service uint64 `json:"service"`
	Number  uint32 `json:"number"`
	figures
	// The others are there if queues were stopped: after that, and whether this one
	// was, and then how many pings have no answer.
	After      *figures `json:"after,omitempty"`
	Stopped    bool     `json:"stopped,omitzero"`
	Unanswered int      `json:"unanswered,omitzero"`
	Error      string   `json:"error,omitzero"`
}

func (l playedLine) String() string {
	s := fmt.Sprintf("queue %d: %v", l.Index, l.figures)
	if l.After != nil {
		s += fmt.Sprintf("; then %v", l.After)
	}
	if l.Stopped {
		s += fmt.Sprintf("; stopped, %d unanswered", l.Unanswered)
	}
	if l.Error != "" {
		s += ", then " + l.Error
	}
	return s
}

// playedEnd is the last line.
type playedEnd struct {
	Type    string `json:"type"` // end
	Queues  int    `json:"queues"`
	Senders int    `json:"senders"`
	Size    int    `json:"size"`
	figures
	After *figures `json:"after,omitempty"` // queues were stopped: of those that were not
	Error string   `json:"error,omitzero"`
	// TCP is how many connections there are now, Dials how often one was tried. RC
	// and XRC are how many it takes with cards.
	TCP   int    `json:"tcp_connections"`
	Dials uint64 `json:"dials"`
	RC    int    `json:"rc_connections"`
	XRC   int    `json:"xrc_connections"`
}

func (e playedEnd) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d senders with %d queues, %d bytes: %v", e.Senders, e.Queues, e.Size, e.figures)
	if e.After != nil {
		fmt.Fprintf(&b, "\nthose not stopped, then: %v", e.After)
	}
	fmt.Fprintf(&b, "\nconnections: %d TCP; RC takes %d, XRC on cards %d", e.TCP, e.RC, e.XRC)
	if e.Error != "" {
		fmt.Fprintf(&b, "\nthen %s", e.Error)
	}
	return b.String()
}

// report prints what came of one round, or of two with queues stopped between.
func (c *xsrqClient) report(before, after *xsrqRound, err error) {
	links, dials := c.d.connections(c.client, c.remote)
	end := playedEnd{Type: "end", Queues: c.o.queues, Senders: c.o.senders, Size: int(c.o.size), TCP: links, Dials: dials,
		RC: c.o.senders * c.o.queues,
		// Theirs go one way: one for each sender and domain, one back for each queue.
		XRC: c.opened + c.o.queues}
	stopped := after != nil && after.times != nil
	all, others := newTimes(), newTimes()
	for i, q := range c.queues {
		all.Merge(before.times[i])
		l := playedLine{Type: "played", Index: i, Service: c.o.service + uint64(i), Number: q.SRQN, figures: figuresOf(before.times[i], before.took), Error: before.errs[i]}
		if stopped {
			f := figuresOf(after.times[i], after.took)
			l.After = &f
			if l.Error == "" {
				l.Error = after.errs[i]
			}
			if l.Stopped = i < after.First; l.Stopped {
				l.Unanswered = after.unanswered[i]
			} else {
				others.Merge(after.times[i])
			}
		}
		c.out.print(l)
	}
	end.figures = figuresOf(all, before.took)
	if stopped {
		f := figuresOf(others, after.took)
		end.After = &f
	}
	if err != nil {
		end.Error = err.Error()
	}
	c.out.print(end)
}
