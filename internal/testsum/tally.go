package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// counts is the outcome of one run or of several.
type counts struct{ passed, failed, skipped int }

func (c counts) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", c.passed, c.failed, c.skipped)
}

// addUp sums a tally file: lines of a stage's name and its three counts.
func addUp(r io.Reader) (sum counts, err error) {
	sc := bufio.NewScanner(r)
	for n := 1; sc.Scan(); n++ {
		if strings.TrimSpace(sc.Text()) == "" {
			continue
		}
		var stage string
		var c counts
		if _, err := fmt.Sscan(sc.Text(), &stage, &c.passed, &c.failed, &c.skipped); err != nil {
			return sum, fmt.Errorf("tally line %d: %w", n, err)
		}
		sum.passed += c.passed
		sum.failed += c.failed
		sum.skipped += c.skipped
	}
	return sum, sc.Err()
}
