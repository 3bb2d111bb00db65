//go:build !live

package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the expected reports anew")

// The streams in testdata come from real runs of small packages; each .txt is
// the report we want of it.
func TestSummaries(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		want counts
	}{
		{"mix", counts{Passed: 3, Failed: 2, Skipped: 2}}, // tables, subtests, skips
		{"crash", counts{Passed: 1, Failed: 1}},           // a panic; what came after did not run
		{"nobuild", counts{Failed: 1}},                    // does not compile
		{"main", counts{Passed: 1, Failed: 1}},            // TestMain exits with 1
		{"hang", counts{Failed: 1}},                       // a subtest met the timeout
		{"race", counts{Passed: 1, Failed: 1}},            // the race detector's report
		{"slash", counts{Passed: 1, Failed: 1}},           // subtests with slashes in their names
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in, err := os.Open(filepath.Join("testdata", c.name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			var out strings.Builder
			got, err := summarize(in, &out)
			if err != nil {
				t.Fatal(err)
			}
			if got.counts != c.want {
				t.Errorf("%v, want %v", got.counts, c.want)
			}
			golden := filepath.Join("testdata", c.name+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if out.String() != string(want) {
				t.Errorf("report:\n%s\nwant:\n%s", out.String(), want)
			}
		})
	}
}

func TestOtherLinesPassThrough(t *testing.T) {
	t.Parallel()
	in := "go: downloading x\n" +
		`{"Action":"pass","Package":"p","Test":"TestA"}` + "\n" +
		`{"a number":1}` + "\n" + "cut off"
	var out strings.Builder
	got, err := summarize(strings.NewReader(in), &out)
	if want := (counts{Passed: 1}); err != nil || got.counts != want {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if want := "go: downloading x\n{\"a number\":1}\ncut off"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}

func TestLongOutputLosesItsMiddle(t *testing.T) {
	t.Parallel()
	var res result
	line := strings.Repeat("x", 1023) + "\n"
	res.add("first\n")
	for range 10 << 10 {
		res.add(line)
	}
	res.add("last\n")
	if n := len(res.output); n > maxOutput/len(line)+2 {
		t.Errorf("%d lines kept", n)
	}
	if res.output[0] != "first\n" || res.output[len(res.output)-1] != "last\n" {
		t.Error("the first or the last line is gone")
	}
}
