//go:build live

package main

import (
	"strings"
	"testing"
	"time"
)

func TestFewTestsMayBeFlaky(t *testing.T) {
	t.Parallel()
	for n := range 6 {
		sum := sumOf(t, outcome{Stage: "live", Flaky: make([]string, n)})
		if reds := sum.report(new(strings.Builder), nil, time.Now()); (len(reds) > 0) != (n > 3) {
			t.Errorf("%d flaky tests: %q", n, reds)
		}
	}
}
