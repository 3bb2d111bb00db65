package main

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// round is a part of what senders do, and what came of it.
type round struct {
	kind        xsrqKind
	first, last int    // the queues of the round: from first up to but not including last
	count       uint64 // pings that each sender has with each of the queues
	// endless: it plays with those before first, too, as long as the round takes.
	endless bool

	tallies []tally // one for each queue below last
	took    time.Duration
}

func newRound(kind xsrqKind, first, last int, count uint64) *round {
	r := &round{kind: kind, first: first, last: last, count: count, tallies: make([]tally, last)}
	for i := range r.tallies {
		r.tallies[i].times = newTimes()
	}
	return r
}

// newTimes is for round trips of up to a minute, in nanoseconds.
func newTimes() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, time.Minute.Nanoseconds(), 2)
}

// tally is of the pings of all senders to one queue.
type tally struct {
	mu    sync.Mutex
	times *hdrhistogram.Histogram // guarded by mu
}

func (t *tally) add(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = t.times.RecordValue(min(max(d.Nanoseconds(), 1), time.Minute.Nanoseconds()))
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
}

func (l playedLine) String() string {
	s := fmt.Sprintf("queue %d: %v", l.Index, l.figures)
	if l.After != nil {
		s += fmt.Sprintf("; then %v", l.After)
	}
	if l.Stopped {
		s += fmt.Sprintf("; stopped, %d unanswered", l.Unanswered)
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
func (c *xsrqClient) report(before, after *round, err error) {
	stats := c.h.ChannelStats()
	end := playedEnd{Type: "end", Queues: c.o.queues, Senders: c.o.senders, Size: int(c.o.size), TCP: stats.Links, Dials: stats.Connected,
		RC: c.o.senders * c.o.queues,
		// Theirs go one way: one for each sender and domain, one back for each queue.
		XRC: c.opened + c.o.queues}
	all, others := newTimes(), newTimes()
	for i, q := range c.queues {
		t := before.tallies[i].times
		all.Merge(t)
		l := playedLine{Type: "played", Index: i, Service: c.o.service + uint64(i), Number: q.SRQN, figures: figuresOf(t, before.took)}
		if after != nil {
			t = after.tallies[i].times
			f := figuresOf(t, after.took)
			l.After = &f
			if l.Stopped = i < after.first; l.Stopped {
				l.Unanswered = c.unanswered(i)
			} else {
				others.Merge(t)
			}
		}
		c.out.print(l)
	}
	end.figures = figuresOf(all, before.took)
	if after != nil {
		f := figuresOf(others, after.took)
		end.After = &f
	}
	if err != nil {
		end.Error = err.Error()
	}
	c.out.print(end)
}

// unanswered is how many senders wait for a queue.
func (c *xsrqClient) unanswered(queue int) int {
	n := 0
	for _, s := range c.senders {
		if s.games[queue].unanswered {
			n++
		}
	}
	return n
}
