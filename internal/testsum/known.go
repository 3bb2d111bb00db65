package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// mostDays is how long a test may be known to be flaky.
const mostDays = 14

// knownFlake is a line of the list of flaky tests: "import path.Test | 2026-11-27 | cause, as far as
// known | what is being done".
type knownFlake struct {
	test  string
	since time.Time
}

// names tells whether a test of the tally is this one, or a subtest of it.
func (k knownFlake) names(test string) bool {
	_, test, _ = strings.Cut(test, ": ")
	return test == k.test || strings.HasPrefix(test, k.test+"/")
}

// readKnown reads a list. Empty lines and lines that begin with # are comments.
func readKnown(file string) (list []knownFlake, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for i, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		part := strings.Split(line, "|")
		for i := range part {
			if part[i] = strings.TrimSpace(part[i]); part[i] == "" {
				part = nil
				break
			}
		}
		if len(part) != 4 {
			return nil, fmt.Errorf("%s:%d: want test | date | cause | what is being done", file, i+1)
		}
		since, err := time.Parse(time.DateOnly, part[1])
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
		}
		list = append(list, knownFlake{part[0], since})
	}
	return list, nil
}
