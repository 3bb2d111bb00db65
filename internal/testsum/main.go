package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

func main() {
	stage := flag.String("stage", "test", "name of this run in the tally, one word")
	tally := flag.String("tally", "", "file the outcome is appended to")
	again := flag.String("again", "", "command that runs a failed test again, with -json, -run and a package behind it")
	total := flag.String("total", "", "add up this tally file and print the sum")
	known := flag.String("known", "", "with -total: file of tests that are known to be flaky")
	today := flag.String("today", "", "with -known: date of the commit, such as 2026-11-27")
	flag.Parse()
	var err error
	if *total != "" {
		err = sumUp(os.Stdout, *total, *known, *today)
	} else {
		err = judge(os.Stdin, os.Stdout, *stage, *tally, strings.Fields(*again))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
		os.Exit(1)
	}
}

// judge reads the events of a stage, runs tests that failed again, if it may, and notes the outcome.
func judge(events io.Reader, w io.Writer, stage, tally string, command []string) error {
	o, err := summarize(events, w)
	if err != nil {
		return err
	}
	o.Stage = stage
	if o.seen == 0 {
		return fmt.Errorf("%s: no package was tested", stage) // Nothing that failed is no success.
	}
	if len(command) > 0 {
		o.again(w, goTest(command))
	}
	fmt.Fprintf(w, "%s: %s\n", stage, o.counts)
	if tally != "" {
		if err := o.note(tally); err != nil {
			return err
		}
	}
	if o.Failed > 0 {
		return fmt.Errorf("%s: %d failed", stage, o.Failed)
	}
	return nil
}

// sumUp prints what the stages have noted.
func sumUp(w io.Writer, tally, known, today string) error {
	f, err := os.Open(tally)
	if err != nil {
		return err
	}
	defer f.Close()
	sum, err := addUp(f)
	if err != nil {
		return err
	}
	var list []knownFlake
	day := time.Now()
	if known != "" {
		if list, err = readKnown(known); err != nil {
			return err
		}
		if day, err = time.Parse(time.DateOnly, today); err != nil {
			return fmt.Errorf("-today: %w", err)
		}
	}
	reds := sum.report(w, list, day)
	fmt.Fprintln(w, sum.counts)
	if len(reds) > 0 {
		return fmt.Errorf("%s", strings.Join(reds, "; "))
	}
	return nil
}
