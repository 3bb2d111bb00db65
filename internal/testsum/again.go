package main

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
)

// mostAgain is how many failed tests are run again: with more of them the run has failed anyway.
const mostAgain = 10

// runner runs one test alone and returns its events.
type runner func(pkg, test string) []byte

// goTest runs tests by a go test command.
func goTest(command []string) runner {
	return func(pkg, test string) []byte {
		cmd := exec.Command(command[0], append(command[1:len(command):len(command)], "-json", "-count=1", "-run", exactly(test), pkg)...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		_ = cmd.Run() // a failure is in the events
		return out.Bytes()
	}
}

// exactly is the argument of -run that chooses one test.
func exactly(test string) string {
	parts := strings.Split(test, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// again runs each test alone, twice, that failed because something did not happen in time, unless its
// failure breaks a promise. A test that passes both times is flaky.
func (o *outcome) again(w io.Writer, run runner) {
	o.Red = nil
	for i, f := range o.failures {
		why := ""
		switch {
		case f.promise != "":
			why = "PROMISE " + f.name() + ": " + f.promise
		case !f.waits:
			why = f.name() + ": not run again, for it does not say that something was late"
		case i >= mostAgain:
			why = f.name() + ": not run again, for there are too many"
		default:
			why = f.twice(w, run)
		}
		if why != "" {
			o.Red = append(o.Red, why)
			continue
		}
		fmt.Fprintf(w, "FLAKY %s: failed once and passed twice\n", f.name())
		o.Flaky = append(o.Flaky, f.name())
		o.Failed--
		o.Passed++
	}
}

// twice runs a failed test two times and says why it stays failed, "" if it passed both times.
func (f failure) twice(w io.Writer, run runner) string {
	for range 2 {
		fmt.Fprintf(w, "AGAIN %s\n", f.name())
		var report strings.Builder
		o, err := summarize(bytes.NewReader(run(f.pkg, f.test)), &report)
		switch {
		case err != nil:
			return f.name() + ": " + err.Error()
		case o.Failed > 0:
			io.WriteString(w, report.String())
			for _, g := range o.failures {
				if g.promise != "" {
					return "PROMISE " + g.name() + ", when it ran again: " + g.promise
				}
			}
			return f.name() + ": failed again"
		case !o.passed[f.key]:
			io.WriteString(w, report.String())
			return f.name() + ": did not run again"
		}
	}
	return ""
}
