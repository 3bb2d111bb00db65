package bench

import (
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is one run of a work over one transport, or the medians of several.
type Result struct {
	Seconds     float64      `json:"seconds"`
	Messages    uint64       `json:"messages"` // one-way messages, round trips, requests answered, sockets bound
	Rate        float64      `json:"messages_per_second"`
	MBPerSecond float64      `json:"mb_per_second"`                 // payload of messages and replies, 10^6 bytes
	ClientCPU   float64      `json:"client_cpu_us"`                 // per message
	ServerCPU   float64      `json:"server_cpu_us"`                 // per message
	Latency     *Percentiles `json:"latency,omitempty"`             // Latency, Mux, Stress
	TCPConns    int          `json:"tcp_connections"`               // between the two sides, seen by the client's
	Memory      *Memory      `json:"memory,omitempty"`              // Sockets, Sessions
	Flood       float64      `json:"flood_mb_per_second,omitempty"` // rate of the flooding application, in Fair
	Thirds      *Thirds      `json:"thirds,omitempty"`              // Chernobyl
	Total       uint64       `json:"total,omitempty"`               // Atomic: changes, those before the measured time included
	Account     *account     `json:"account,omitempty"`             // Stress with operations
	Fabric      *Fabric      `json:"fabric,omitempty"`              // Connections
	hist        *hdrhistogram.Histogram
}

// CPU is the CPU time of both sides, us per message.
func (r *Result) CPU() float64 { return r.ClientCPU + r.ServerCPU }

// Percentiles are of round trips, in microseconds.
type Percentiles struct {
	Mean  float64 `json:"mean_us"`
	P50   float64 `json:"p50_us"`
	P99   float64 `json:"p99_us"`
	P999  float64 `json:"p99_9_us"`
	Max   float64 `json:"max_us"`
	Curve []Point `json:"curve,omitempty"`
}

// Point is a latency that Quantile of all samples do not exceed.
type Point struct {
	Quantile float64 `json:"quantile"`
	US       float64 `json:"us"`
}

// Memory is what bound sockets cost their process, or attached applications
// the daemon.
type Memory struct {
	HeapEach     float64 `json:"heap_bytes_each"`     // live heap and stacks
	ResidentEach float64 `json:"resident_bytes_each"` // physical memory of the process
	BindMillis   float64 `json:"bind_ms"`             // time to bind all sockets; Sessions: to attach all
}

// Row is a line of a report: a work, its figures over RDS (or over iWARP, if
// its kind is RDMA) and, if measured, over what it is compared with.
type Row struct {
	Work      Work    `json:"work"`
	Title     string  `json:"title"`
	Runs      int     `json:"runs"`
	RDS       Result  `json:"rds"`
	Node      *Result `json:"node,omitempty"` // an embedded node
	TCP       *Result `json:"tcp,omitempty"`
	Alone     *Result `json:"alone,omitempty"`      // Fair without the flood
	Singles   *Result `json:"singles,omitempty"`    // a barrier for each region
	Running   *Result `json:"running,omitempty"`    // RDMA without what is sent to stopped queues
	Plain     *Result `json:"plain,omitempty"`      // Chernobyl without shared queues
	OverTCP   *Result `json:"over_tcp,omitempty"`   // RDS over TCP
	Active    *Result `json:"active,omitempty"`     // Mux without what is sent to stopped sockets, Stopped with all running
	OneEach   *Result `json:"one_each,omitempty"`   // Mux with Processes that have one processor each
	Ratio     float64 `json:"ratio,omitempty"`      // ratio to TCP, median over the runs: of p50 for Latency, else of the rate
	OfNode    float64 `json:"node_ratio,omitempty"` // ratio to an embedded node, as Ratio is to TCP
	OfSingles float64 `json:"singles_ratio,omitempty"`
	OfRunning float64 `json:"running_ratio,omitempty"`
	OfOverTCP float64 `json:"over_tcp_ratio,omitempty"`
	OfActive  float64 `json:"active_ratio,omitempty"`
	RateMin   float64 `json:"rate_min"` // lowest rate of the runs over RDS
	RateMax   float64 `json:"rate_max"`
	Note      string  `json:"note,omitempty"`
	RatioOf   string  `json:"ratio_of,omitempty"`
	Finished  bool    `json:"finished"` // false: interrupted, the figures are of what there was

	Standstill *Standstill `json:"standstill,omitempty"` // Stopped
}

// Histograms count nanoseconds up to a minute: those that several are merged
// into with three digits, those of which there are thousands with two and in
// steps of 100 ns (25 KB).
const maxLatency = 60e9

func newHist() *hdrhistogram.Histogram      { return hdrhistogram.New(1, maxLatency, 3) }
func newSmallHist() *hdrhistogram.Histogram { return hdrhistogram.New(100, maxLatency, 2) }

var curveQuantiles = []float64{0, 10, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99, 99.995, 99.999, 100}

func latencyOf(h *hdrhistogram.Histogram) *Percentiles {
	if h.TotalCount() == 0 {
		return nil
	}
	us := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1e3 }
	l := &Percentiles{Mean: h.Mean() / 1e3, P50: us(50), P99: us(99), P999: us(99.9), Max: float64(h.Max()) / 1e3}
	for _, q := range curveQuantiles {
		// A percentile that fewer than one sample exceeds is the maximum.
		if q < 100 && (1-q/100)*float64(h.TotalCount()) < 1 {
			continue
		}
		l.Curve = append(l.Curve, Point{q / 100, us(q)})
	}
	return l
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// newRow takes the medians of the runs. Those with one index were made one
// after the other; there may be fewer over other transports than over RDS.
func newRow(w Work, runs map[Transport][]Result) Row {
	measured := runs[w.subject()]
	row := Row{Work: w, Title: w.Title(), Runs: len(measured), RDS: combine(measured)}
	row.RateMin, row.RateMax = row.RDS.Rate, row.RDS.Rate
	for _, r := range measured {
		row.RateMin, row.RateMax = min(row.RateMin, r.Rate), max(row.RateMax, r.Rate)
	}
	for _, o := range row.others() {
		if len(runs[o.transport]) == 0 {
			continue
		}
		r := combine(runs[o.transport])
		*o.result = &r
		if x, of := ratio(&w, measured, runs[o.transport]); o.ratio != nil {
			*o.ratio = x
			if o.transport == TCP {
				row.RatioOf = of
			}
		}
	}
	return row
}

// other is what a row is compared with.
type other struct {
	transport Transport
	title     string // of its line in the table
	result    **Result
	ratio     *float64 // nil: none is told
}

func (row *Row) others() []other {
	return []other{
		{Alone, "alone", &row.Alone, nil},
		{Node, "embedded node", &row.Node, &row.OfNode},
		{TCP, "plain TCP", &row.TCP, &row.Ratio},
		{Singles, "a barrier each", &row.Singles, &row.OfSingles},
		{Plain, "plain connection", &row.Plain, nil},
		{Running, "none stopped", &row.Running, &row.OfRunning},
		{OverTCP, "RDS over TCP", &row.OverTCP, &row.OfOverTCP},
		{Active, "none stopped", &row.Active, &row.OfActive},
		{OneProcessor, "one processor each", &row.OneEach, nil},
	}
}

// ratio is the median of the ratios of neighbouring runs, and tells of what.
func ratio(w *Work, rds, base []Result) (float64, string) {
	var ratios []float64
	of := ""
	for i := range min(len(rds), len(base)) {
		a, b := &rds[i], &base[i]
		switch {
		case w.shape() == Latency && a.Latency != nil && b.Latency != nil && b.Latency.P50 > 0:
			of = "p50"
			ratios = append(ratios, a.Latency.P50/b.Latency.P50)
		case w.shape() != Latency && b.Rate > 0:
			of = "rate"
			ratios = append(ratios, a.Rate/b.Rate)
		}
	}
	return median(ratios), of
}

// figures are those of which several runs have a median.
func (r *Result) figures() []*float64 {
	list := []*float64{&r.Seconds, &r.Rate, &r.MBPerSecond, &r.ClientCPU, &r.ServerCPU, &r.Flood}
	if l := r.Latency; l != nil {
		list = append(list, &l.Mean, &l.P50, &l.P99, &l.P999)
	}
	if m := r.Memory; m != nil {
		list = append(list, &m.HeapEach, &m.ResidentEach, &m.BindMillis)
	}
	if f := r.Fabric; f != nil {
		list = append(list, &f.HeapPair)
	}
	return list
}

// combine takes the median of each figure; the latency curve is of all samples.
func combine(runs []Result) Result {
	out := runs[0]
	if len(runs) == 1 {
		return out
	}
	out.Thirds = middle(runs)
	if out.Memory != nil {
		out.Memory = &Memory{}
	}
	if out.Fabric != nil {
		f := *out.Fabric
		out.Fabric = &f
	}
	if out.hist != nil {
		out.hist = newHist()
		for i := range runs {
			out.hist.Merge(runs[i].hist)
		}
		out.Latency = latencyOf(out.hist)
	}
	of := func(get func(r *Result) float64) float64 {
		var v []float64
		for i := range runs {
			v = append(v, get(&runs[i]))
		}
		return median(v)
	}
	out.Messages = uint64(of(func(r *Result) float64 { return float64(r.Messages) }))
	for i, to := range out.figures() {
		*to = of(func(r *Result) float64 {
			if list := r.figures(); i < len(list) {
				return *list[i]
			}
			return 0 // a run without any latency
		})
	}
	return out
}
