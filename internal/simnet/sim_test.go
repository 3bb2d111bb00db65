package simnet

import (
	"errors"
	"flag"
	"os"
	"testing"

	"github.com/rds-go/rds/internal/invariants"
)

var (
	seedFlag  = flag.Uint64("simnet.seed", 0, "run this one seed")
	traceFlag = flag.Bool("simnet.trace", false, "with simnet.seed: print what happens")
	firstFlag = flag.Uint64("simnet.first", 1, "the first seed of each test")
	seedsFlag = flag.Int("simnet.seeds", 0, "number of seeds of each test; 0: a few seconds' worth")
)

// seeds runs many schedules of one scenario.
func seeds(t *testing.T, n int, sc Scenario) {
	t.Helper()
	t.Parallel()
	switch {
	case raced: // There is one goroutine. The stage simulator runs the seeds, without the race detector.
		n = 4
	case invariants.Enabled:
		n /= 6
	}
	if testing.Short() {
		n /= 2
	}
	if *seedsFlag > 0 {
		n = *seedsFlag
	}
	first, last := *firstFlag, *firstFlag+uint64(n)-1
	cfg := Config{Scenario: sc}
	if *seedFlag > 0 {
		first, last = *seedFlag, *seedFlag
		if *traceFlag {
			cfg.Trace = os.Stdout
		}
	}
	var sum Counts
	bad := 0
	for seed := first; seed <= last; seed++ {
		cfg.Seed = seed
		c, err := Run(cfg)
		sum.add(c)
		var v *Violation
		if errors.As(err, &v) {
			t.Errorf("%v\n\treplay: go test ./internal/simnet -run '%s$' -simnet.seed=%d -simnet.trace", v, t.Name(), seed)
			if bad++; bad == 5 {
				break
			}
		}
	}
	t.Logf("%+v", sum)
	if *seedFlag == 0 && !raced && (sum.Delivered == 0 || !sc.Calm && (sum.Cuts == 0 || sum.Restarts == 0 || sum.Old == 0 || sum.Canceled == 0) || sc.Operations && sum.Operations == 0 || sc.Holds && sum.Held == 0 || sc.Stops != (sum.Stops > 0) || sc.Limits != (sum.Expired > 0) || sc.Refusals != (sum.Refused > 0) || sc.Refusals != (sum.Paused == 0) || sc.Impostors != (sum.Impostors > 0) || sc.Lengths != (sum.TooLong > 0) || sc.Lengths != (sum.Cut > 0)) {
		t.Error("nothing has happened")
	}
}

func (c *Counts) add(o Counts) {
	c.Sent += o.Sent
	c.Delivered += o.Delivered
	c.Canceled += o.Canceled
	c.Dropped += o.Dropped
	c.Refused += o.Refused
	c.Expired += o.Expired
	c.TooLong += o.TooLong
	c.Cut += o.Cut
	c.Dials += o.Dials
	c.Links += o.Links
	c.Cuts += o.Cuts
	c.Restarts += o.Restarts
	c.Stops += o.Stops
	c.Retransmitted += o.Retransmitted
	c.Old += o.Old
	c.Operations += o.Operations
	c.Held += o.Held
	c.Paused += o.Paused
	c.Impostors += o.Impostors
	c.Doubted += o.Doubted
	c.Events += o.Events
	c.Elapsed += o.Elapsed
}

func TestCalm(t *testing.T)       { seeds(t, 200, Scenario{Calm: true}) }
func TestOnePath(t *testing.T)    { seeds(t, 1000, Scenario{Paths: []int{1}}) }
func TestEightPaths(t *testing.T) { seeds(t, 400, Scenario{Paths: []int{8}}) }
func TestMixedPaths(t *testing.T) { seeds(t, 300, Scenario{Paths: []int{1, 8}}) }
func TestAnything(t *testing.T)   { seeds(t, 600, Scenario{}) }
func TestLinux(t *testing.T)      { seeds(t, 400, Scenario{Linux: true}) }
func TestBadPeer(t *testing.T)    { seeds(t, 100, Scenario{Bad: true}) }

// Impostors, whatever they state, do not make the sequences of honest hosts forgotten, and
// no path stands still when they have gone.
func TestImpostors(t *testing.T)           { seeds(t, 400, Scenario{Impostors: true}) }
func TestImpostorsEightPaths(t *testing.T) { seeds(t, 400, Scenario{Impostors: true, Paths: []int{8}}) }

// Operations on the peer's memory, before messages or alone: each is executed at
// most once, comes before its message, and its sender knows what became of it.
func TestOperations(t *testing.T) { seeds(t, 400, Scenario{Operations: true}) }

// Messages for ports that nobody is bound to, on links that are cut at any byte: none of
// them ends with success, and what is refused is not delivered.
func TestRefusals(t *testing.T) { seeds(t, 400, Scenario{Refusals: true}) }

// Hosts that take messages of different lengths, on links that are cut at any byte, and processes that
// come back with another limit: no message that is thrown away ends with success, over TCP neither.
func TestLengths(t *testing.T) {
	seeds(t, 400, Scenario{Lengths: true})
}
func TestLengthsAmongRefusals(t *testing.T) { seeds(t, 400, Scenario{Lengths: true, Refusals: true}) }
func TestLengthsHeld(t *testing.T)          { seeds(t, 200, Scenario{Lengths: true, Holds: true}) }
func TestLengthsOfStops(t *testing.T)       { seeds(t, 200, Scenario{Lengths: true, Stops: true}) }
func TestLengthsOfLinux(t *testing.T)       { seeds(t, 200, Scenario{Lengths: true, Linux: true}) }
func TestLengthsEightPaths(t *testing.T) {
	seeds(t, 200, Scenario{Lengths: true, Paths: []int{8}})
}

func TestLengthsAmongImpostors(t *testing.T) {
	seeds(t, 200, Scenario{Lengths: true, Impostors: true, Paths: []int{8}})
}

// Messages with time limits: what has expired was not written, and what waits has not expired.
func TestLimits(t *testing.T) { seeds(t, 300, Scenario{Limits: true, Holds: true}) }

// Processes that stop in peace and begin again: nothing is lost, and nothing comes twice.
func TestStops(t *testing.T) { seeds(t, 300, Scenario{Calm: true, Stops: true}) }

// The same while links are cut and processes killed: what is given up is told.
func TestStopsAmongFaults(t *testing.T) { seeds(t, 300, Scenario{Stops: true}) }

// Ports of peers that take nothing for a while hold up nobody else, and lose
// nothing.
func TestHolds(t *testing.T)           { seeds(t, 300, Scenario{Holds: true}) }
func TestHoldsOperations(t *testing.T) { seeds(t, 200, Scenario{Holds: true, Operations: true}) }
