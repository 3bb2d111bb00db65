//go:build !live

package bench

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
)

var update = flag.Bool("update", false, "write the goldens anew")

func sampleReport() *Report {
	lat := func(scale float64) *Percentiles {
		p := &Percentiles{Mean: 10 * scale, P50: 9.1 * scale, P99: 47 * scale, P999: 90 * scale, Max: 1234 * scale}
		for _, q := range curveQuantiles {
			p.Curve = append(p.Curve, Point{q / 100, (9 + q*q*q*q/1e8) * scale})
		}
		return p
	}
	tcp := func(r Result) *Result { return &r }
	return &Report{
		Time: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), System: "linux/amd64, 2 CPUs, go1.26", Version: "devel",
		Provider: "node", Paths: 1, Congestion: "reno", Duration: "2s", Repeat: 5,
		Rows: []Row{
			{Title: "bind 10000 sockets", Work: Work{Kind: Sockets}, Finished: true, RDS: Result{Messages: 10000, Memory: &Memory{HeapEach: 536, ResidentEach: 700, BindMillis: 20.41}}},
			{Title: "ping-pong 64 B, one CPU", Work: Work{Kind: Latency}, Finished: true, Runs: 5, RatioOf: "p50", Ratio: 1.12,
				RDS: Result{Rate: 98765, MBPerSecond: 12.6, ClientCPU: 5, ServerCPU: 4.2, TCPConns: 1, Latency: lat(1.12)},
				TCP: tcp(Result{Rate: 112233, MBPerSecond: 14, ClientCPU: 4, ServerCPU: 4, TCPConns: 1, Latency: lat(1)})},
			{Title: "one-way 64 B, batch 64", Work: Work{Kind: OneWay}, Finished: true, Runs: 5, RatioOf: "rate", Ratio: 0.33,
				RDS: Result{Rate: 8123456, MBPerSecond: 520, ClientCPU: .1, ServerCPU: .12, TCPConns: 1},
				TCP: tcp(Result{Rate: 24567890, MBPerSecond: 1572, ClientCPU: .03, ServerCPU: .035, TCPConns: 1})},
			{Title: "mux <2x2>, 256 B, depth 8", Work: Work{Kind: Mux}, Finished: true, Note: "no baseline",
				RDS: Result{Rate: 1234, TCPConns: 1, Latency: lat(40)}},
			{Title: "stress 8x8", Work: Work{Kind: Stress}, Finished: true, RDS: Result{Messages: 99, Rate: 33, TCPConns: 1}},
			{Title: "stress 9x9", Work: Work{Kind: Stress}, RDS: Result{Messages: 5, Rate: 33, TCPConns: 1}},
		},
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		rdstest.Must(t, os.WriteFile(file, got, 0o644))
	}
	want, err := os.ReadFile(file)
	rdstest.Must(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; go test -update writes it anew. Got:\n%s", file, got)
	}
}

func TestTextReport(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	rdstest.Must(t, sampleReport().WriteText(&b))
	golden(t, "report.txt", b.Bytes())
}

func TestJSONReport(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	rdstest.Must(t, sampleReport().WriteJSON(&b))
	var back Report
	rdstest.Must(t, json.Unmarshal(b.Bytes(), &back))
	if len(back.Rows) != 6 || back.Rows[1].RDS.Latency.P50 != 9.1*1.12 || back.Rows[2].TCP.Rate != 24567890 {
		t.Errorf("%+v", back)
	}
	golden(t, "report.json", b.Bytes())
}

// The page needs nothing from elsewhere, its plots are well-formed, and what
// titles hold is text.
func TestHTMLReport(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	rdstest.Must(t, sampleReport().WriteHTML(&b))
	page := b.String()
	for _, bad := range []string{"<script", "src=", "href=", "url(", "@import", "<2x2>", "NaN", "Inf"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	plots := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1)
	if len(plots) != 3 { // rates, and latency of ping-pong and mux
		t.Errorf("%d plots", len(plots))
	}
	for i, p := range plots {
		for d := xml.NewDecoder(strings.NewReader(p)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("plot %d: %v", i, err)
			}
		}
	}
	for _, want := range []string{"ping-pong 64 B, one CPU", "8.12 M", "plain TCP", "mux &lt;2x2&gt;", "TCP reno"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	golden(t, "report.html", b.Bytes())
}

// Columns and lines that only rdsd has.
func TestReportOfDaemons(t *testing.T) {
	t.Parallel()
	lat := func(us float64) *Percentiles { return &Percentiles{P50: us, P99: 2 * us, P999: 3 * us, Max: 4 * us} }
	r := sampleReport()
	r.Provider, r.Rows = "rdsd", []Row{
		{Title: "one-way 64 B, single", Work: Work{Kind: OneWay}, Finished: true, RatioOf: "rate", Ratio: .25, OfNode: .5,
			RDS: Result{Rate: 1e6, TCPConns: 1}, Node: &Result{Rate: 2e6, TCPConns: 1}, TCP: &Result{Rate: 4e6, TCPConns: 1}},
		{Title: "ping-pong beside a flood", Work: Work{Kind: Fair}, Finished: true,
			RDS: Result{Rate: 999, TCPConns: 1, Flood: 2500, Latency: lat(900)}, Alone: &Result{Rate: 1000, TCPConns: 1, Latency: lat(200)}},
		{Title: "attach 1000 applications", Work: Work{Kind: Sessions}, Finished: true, RDS: Result{Memory: &Memory{HeapEach: 15000, ResidentEach: 20000, BindMillis: 500}}},
	}
	var b bytes.Buffer
	rdstest.Must(t, r.WriteText(&b))
	golden(t, "daemons.txt", b.Bytes())
}

func TestReportOfNothing(t *testing.T) {
	t.Parallel()
	r := sampleReport()
	r.Rows = nil
	var b bytes.Buffer
	rdstest.Must(t, errors.Join(r.WriteText(&b), r.WriteHTML(&b)))
}
