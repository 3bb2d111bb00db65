//go:build !live

package main

import (
	"strings"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
)

func TestParseOperation(t *testing.T) {
	t.Parallel()
	const all = ^uint64(0)
	for _, c := range []struct {
		in   string
		want func(o *operation) bool
	}{
		{"wait", func(o *operation) bool { return o.wait }},
		{"write:key=0xff,addr=0x100000000,len=64", func(o *operation) bool {
			return o.key == 0xff && o.addr == 1<<32 && o.length == 64 && o.mem == 64 && o.count == 1
		}},
		{"read:key=1,addr=0xffffffffffffffff,len=0xffffffff,mem=16,count=3,fence", func(o *operation) bool {
			return o.addr == all && o.length == 1<<32-1 && o.mem == 16 && o.count == 3 && o.flags == 5
		}},
		{"send", func(o *operation) bool { return o.length == 0 && o.mem == 0 && o.flags == 1 }},
		{"send:solicited,len=1", func(o *operation) bool { return o.length == 1 && o.flags == 3 }},
		{"send-invalidate:key=7", func(o *operation) bool { return o.key == 7 && o.request(new(iwarp.MR)).Invalidate == 7 }},
		{"fetch-add:key=1,addr=8,add=5", func(o *operation) bool { return o.add == 5 && o.addMask == 0 && o.length == 8 && o.mem == 8 }},
		{"compare-swap:key=1,addr=8,compare=1,swap=2", func(o *operation) bool {
			return o.compare == 1 && o.swap == 2 && o.compareMask == all && o.swapMask == all
		}},
		{"compare-swap:compare-mask=1,swap-mask=2", func(o *operation) bool { return o.compareMask == 1 && o.swapMask == 2 }},
		{"immediate:value=7", func(o *operation) bool { return o.value == 7 && len(o.request(new(iwarp.MR)).SGE) == 0 }},
	} {
		if o, err := parseOperation(c.in); err != nil || !c.want(&o) {
			t.Errorf("%q: %+v, %v", c.in, o, err)
		}
	}
	for in, want := range map[string]string{
		"":                              "no such operation",
		"wait:1":                        "no such operation",
		"jump":                          "no such operation",
		"write:colour=1":                "no such parameter",
		"send:key=1":                    "no such parameter",
		"immediate:len=1":               "no such parameter",
		"write:key":                     "invalid syntax",
		"write:key=x":                   "invalid syntax",
		"write:key=0x100000000":         "out of range",
		"write:len=0x100000000":         "out of range",
		"write:count=0x80000000":        "out of range",
		"read:addr=0x10000000000000000": "out of range",
		"read:len=0xffffffff":           "local memory of 4294967295 bytes",
	} {
		if _, err := parseOperation(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
}

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
	rdstest.Must(t, l.Set("a:1:r"))
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
