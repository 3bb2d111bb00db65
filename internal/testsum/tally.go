package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"
)

// counts are those of a run or of several.
type counts struct {
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
}

func (c counts) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", c.Passed, c.Failed, c.Skipped)
}

// outcome is what became of a stage, or of all of them. It is a line of the tally.
type outcome struct {
	Stage string `json:"stage,omitempty"`
	counts
	Flaky []string       `json:"flaky,omitempty"` // tests that failed once and passed twice
	Red   []string       `json:"red,omitempty"`   // tests that failed, and why that counts
	Skips map[string]int `json:"skips,omitempty"` // by reason

	// These are not in the tally.
	failures []failure    // of the first run
	passed   map[key]bool // tests, also those with subtests
	seen     int          // tests and packages that the events tell of
}

func (o *outcome) skip(reason string) {
	if o.Skips == nil {
		o.Skips = make(map[string]int)
	}
	o.Skipped++
	o.Skips[reason]++
}

// note appends the outcome to a tally file.
func (o *outcome) note(tally string) error {
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(tally, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// addUp sums a tally file. Names of tests get that of their stage.
func addUp(r io.Reader) (sum outcome, err error) {
	for d := json.NewDecoder(r); ; {
		var o outcome
		switch err := d.Decode(&o); {
		case err == io.EOF:
			return sum, nil
		case err != nil:
			return sum, fmt.Errorf("tally: %w", err)
		}
		sum.Passed += o.Passed
		sum.Failed += o.Failed
		for reason, n := range o.Skips {
			for range n {
				sum.skip(reason)
			}
		}
		for _, name := range o.Flaky {
			sum.Flaky = append(sum.Flaky, o.Stage+": "+name)
		}
		for _, name := range o.Red {
			sum.Red = append(sum.Red, o.Stage+": "+name)
		}
		if o.Failed > 0 && len(o.Red) == 0 {
			sum.Red = append(sum.Red, o.Stage)
		}
	}
}

// mostFlaky is how many flaky tests a run may have.
const mostFlaky = 3

// report prints the sum but for its counts, and returns why the run fails.
func (o *outcome) report(w io.Writer, known []knownFlake, today time.Time) (reds []string) {
	for _, reason := range slices.Sorted(maps.Keys(o.Skips)) {
		fmt.Fprintf(w, "SKIPPED %d: %s\n", o.Skips[reason], reason)
	}
	for _, name := range o.Flaky {
		note := "not in the list of known ones"
		for _, k := range known {
			if k.names(name) {
				note = "known since " + k.since.Format(time.DateOnly)
			}
		}
		fmt.Fprintf(w, "FLAKY %s (%s)\n", name, note)
	}
	for _, name := range o.Red {
		fmt.Fprintf(w, "RED %s\n", name)
	}
	if o.Failed > 0 {
		reds = append(reds, fmt.Sprintf("%d failed", o.Failed))
	}
	if len(o.Flaky) > mostFlaky {
		reds = append(reds, fmt.Sprintf("%d tests are flaky, more than %d", len(o.Flaky), mostFlaky))
	}
	for _, k := range known {
		since, age := k.since.Format(time.DateOnly), today.Sub(k.since)
		switch {
		case age > mostDays*24*time.Hour:
			reds = append(reds, fmt.Sprintf("%s is known to be flaky since %s, more than %d days", k.test, since, mostDays))
		case age < -24*time.Hour: // the list may be written a day before the commit
			reds = append(reds, fmt.Sprintf("%s is known to be flaky since %s, which is to come", k.test, since))
		}
	}
	return reds
}
