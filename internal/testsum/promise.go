package main

import (
	"regexp"
	"strings"
)

// promises are the lines by which a failure is never excused, and what they are.
var promises = []struct {
	line *regexp.Regexp
	what string
}{
	{regexp.MustCompile(`\bPROMISE\b|\bverify: |payload at byte`), "a verdict"},
	{regexp.MustCompile(`^\s*WARNING: DATA RACE|race detected during execution of test`), "a data race"},
	{regexp.MustCompile(`^\s*panic: test timed out`), "a time-out of the test binary"},
	{regexp.MustCompile(`docs/LOCKING\.md does not let`), "the order of locks"},
	{regexp.MustCompile(`^\s*(\S+: )?(panic: |fatal error: |\[signal SIG)`), "a panic"},
	{regexp.MustCompile(`found unexpected goroutines|descriptors? (are|is) left`), "a leak"},
	{regexp.MustCompile(`signal: (aborted|segmentation fault|bus error|illegal instruction|trace/breakpoint trap)`), "the crash of a child process"},
}

// promise tells which promise a failure breaks, "" if none.
func (f failure) promise() string {
	for _, line := range f.output {
		for _, p := range promises {
			if p.line.MatchString(strings.TrimRight(line, "\n")) {
				return p.what
			}
		}
	}
	switch {
	case f.test == "":
		return "a package that fails beside its tests"
	case f.lost:
		return "a test without a result"
	}
	return ""
}
