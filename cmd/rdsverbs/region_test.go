//go:build !live

package main

import (
	"testing"

	"github.com/rds-go/rds/mr"
)

func TestParseRegion(t *testing.T) {
	t.Parallel()
	const all = mr.LocalWrite | mr.RemoteWrite | mr.RemoteRead | mr.RemoteAtomic
	for _, c := range []struct {
		in   string
		want regionSpec
		ok   bool
	}{
		{"a:64:r", regionSpec{"a", 64, mr.RemoteRead, false}, true},
		{"a:64k:w", regionSpec{"a", 65536, mr.LocalWrite | mr.RemoteWrite, false}, true},
		{"a:0x40:rwa", regionSpec{"a", 64, all, false}, true},
		{"a:1g:-", regionSpec{"a", 1 << 30, 0, false}, true},
		{"a:1:ro", regionSpec{"a", 1, mr.RemoteRead, true}, true},
		{"a:0:r", regionSpec{}, false},
		{"a:2g:r", regionSpec{}, false},
		{"a::r", regionSpec{}, false},
		{"a:1:", regionSpec{}, false},
		{"a:1:x", regionSpec{}, false},
		{":1:r", regionSpec{}, false},
		{"a b:1:r", regionSpec{}, false},
		{"a:1", regionSpec{}, false},
		{"a:1:r:r", regionSpec{}, false},
		{"", regionSpec{}, false},
	} {
		if got, err := parseRegion(c.in); (err == nil) != c.ok || c.ok && got != c.want {
			t.Errorf("%q: %+v, %v", c.in, got, err)
		}
	}
}

func TestRegionNamesAreUnique(t *testing.T) {
	t.Parallel()
	var l regionList
	if err := l.Set("a:1:r"); err != nil {
		t.Fatal(err)
	}
	if err := l.Set("a:2:w"); err == nil || len(l) != 1 {
		t.Errorf("%v, %+v", err, l)
	}
}

func TestReceiveSpec(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]receiveSpec{"4:8192": {4, 8192}, "2:8k": {2, 8192}, "65535:0": {65535, 0}, "0:0": {}} {
		var r receiveSpec
		if err := r.Set(in); err != nil || r != want {
			t.Errorf("%q: %+v, %v", in, r, err)
		}
	}
	for _, in := range []string{"", "4", "4:", ":4", "65536:1", "-1:1", "65535:1m"} {
		if err := new(receiveSpec).Set(in); err == nil {
			t.Errorf("%q is taken", in)
		}
	}
}

// The guests' program of test/interop/verbs prints the same sums of the same
// pattern.
func TestPatternAndSum(t *testing.T) {
	t.Parallel()
	b := make([]byte, 600)
	pattern(b, opSeed)
	for i, want := range map[int]byte{0: 200, 55: 255, 56: 0, 250: 194, 251: 200, 502: 200, 599: 41} {
		if b[i] != want {
			t.Errorf("byte %d is %d, want %d", i, b[i], want)
		}
	}
	for in, want := range map[string]string{"": "cbf29ce484222325", "a": "af63dc4c8601ec8c", "foobar": "85944171f73967e8"} {
		if got := sum([]byte(in)); got != want {
			t.Errorf("sum of %q is %s, want %s", in, got, want)
		}
	}
}
