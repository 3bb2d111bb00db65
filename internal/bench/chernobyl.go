package bench

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/rds-go/rds/rds"
)

// Bounds of a Chernobyl work.
const (
	maxWorkers  = 4000    // with the rogue, this many workers fit the queues of one peer
	maxWritten  = 1 << 20 // bytes of a Write
	maxPlaces   = 1 << 29 // bytes of memory written to
	places      = 4       // places in each worker's memory, written to in turn
	messageSize = 16      // number of the worker, number of the operation
	thirds      = 3       // the times before, with and after the rogue
)

// Thirds is what a Chernobyl run is about: the workers before, while and after
// one of them uses bad keys. With several rounds the rates are medians.
type Thirds struct {
	Rates      [thirds]float64 `json:"rates"`      // operations of the others, per second
	Rounds     []float64       `json:"rounds"`     // for each round: the others' rate beside the rogue, divided by their rate before and after it
	Errors     uint64          `json:"errors"`     // operations of the others that failed
	Refused    uint64          `json:"refused"`    // requests of the rogue
	Unanswered uint64          `json:"unanswered"` // messages that came, and whose sender does not know
	Cut        uint64          `json:"cut"`        // connections that ended, of sockets
	Series     []Sample        `json:"series"`
}

// Sample is a piece of a time series: rates between the end of the one before
// and At.
type Sample struct {
	At      float64 `json:"at"`      // seconds
	Others  float64 `json:"others"`  // operations per second
	Refused float64 `json:"refused"` // requests per second
}

// newThirds makes one of the others' rates without the rogue, with it, without it, and so on.
// A round is compared with the times beside it only: what else the machine does changes.
func newThirds(rates []float64) *Thirds {
	t := &Thirds{}
	var of [thirds][]float64
	for i := 1; i < len(rates); i += 2 {
		for k := range of {
			of[k] = append(of[k], rates[i-1+k])
		}
		kept := 0.0
		if without := (rates[i-1] + rates[i+1]) / 2; without > 0 {
			kept = rates[i] / without
		}
		t.Rounds = append(t.Rounds, kept)
	}
	for k := range of {
		t.Rates[k] = median(of[k])
	}
	return t
}

// kept is the others' rate beside the rogue, as a part of that without it: the median of
// the rounds.
func (t *Thirds) kept() float64 { return median(t.Rounds) }

// middle is the run of which as many kept more as kept less.
func middle(runs []Result) *Thirds {
	var all []*Thirds
	for i := range runs {
		if t := runs[i].Thirds; t != nil {
			all = append(all, t)
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b *Thirds) int {
		switch d := a.kept() - b.kept(); {
		case d < 0:
			return -1
		case d > 0:
			return 1
		}
		return 0
	})
	return all[len(all)/2]
}

// validateChernobyl checks what is of this mode alone.
func (o *Options) validateChernobyl(check func(ok bool, format string, args ...any)) {
	check(o.Workers >= 1 && o.Workers <= maxWorkers, "--workers is 1 to %d, not %d", maxWorkers, o.Workers)
	check(!o.RDS || o.wire() != rds.WireTCP, "--sockets needs nodes that speak XRC")
	for _, n := range o.Sizes {
		check(!o.RDS || n*places <= rds.MaxMessage, "--size is at most %s with --sockets, not %d", FormatSize(rds.MaxMessage/places), n)
		check(n >= 1 && n <= maxWritten && n*o.Workers*places <= maxPlaces, "--size is 1 to 1m, with %d workers at most %s, not %d",
			o.Workers, FormatSize(maxPlaces/places/max(o.Workers, 1)), n)
	}
}

// checkChernobyl refuses works that a server would take too much memory for.
func (w *Work) checkChernobyl() bool {
	return w.Workers >= 1 && w.Workers <= maxWorkers && w.Size >= 1 && w.Size <= maxWritten && w.Size*w.Workers*places <= maxPlaces &&
		(w.Verbs || w.Size*places <= rds.MaxMessage)
}

// fitsChernobyl tells whether a server without sockets, or with, does the work over t.
func (w *Work) fitsChernobyl(t Transport, none bool) bool {
	if w.Verbs {
		return none && (t == IWARP || t == Plain) && w.checkChernobyl()
	}
	return !none && t == RDS && w.checkChernobyl()
}

// chernobylSentence says what became of both connections.
func (row *Row) chernobylSentence() string {
	t := row.RDS.Thirds
	if t == nil {
		return ""
	}
	rates := func(t *Thirds) string {
		return fmt.Sprintf("%s/s before, %s/s beside the rogue, %s/s after", count(t.Rates[0]), count(t.Rates[1]), count(t.Rates[2]))
	}
	rounds := ""
	if n := len(t.Rounds); n > 1 {
		rounds = fmt.Sprintf("; median of %d rounds, %.3f to %.3f", n, slices.Min(t.Rounds), slices.Max(t.Rounds))
	}
	s := fmt.Sprintf("%s: %s (x %.3f, %+.1f %%%s); %d errors of the others, %d requests of the rogue refused; %d connection, %d cut, nothing lost, doubled or changed",
		row.Title, rates(t), t.kept(), 100*(t.kept()-1), rounds, t.Errors, t.Refused, row.RDS.TCPConns, t.Cut)
	if row.Plain != nil && row.Plain.Thirds != nil {
		p := row.Plain.Thirds
		s += fmt.Sprintf(". On a plain connection: %s; %d errors of the others, %d messages of unknown fate", rates(p), p.Errors, p.Unanswered)
	}
	return s
}

// placeSeed begins the pattern that a worker writes in its n-th operation.
func placeSeed(worker int, n uint64) uint64 {
	return (uint64(worker)<<40 ^ n*0xd1342543de82ef95) | 1<<63 // never 0, from which next would not move
}

func putMessage(b []byte, worker int, n uint64) {
	binary.LittleEndian.PutUint64(b, uint64(worker))
	binary.LittleEndian.PutUint64(b[8:], n)
}

func parseMessage(b []byte) (worker, n uint64, err error) {
	if len(b) != messageSize {
		return 0, 0, fmt.Errorf("a message of %d bytes, not %d", len(b), messageSize)
	}
	return binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), nil
}
