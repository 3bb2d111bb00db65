package simnet

import (
	"container/heap"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/rds-go/rds/internal/buf"
)

// Sim is one run.
type Sim struct {
	cfg    Config
	rng    *rand.Rand
	now    time.Duration // time since the start
	events eventHeap
	order  uint64
	pool   buf.Pool
	check  checker

	hosts   []*host
	links   []*tcp        // links that may still carry something
	calm    bool          // faults are over
	calmAt  time.Duration // when the faults were over
	halved  bool          // half of the ports are held, and the checker looks whether the rest goes on
	tired   []func()      // senders that wait for the end of halved
	lastTCP int
	fibers  fibers
	counts  Counts
}

// Config is what a run is made from.
type Config struct {
	Seed uint64
	// Scenario narrows what is drawn at random; its zero value draws all.
	Scenario Scenario
	// Trace receives a line for everything that happens; nil means none.
	Trace io.Writer
	// Sabotage breaks the rules on purpose, to prove that the checks see it.
	Sabotage Sabotage
}

// Counts is what happened in a run, so that tests can tell that it was not
// nothing.
type Counts struct {
	Sent, Delivered, Canceled, Dropped int
	Refused, Expired                   int
	TooLong, Cut                       int // messages that were refused for their length, and that were thrown away on arrival
	Dials, Links, Cuts, Restarts       int
	Stops                              int
	Retransmitted, Old                 int
	Operations, Held, Paused           int
	Impostors, Doubted                 int // links of impostors, and messages that waited for the generation of their peer
	Events                             int
	Elapsed                            time.Duration // virtual time
}

// Violation is a broken promise.
type Violation struct {
	Seed   uint64
	Broken []string
}

func (v *Violation) Error() string {
	return fmt.Sprintf("seed %d: %d broken:\n\t%s", v.Seed, len(v.Broken), strings.Join(v.Broken, "\n\t"))
}

type event struct {
	at    time.Duration
	order uint64
	fn    func()
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].order < h[j].order
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = event{}
	*h = old[:len(old)-1]
	return e
}

// maxEvents is more than any run needs.
const maxEvents = 3_000_000

// start is the wall clock of virtual time 0.
var start = time.Unix(1_700_000_000, 0)

func (s *Sim) clock() time.Time { return start.Add(s.now) }

// after calls fn in d.
func (s *Sim) after(d time.Duration, fn func()) {
	s.order++
	heap.Push(&s.events, event{s.now + d, s.order, fn})
}

// step runs the next event, unless there is none before until.
func (s *Sim) step(until time.Duration) bool {
	if len(s.events) == 0 || s.events[0].at > until {
		return false
	}
	e := heap.Pop(&s.events).(event)
	s.now = e.at
	if s.counts.Events++; s.counts.Events == maxEvents {
		s.check.failf("%d events: something turns in circles", maxEvents)
		s.events = nil
	}
	s.fibers.run(e.fn)
	return true
}

func (s *Sim) tracef(format string, args ...any) {
	if s.cfg.Trace != nil {
		fmt.Fprintf(s.cfg.Trace, "%12.6f  %s\n", s.now.Seconds(), fmt.Sprintf(format, args...))
	}
}

// upTo is a random duration below d.
func (s *Sim) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(s.rng.Int64N(int64(d)))
}

// chance is true with probability p.
func (s *Sim) chance(p float64) bool { return s.rng.Float64() < p }

func pick[T any](s *Sim, xs []T) T { return xs[s.rng.IntN(len(xs))] }
