//go:build !live

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// events are those of a run of one test.
func events(action, output string) []byte {
	return fmt.Appendf(nil, "{\"Action\":\"output\",\"Package\":\"p\",\"Test\":\"TestA\",\"Output\":%q}\n{\"Action\":%q,\"Package\":\"p\",\"Test\":\"TestA\"}\n", output, action)
}

func TestFailedTestsRunAgain(t *testing.T) {
	t.Parallel()
	const late = "    a_test.go:5: not in time: the answer\n"
	pass, fail := events("pass", ""), events("fail", late)
	for _, c := range []struct {
		name  string
		first []byte
		later [][]byte // what is left over was not to be run
		left  int
		want  outcome
	}{
		{"passes twice", fail, [][]byte{pass, pass}, 0, outcome{counts: counts{Passed: 1}, Flaky: []string{"p.TestA"}}},
		{"fails again", fail, [][]byte{fail, pass}, 1, outcome{counts: counts{Failed: 1}, Red: []string{"p.TestA: failed again"}}},
		{"fails the second time", fail, [][]byte{pass, fail}, 0, outcome{counts: counts{Failed: 1}, Red: []string{"p.TestA: failed again"}}},
		{"does not run again", fail, [][]byte{pass, nil}, 0, outcome{counts: counts{Failed: 1}, Red: []string{"p.TestA: did not run again"}}},
		{"skips", fail, [][]byte{events("skip", "    a_test.go:5: no kernel\n"), pass}, 1, outcome{counts: counts{Failed: 1}, Red: []string{"p.TestA: did not run again"}}},
		{"loses a message", events("fail", "    a_test.go:5: PROMISE: message 6 instead of 5\n"), [][]byte{pass, pass}, 2,
			outcome{counts: counts{Failed: 1}, Red: []string{"PROMISE p.TestA: a verdict"}}},
		{"loses a message the second time", fail, [][]byte{pass, events("fail", "    a_test.go:5: PROMISE: message 6 instead of 5\n")}, 0,
			outcome{counts: counts{Failed: 1}, Red: []string{"PROMISE p.TestA, when it ran again: a verdict"}}},
		{"panics", []byte(`{"Action":"output","Package":"p","Test":"TestA","Output":"panic: no\n"}` + "\n"), [][]byte{pass, pass}, 2,
			outcome{counts: counts{Failed: 1}, Red: []string{"PROMISE p.TestA: a panic"}}},
		{"says nothing of time", events("fail", "    a_test.go:5: counter is 3, not 2\n"), [][]byte{pass, pass}, 2,
			outcome{counts: counts{Failed: 1}, Red: []string{"p.TestA: not run again, for it does not say that something was late"}}},
		{"runs as the parent alone", fail, [][]byte{[]byte(`{"Action":"pass","Package":"p","Test":"TestB"}` + "\n"), pass}, 1,
			outcome{counts: counts{Failed: 1}, Red: []string{"p.TestA: did not run again"}}},
		{"verdict of the parent", append([]byte(`{"Action":"output","Package":"p","Test":"TestP","Output":"PROMISE: one is lost\n"}`+"\n"+
			`{"Action":"output","Package":"p","Test":"TestP/TestA","Output":"not in time\n"}`+"\n"+
			`{"Action":"fail","Package":"p","Test":"TestP/TestA"}`+"\n"), `{"Action":"fail","Package":"p","Test":"TestP"}`...), [][]byte{pass, pass}, 1,
			outcome{counts: counts{Failed: 2}, Red: []string{"PROMISE p.TestP: a verdict", "p.TestP/TestA: did not run again"}}},
		{"a child panics in a test that passes", append([]byte(`{"Action":"output","Package":"p","Test":"TestB","Output":"panic: no\n"}`+"\n"+
			`{"Action":"pass","Package":"p","Test":"TestB"}`+"\n"), fail...), [][]byte{pass, pass}, 2,
			outcome{counts: counts{Passed: 1, Failed: 1}, Red: []string{"PROMISE p.TestA: a panic in its package"}}},
		{"a race beside the tests", append([]byte(`{"Action":"output","Package":"p","Output":"WARNING: DATA RACE\n"}`+"\n"+
			`{"Action":"output","Package":"p","Output":"==========\n"}`+"\n"), pass...), [][]byte{pass, pass}, 2,
			outcome{counts: counts{Passed: 1, Failed: 1}, Red: []string{"PROMISE p: a data race"}}},
		{"a package without an end", []byte(`{"Action":"start","Package":"p"}` + "\n" + string(pass)), [][]byte{pass, pass}, 2,
			outcome{counts: counts{Passed: 1, Failed: 1}, Red: []string{"PROMISE p: a package without a result"}}},
		{"has no result", []byte(`{"Action":"run","Package":"p","Test":"TestA"}` + "\n"), [][]byte{pass, pass}, 2,
			outcome{counts: counts{Failed: 1}, Red: []string{"PROMISE p.TestA: a test without a result"}}},
		{"leaks", append(slices.Clone(pass), `{"Action":"fail","Package":"p"}`+"\n"...), [][]byte{pass, pass}, 2,
			outcome{counts: counts{Passed: 1, Failed: 1}, Red: []string{"PROMISE p: a package that fails beside its tests"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			o, err := summarize(strings.NewReader(string(c.first)), &out)
			if err != nil {
				t.Fatal(err)
			}
			left := c.later
			o.again(&out, func(pkg, test string) []byte {
				if pkg != "p" || test != "TestA" && test != "TestP/TestA" {
					t.Errorf("runs %s of %s", test, pkg)
				}
				next := left[0]
				left = left[1:]
				return next
			})
			if o.counts != c.want.counts || !slices.Equal(o.Flaky, c.want.Flaky) || !slices.Equal(o.Red, c.want.Red) || len(left) != c.left {
				t.Errorf("%+v, %d runs left, want %+v, %d; printed:\n%s", o, len(left), c.want, c.left, &out)
			}
			if len(c.want.Flaky) > 0 && !strings.Contains(out.String(), "not in time: the answer") {
				t.Errorf("the failure of a flaky test is not shown:\n%s", &out)
			}
		})
	}
}

// A run with many failures is not prolonged: it fails anyway.
func TestFewTestsRunAgain(t *testing.T) {
	t.Parallel()
	var in strings.Builder
	for i := range mostAgain + 5 {
		fmt.Fprintf(&in, `{"Action":"output","Package":"p","Test":"Test%[1]d","Output":"not in time\n"}`+"\n"+`{"Action":"fail","Package":"p","Test":"Test%[1]d"}`+"\n", i)
	}
	var out strings.Builder
	o, err := summarize(strings.NewReader(in.String()), &out)
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	o.again(&out, func(_, test string) []byte {
		runs++
		return []byte(`{"Action":"pass","Package":"p","Test":"` + test + `"}` + "\n")
	})
	if runs != 2*mostAgain || len(o.Flaky) != mostAgain || o.Failed != 5 {
		t.Errorf("%d runs, %d flaky, %d failed", runs, len(o.Flaky), o.Failed)
	}
}

func TestExactlyOneTestRuns(t *testing.T) {
	t.Parallel()
	if got, want := exactly("TestA/x.y/z(1)"), `^TestA$/^x\.y$/^z\(1\)$`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestPromises(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"    a_test.go:5: PROMISE: message 6 twice\n":                               "a verdict",
		"    a_test.go:5: rdsbench: verify: message 5 of client socket 3 is lost\n": "a verdict",
		"WARNING: DATA RACE\n": "a data race",
		"    testing.go:1712: race detected during execution of test\n":          "a data race",
		"panic: test timed out after 10m0s\n":                                    "a time-out of the test binary",
		"panic: docs/LOCKING.md does not let a goroutine take x while\n":         "the order of locks",
		"panic: runtime error: index out of range [recovered]\n":                 "a panic",
		"    a_test.go:9: panic: of a child that a log quotes\n":                 "a panic",
		"fatal error: concurrent map writes\n":                                   "a panic",
		"[signal SIGSEGV: segmentation violation]\n":                             "a panic",
		"goleak: Errors: found unexpected goroutines:\n":                         "a leak",
		"    a_test.go:5: 2 descriptors are left\n":                              "a leak",
		"    a_test.go:5: rdsd ended: signal: segmentation fault\n":              "the crash of a child process",
		"    a_test.go:5: rdsd ended by itself: exit status 2: panic: no\n":      "a panic",
		"goroutine 7 [running]:\n":                                               "a panic",
		"    a_test.go:5: rdsd ended: exit status 66\n":                          "the crash of a child process",
		"    a_test.go:5: no descriptor is left for it, not in time\n":           "",
		"    a_test.go:5: rdsd ended: signal: killed\n":                          "",
		"    a_test.go:5: not in time: the node does not panic: it waits\n":      "",
		"    a_test.go:5: context deadline exceeded, no promise is broken by it": "",
	} {
		var res result
		if res.add(line); res.promise != want {
			t.Errorf("%q: %q, want %q", line, res.promise, want)
		}
	}
}

func TestWaits(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"    a_test.go:5: not in time: the answer\n":                   true,
		"    a_test.go:5: receive: context deadline exceeded\n":        true,
		"    a_test.go:5: rdsd still runs\n":                           true,
		"    a_test.go:5: 3 of 5 after 10s\n":                          true,
		"    a_test.go:5: a round trip took 1.5ms, at most 1ms\n":      true,
		"    a_test.go:5: counter is 3, not 2\n":                       false,
		"    a_test.go:5: invalid argument\n":                          false,
		"    --- FAIL: TestA (10.00s)\n":                               false,
		"    a_test.go:5: the distillery is closed\n":                  false,
		"    a_test.go:5: after message 7 came message 9, size 12 s\n": false,
	} {
		if got := waiting(line); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}

// A run that ended otherwise than its tests is a failure.
func TestExitStatusCounts(t *testing.T) {
	t.Parallel()
	for exit, want := range map[int]bool{0: true, 1: false} {
		err := judge(strings.NewReader(string(events("pass", ""))), new(strings.Builder), "live", "", exit, []string{"false"})
		if (err == nil) != want {
			t.Errorf("exit status %d: %v", exit, err)
		}
	}
}
