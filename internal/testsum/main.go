package main

import (
	"errors"
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
	exit := flag.Int("exit", 0, "exit status of the run: one that is not 0 without a failed test is a failure")
	known := flag.String("known", "", "with -total: file of tests that are known to be flaky")
	today := flag.String("today", "", "with -known: date of the commit, such as 2026-11-27")
	flag.Parse()
	var err error
	if *total != "" {
		err = sumUp(os.Stdout, *total, *known, *today)
	} else {
		err = judge(os.Stdin, os.Stdout, *stage, *tally, *exit, strings.Fields(*again))
	}
	if err != nil && err != errFailed {
		fmt.Fprintln(os.Stderr, "testsum:", err)
	}
	if err != nil {
		os.Exit(1)
	}
}

// errFailed is a failure that is printed already, before the counts, which are the last line.
var errFailed = errors.New("failed")

// judge reads the events of a stage, runs tests that failed again, if it may, and notes the outcome.
func judge(events io.Reader, w io.Writer, stage, tally string, exit int, command []string) error {
	o, err := summarize(events, w)
	if err != nil {
		return err
	}
	o.Stage = stage
	if o.seen == 0 {
		return fmt.Errorf("%s: no package was tested", stage) // a run that tested nothing is no success
	}
	if exit != 0 && o.Failed == 0 {
		o.Failed++
		o.failures = append(o.failures, failure{key{pkg: stage}, fmt.Sprintf("exit status %d, and no test has failed", exit), false})
		o.Red = append(o.Red, "PROMISE "+stage+": "+o.failures[0].promise)
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
	if len(reds) > 0 {
		fmt.Fprintln(w, "failed:", strings.Join(reds, "; "))
		err = errFailed
	}
	fmt.Fprintln(w, sum.counts)
	return err
}
