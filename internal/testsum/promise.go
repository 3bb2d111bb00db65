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
	{regexp.MustCompile(`^\s*(\S+: |.*\bstatus \d+[:,] )?(panic: |fatal error: |\[signal SIG)|^\s*goroutine \d+ \[`), "a panic"},
	{regexp.MustCompile(`found unexpected goroutines|\d descriptors? (are|is) left`), "a leak"},
	{regexp.MustCompile(`signal: (aborted|segmentation fault|bus error|illegal instruction|trace/breakpoint trap)|exit status (2|66)\b`), "the crash of a child process"},
}

// promiseOf tells which promise a line of output breaks, "" if none.
func promiseOf(line string) string {
	for _, p := range promises {
		if p.line.MatchString(strings.TrimRight(line, "\n")) {
			return p.what
		}
	}
	return ""
}

// waits matches the lines by which a test says that something did not happen in time.
var waits = regexp.MustCompile(`(?i)not in time|deadline exceeded|time-?out|timed out|\bstill\b|` +
	`\b(after|within|for|in|took) \d[\d.]*(ns|us|µs|ms|s|m)\b|\b(does|did) not (answer|start|end|come)|no answer|too (slow|late|long)`)

// waiting tells whether a line says so; the result of a test has its duration in any case.
func waiting(line string) bool {
	return !strings.HasPrefix(strings.TrimSpace(line), "--- ") && waits.MatchString(line)
}
