//go:build !live

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTally(t *testing.T) {
	t.Parallel()
	sum := sumOf(t,
		outcome{Stage: "vet", counts: counts{Failed: 1}},
		outcome{Stage: "pure", counts: counts{10, 1, 2}, Red: []string{"PROMISE p.TestA: a verdict"}, Skips: map[string]int{"no kernel": 2}},
		outcome{Stage: "live", counts: counts{5, 0, 1}, Flaky: []string{"q.TestB/sub"}, Skips: map[string]int{"no kernel": 1}})
	if got := sum.String(); got != "15 passed, 2 failed, 3 skipped" {
		t.Error(got)
	}
	var out strings.Builder
	reds := sum.report(&out, []knownFlake{{"q.TestB", time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)}}, time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC))
	want := "SKIPPED 3: no kernel\nFLAKY live: q.TestB/sub (known since 2026-11-27)\nRED vet\nRED pure: PROMISE p.TestA: a verdict\n"
	if out.String() != want || !slices.Equal(reds, []string{"2 failed"}) {
		t.Errorf("%q\n%s", reds, &out)
	}
	for _, bad := range []string{"vet 0 1 0", `{"passed":"x"}`, `{"passed":1`} {
		if _, err := addUp(strings.NewReader(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestFewTestsMayBeFlaky(t *testing.T) {
	t.Parallel()
	for n := range 6 {
		sum := sumOf(t, outcome{Stage: "live", Flaky: make([]string, n)})
		if reds := sum.report(new(strings.Builder), nil, time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)); (len(reds) > 0) != (n > 3) {
			t.Errorf("%d flaky tests: %q", n, reds)
		}
	}
}

func TestKnownFlakesAreMended(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "flaky.txt")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# comment\n\nq.TestB | 2026-11-27 | waits for a timer | moves to virtual time\n")
	list, err := readKnown(file)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	for day, red := range map[string]bool{"2026-11-27": false, "2026-12-11": false, "2026-12-12": true} {
		today, _ := time.Parse(time.DateOnly, day)
		var o outcome
		if reds := o.report(new(strings.Builder), list, today); (len(reds) > 0) != red {
			t.Errorf("on %s: %q", day, reds)
		}
	}
	for _, bad := range []string{"q.TestB", "q.TestB | 2026-11-27 | cause", "q.TestB | yesterday | cause | work", "q.TestB | 2026-11-27 | | work"} {
		write(bad)
		if _, err := readKnown(file); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// A run that says nothing, because it could not begin, is no success.
func TestRunWithoutEventsFails(t *testing.T) {
	t.Parallel()
	for _, said := range []string{"", "go: no such tool\n"} {
		if err := judge(strings.NewReader(said), new(strings.Builder), "pure", "", 0, nil); err == nil {
			t.Errorf("%q was taken for success", said)
		}
	}
	if err := judge(strings.NewReader(`{"Action":"pass","Package":"p","Test":"TestA"}`+"\n"), new(strings.Builder), "pure", "", 0, nil); err != nil {
		t.Error(err)
	}
}
