//go:build !live

package main

import (
	"strings"
	"testing"

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
