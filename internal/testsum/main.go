package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	stage := flag.String("stage", "test", "name of this run in the tally, one word")
	tally := flag.String("tally", "", "file the counts are appended to")
	total := flag.String("total", "", "add up this tally file and print the sum")
	verbose := flag.Bool("v", false, "print all output")
	flag.Parse()
	if err := run(*stage, *tally, *total, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
		os.Exit(1)
	}
}

func run(stage, tally, total string, verbose bool) error {
	if total != "" {
		f, err := os.Open(total)
		if err != nil {
			return err
		}
		defer f.Close()
		c, err := addUp(f)
		if err != nil {
			return err
		}
		fmt.Println(c)
		return nil
	}
	c, err := summarize(os.Stdin, os.Stdout, verbose)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s\n", stage, c)
	if tally != "" {
		f, err := os.OpenFile(tally, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(f, stage, c.passed, c.failed, c.skipped)
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
	}
	if c.failed > 0 {
		return fmt.Errorf("%s: %d failed", stage, c.failed)
	}
	return nil
}
