package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// event is a line of go test -json (go doc test2json).
type event struct {
	Action      string
	Package     string
	ImportPath  string // build-output and build-fail: the import path
	Test        string
	Output      string
	FailedBuild string // why a package failed: the ImportPath of a build-fail
}

// maxOutput is how much output of one test is kept; the middle of more is lost.
const maxOutput = 256 << 10

type key struct{ pkg, test string }

// result is what is known of one test, or of a package where test is "".
type result struct {
	ran      bool   // the name is that of a test, not only the part of a name before a slash
	action   string // pass, fail, skip; "" while it runs
	output   []string
	size     int
	children bool // the test has subtests
	failures bool // the test's failure is counted elsewhere: with a subtest, a test of the package, a build

	promise string // what its output breaks

	races  []string // reports of the race detector, kept with the package
	racing bool     // the next line of the package belongs to races
}

func (r *result) add(s string) {
	if r.promise == "" {
		r.promise = promiseOf(s)
	}
	if r.size += len(s); r.size > maxOutput && len(r.output) > 100 {
		r.output = slices.Delete(r.output, 50, 51)
	}
	r.output = append(r.output, s)
}

// summarize reads events until r ends and writes failures and skips to w.
// Lines that are no events are passed on: they are the go command's own words.
func summarize(r io.Reader, w io.Writer) (outcome, error) {
	results := map[key]*result{}
	var order []key
	get := func(k key) *result {
		if results[k] == nil {
			results[k] = &result{}
			order = append(order, k)
		}
		return results[k]
	}
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
				fmt.Fprint(w, line)
			} else {
				take(get, e)
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return outcome{}, err
		}
	}
	return report(w, order, results), nil
}

func take(get func(key) *result, e event) {
	switch e.Action {
	case "build-output":
		get(key{e.ImportPath, ""}).add(e.Output)
		return
	case "build-fail":
		get(key{e.ImportPath, ""}).action = "fail"
		return
	}
	if e.Package == "" {
		return
	}
	res := get(key{e.Package, e.Test})
	res.ran = true
	switch e.Action {
	case "output":
		if !get(key{e.Package, ""}).race(e.Output) {
			res.add(e.Output)
		}
	case "pass", "skip", "fail":
		res.action = e.Action
		res.failures = res.failures || e.FailedBuild != ""
	}
	for k := (key{e.Package, e.Test}); k.test != ""; {
		k = k.parent()
		get(k).children = true
	}
}

// race takes a line that the race detector prints, and tells whether it was one. Go gives such
// lines to whichever test of the package printed last, and fails all that run.
func (r *result) race(line string) bool {
	r.racing = r.racing || strings.HasPrefix(line, "WARNING: DATA RACE")
	if !r.racing {
		return false
	}
	if r.racing = !strings.HasPrefix(line, "==="); r.racing {
		r.races = append(r.races, line)
	}
	return true
}

// failed tells whether a test failed, or has no result.
func (r *result) failed(k key) bool {
	return k.test != "" && r.ran && (r.action == "fail" || r.action == "")
}

// parent is the test a subtest belongs to, for others the package.
func (k key) parent() key {
	return key{k.pkg, k.test[:max(0, strings.LastIndexByte(k.test, '/'))]}
}

// failure is a failed test, or a package that failed beside its tests.
type failure struct {
	key
	promise string // the promise that it breaks, "" if none
	waits   bool   // something did not happen in time
}

// failureOf is the failure of k, or of the package that k belongs to. panics has the packages in
// which something has panicked: Go gives the output of a child process to whichever test of
// the package printed last.
func failureOf(k key, res *result, panics map[string]bool) failure {
	f := failure{k, res.promise, slices.ContainsFunc(res.output, waiting)}
	switch {
	case f.promise != "":
	case k.test == "" && len(res.races) > 0:
		f.promise = "a data race"
	case k.test == "" && res.action == "":
		f.promise = "a package without a result"
	case k.test == "":
		f.promise = "a package that fails beside its tests"
	case res.action == "":
		f.promise = "a test without a result"
	case panics[k.pkg]:
		f.promise = "a panic in its package"
	}
	return f
}

func report(w io.Writer, order []key, results map[key]*result) (o outcome) {
	panics, raced := map[string]bool{}, map[string]bool{}
	for _, k := range order {
		// A test without a result hung or died with its process.
		res := results[k]
		if res.failed(k) {
			for p := k; p.test != ""; {
				p = p.parent()
				results[p].failures = true
			}
			raced[k.pkg] = raced[k.pkg] || res.promise == "a data race"
		}
		panics[k.pkg] = panics[k.pkg] || res.promise == "a panic"
	}
	o.seen, o.passed = len(order), map[key]bool{}
	for _, k := range order {
		res := results[k]
		for _, line := range res.races {
			fmt.Fprint(w, "    ", line)
		}
		failed := res.failed(k) || res.action == "fail" || k.test == "" && res.ran && res.action == ""
		// What a parent says beside its subtests, a package beside its tests, and the race
		// detector beside all, is a failure of its own if it breaks a promise.
		beside := failed && res.failures && res.promise != "" && res.promise != "a data race" || len(res.races) > 0 && !raced[k.pkg]
		switch {
		case failed && !res.failures || beside:
			f := failureOf(k, res, panics)
			o.Failed++
			o.failures = append(o.failures, f)
			show(w, k, res, f.promise)
			if f.promise != "" {
				o.Red = append(o.Red, "PROMISE "+k.name()+": "+f.promise)
			} else {
				o.Red = append(o.Red, k.name())
			}
		case failed && k.test != "":
			show(w, k, res, "") // shows what a parent says beside its subtests
		case k.test == "":
		case res.action == "pass":
			o.passed[k] = true
			if !res.children {
				o.Passed++
			}
		case res.children:
		case res.action == "skip":
			o.skip(reason(res.output))
			fmt.Fprintf(w, "SKIP %s: %s\n", k.name(), reason(res.output))
		}
	}
	return o
}

func (k key) name() string {
	if k.test == "" {
		return k.pkg
	}
	return k.pkg + "." + k.test
}

func show(w io.Writer, k key, res *result, promise string) {
	state := "FAIL"
	if res.action == "" {
		state = "FAIL (no result)"
	}
	if promise != "" {
		state = "PROMISE " + state
		promise = ": " + promise
	}
	fmt.Fprintf(w, "%s %s%s\n", state, k.name(), promise)
	for _, line := range res.output {
		if !noise(line) {
			fmt.Fprint(w, "    ", line)
		}
	}
}

// noise are the lines by which the test binary marks its progress.
func noise(line string) bool {
	return strings.HasPrefix(line, "===")
}

// reason is what a skipped test said last, without the place it said it.
func reason(output []string) string {
	for _, line := range slices.Backward(output) {
		line = strings.TrimSpace(line)
		if line == "" || noise(line) || strings.HasPrefix(line, "--- SKIP") {
			continue
		}
		if place, text, ok := strings.Cut(line, ": "); ok && strings.Contains(place, ".go:") {
			return text
		}
		return line
	}
	return "no reason given"
}
