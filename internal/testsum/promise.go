package main

import (
	"regexp"
	"strings"
)

// promises are the lines by which a failure is never excused, and what they are. The word is in each
// such line: looking for it is a hundred times faster than the expression, and there are a million lines.
var promises = []struct {
	word string
	line *regexp.Regexp
	what string
}{
	{"PROMISE", regexp.MustCompile(`\bPROMISE\b`), "a verdict"},
	{"verify: ", regexp.MustCompile(`\bverify: `), "a verdict"},
	{"payload at byte", regexp.MustCompile(`payload at byte`), "a verdict"},
	{"DATA RACE", regexp.MustCompile(`^\s*WARNING: DATA RACE`), "a data race"},
	{"race detected", regexp.MustCompile(`race detected during execution of test`), "a data race"},
	{"test timed out", regexp.MustCompile(`^\s*panic: test timed out`), "a time-out of the test binary"},
	{"LOCKING.md", regexp.MustCompile(`docs/LOCKING\.md does not let`), "the order of locks"},
	{"panic: ", regexp.MustCompile(`^\s*(\S+: |.*\bstatus \d+[:,] )?panic: `), "a panic"},
	{"fatal error: ", regexp.MustCompile(`^\s*(\S+: |.*\bstatus \d+[:,] )?fatal error: `), "a panic"},
	{"[signal SIG", regexp.MustCompile(`^\s*(\S+: )?\[signal SIG`), "a panic"},
	{"goroutine ", regexp.MustCompile(`^\s*goroutine \d+ \[`), "a panic"},
	{"goroutines", regexp.MustCompile(`found unexpected goroutines`), "a leak"},
	{"descriptor", regexp.MustCompile(`\d descriptors? (are|is) left`), "a leak"},
	{"signal: ", regexp.MustCompile(`signal: (aborted|segmentation fault|bus error|illegal instruction|trace/breakpoint trap)`), "the crash of a child process"},
	{"exit status ", regexp.MustCompile(`exit status (2|66)\b`), "the crash of a child process"},
}

// promiseOf tells which promise a line of output breaks, "" if none.
func promiseOf(line string) string {
	for _, p := range promises {
		if strings.Contains(line, p.word) && p.line.MatchString(strings.TrimRight(line, "\n")) {
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
