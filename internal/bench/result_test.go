//go:build !live

package bench

import (
	"math"
	"testing"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		v    []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{4, 1}, 2.5}, {[]float64{9, 1, 2}, 2}} {
		if got := median(c.v); got != c.want {
			t.Errorf("%v: %v, want %v", c.v, got, c.want)
		}
	}
}

// The ratio is the median of the ratios of neighbouring runs, not the ratio of
// the medians: noise falls on both of a pair.
func TestRowComparesNeighbouringRuns(t *testing.T) {
	t.Parallel()
	runs := func(rates ...float64) (out []Result) {
		for _, r := range rates {
			out = append(out, Result{Rate: r})
		}
		return out
	}
	row := newRow(Work{Kind: OneWay}, map[Transport][]Result{RDS: runs(10, 100, 1000), TCP: runs(5, 200, 500), Node: runs(10, 50)})
	if row.Ratio != 2 || row.RatioOf != "rate" || row.RDS.Rate != 100 || row.TCP.Rate != 200 || row.OfNode != 1.5 || row.RateMin != 10 || row.RateMax != 1000 {
		t.Errorf("%+v", row)
	}
	lat := func(us float64) Result { return Result{Latency: &Percentiles{P50: us}} }
	row = newRow(Work{Kind: Latency}, map[Transport][]Result{RDS: {lat(12)}, TCP: {lat(10)}})
	if row.RatioOf != "p50" || math.Abs(row.Ratio-1.2) > 1e-9 {
		t.Errorf("%+v", row)
	}
	if row := newRow(Work{Kind: Latency}, map[Transport][]Result{RDS: {lat(12)}}); row.RatioOf != "" || row.TCP != nil {
		t.Errorf("without a baseline: %+v", row)
	}
}

func TestPercentilesOfManyRuns(t *testing.T) {
	t.Parallel()
	run := func(from, to int64) Result {
		h := newHist()
		for us := from; us <= to; us++ {
			h.RecordValue(us * 1000)
		}
		return Result{hist: h, Latency: latencyOf(h)}
	}
	one := run(1, 1000)
	near := func(name string, got, want float64) {
		if math.Abs(got-want) > want/500 {
			t.Errorf("%s: %v, want about %v", name, got, want)
		}
	}
	near("p50", one.Latency.P50, 500)
	near("p99", one.Latency.P99, 990)
	near("p99.9", one.Latency.P999, 999)
	near("max", one.Latency.Max, 1000)
	all := combine([]Result{one, run(1, 1000), run(2001, 3000)})
	near("median p50", all.Latency.P50, 500)
	near("max of all", all.Latency.Max, 3000)
	if n := all.hist.TotalCount(); n != 3000 {
		t.Errorf("the curve is of %d samples", n)
	}
	last := all.Latency.Curve[len(all.Latency.Curve)-1]
	if last.Quantile != 1 {
		t.Errorf("the curve ends at %v", last.Quantile)
	}
	if latencyOf(newHist()) != nil {
		t.Error("percentiles of nothing")
	}
}
