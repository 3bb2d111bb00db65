package ebpf

import (
	"encoding/binary"
	"math"
	"time"
)

// HistogramBuckets is the number of buckets of a [Histogram].
const HistogramBuckets = 40

// Histogram counts durations by powers of two of nanoseconds. The zero value is an empty one.
type Histogram struct {
	Sum   time.Duration `json:"sum_ns"` // sum of all durations
	Count uint64        `json:"count"`  // number of durations
	// Buckets[n] counts the durations of 2^n up to, but not including, 2^(n+1) nanoseconds. The
	// first bucket has the 0 as well, the last one everything longer (18 minutes and more).
	Buckets [HistogramBuckets]uint64 `json:"buckets"`
}

// HistogramBound is what the durations in bucket n are below: 2^(n+1) nanoseconds. The last
// bucket has no bound: its longest durations may be longer.
func HistogramBound(n int) time.Duration { return 1 << (n + 1) }

// Quantile estimates what a share q of the durations is not longer than; q is from 0 to 1, and
// 0.5 asks for the median. It is right within the bucket that the duration is in: a factor of
// 2 at most. Without durations it is 0.
func (h *Histogram) Quantile(q float64) time.Duration {
	var total uint64
	for _, n := range h.Buckets {
		total += n
	}
	if total == 0 {
		return 0
	}
	rank := max(math.Min(q, 1)*float64(total), 1)
	var below float64
	for i, n := range h.Buckets {
		if n > 0 && below+float64(n) >= rank {
			// Durations in a bucket are taken to be spread evenly on the scale of powers of two.
			return time.Duration(math.Exp2(float64(i) + (rank-below)/float64(n)))
		}
		below += float64(n)
	}
	return HistogramBound(HistogramBuckets - 1)
}

// Mean is the mean of the durations, exactly; 0 without durations.
func (h *Histogram) Mean() time.Duration {
	if h.Count == 0 {
		return 0
	}
	return h.Sum / time.Duration(h.Count)
}

// Add adds the durations of another histogram.
func (h *Histogram) Add(o *Histogram) {
	h.Sum += o.Sum
	h.Count += o.Count
	for i, n := range o.Buckets {
		h.Buckets[i] += n
	}
}

// Since is what has come to the histogram since an earlier reading of the same histogram.
func (h *Histogram) Since(earlier *Histogram) Histogram {
	d := Histogram{Sum: h.Sum - earlier.Sum, Count: h.Count - earlier.Count}
	for i, n := range earlier.Buckets {
		d.Buckets[i] = h.Buckets[i] - n
	}
	return d
}

// histogramSize is the size of struct hist of rds.h, in octets.
const histogramSize = 8 * (2 + HistogramBuckets)

// parseHistogram reads a struct hist of the kernel.
func parseHistogram(b []byte) (h Histogram) {
	b = b[:histogramSize]
	h.Sum = time.Duration(binary.NativeEndian.Uint64(b))
	h.Count = binary.NativeEndian.Uint64(b[8:])
	for i := range h.Buckets {
		h.Buckets[i] = binary.NativeEndian.Uint64(b[16+8*i:])
	}
	return h
}
