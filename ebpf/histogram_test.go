//go:build !live

package ebpf

import (
	"encoding/binary"
	"testing"
	"time"
)

func TestHistogramQuantileIsRightWithinItsBucket(t *testing.T) {
	t.Parallel()
	var raw [histogramSize]byte
	add := func(bucket int, n, each uint64) {
		for _, f := range []struct {
			at int
			n  uint64
		}{{0, n * each}, {8, n}, {16 + 8*bucket, n}} {
			binary.NativeEndian.PutUint64(raw[f.at:], binary.NativeEndian.Uint64(raw[f.at:])+f.n)
		}
	}
	add(10, 90, 1500)           // [1024, 2048)
	add(20, 10, 1_500_000)      // [1048576, 2097152)
	h := parseHistogram(raw[:]) // a reading of the kernel's
	if h.Count != 100 || h.Mean() != (90*1500+10*1_500_000)/100 {
		t.Errorf("count %d, mean %v", h.Count, h.Mean())
	}
	for _, c := range []struct {
		q        float64
		from, to time.Duration
	}{{0, 1024, 2048}, {0.5, 1024, 2048}, {0.9, 1024, 2048}, {0.91, 1 << 20, 1 << 21}, {0.99, 1 << 20, 1 << 21}, {1, 1 << 20, 1 << 21}} {
		if got := h.Quantile(c.q); got < c.from || got > c.to {
			t.Errorf("quantile %v: %v, want from %v to %v", c.q, got, c.from, c.to)
		}
	}
	if a, b := h.Quantile(0.2), h.Quantile(0.8); a >= b {
		t.Errorf("quantiles 0.2 and 0.8 of one bucket: %v and %v", a, b)
	}
	var twice, none Histogram
	twice.Add(&h)
	twice.Add(&h)
	if d := twice.Since(&h); d != h {
		t.Errorf("%+v, want %+v", d, h)
	}
	if none.Quantile(0.5) != 0 || none.Mean() != 0 {
		t.Error("quantile and mean of nothing are not 0")
	}
}
