//go:build !live

package bench

import (
	"slices"
	"testing"
)

func TestParseSizes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		want []int // nil: an error
	}{
		{"64", []int{64}},
		{"0", []int{0}},
		{"64,1k, 8K,1m", []int{64, 1024, 8192, 1 << 20}},
		{"1048576", []int{1 << 20}},
		{"1048577", nil},
		{"2m", nil},
		{"9999999999999m", nil},
		{"-1", nil},
		{"k", nil},
		{"", nil},
		{"64,,1", nil},
		{"1g", nil},
	} {
		got, err := ParseSizes(c.in)
		if (err != nil) != (c.want == nil) || !slices.Equal(got, c.want) {
			t.Errorf("%q: %v, %v; want %v", c.in, got, err, c.want)
		}
	}
}

func TestFormatSize(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0 B", 64: "64 B", 1000: "1000 B", 1024: "1 KiB", 65536: "64 KiB", 1 << 20: "1 MiB"} {
		if got := FormatSize(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestParseBuffers(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]Buffers{"256k": {Send: 256 << 10}, "0,4m": {Receive: 4 << 20}} {
		if got, err := ParseBuffers(in); err != nil || got != want {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "1,2,3", "x", "2048m"} {
		if got, err := ParseBuffers(in); err == nil {
			t.Errorf("%q: %v", in, got)
		}
	}
}
