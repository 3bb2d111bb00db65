package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/rds-go/rds/rds"
)

// Report is the outcome of a Runner.
type Report struct {
	Time       time.Time `json:"time"`
	System     string    `json:"system"` // OS/architecture, CPUs, Go
	Version    string    `json:"version"`
	Provider   string    `json:"provider"`
	Wire       rds.Wire  `json:"wire,omitempty"` // wire of nodes and daemons; none: XRC with peers that have it
	CRC        CRCs      `json:"crc,omitempty"`  // CRC that nodes and daemons ask for; plain TCP and RDS over TCP have none
	Paths      int       `json:"paths"`
	Congestion string    `json:"congestion"` // TCP congestion control of both transports
	Buffers    Buffers   `json:"tcp_buffers"`
	Duration   string    `json:"duration"` // length of a run
	Repeat     int       `json:"repeat"`
	Rows       []Row     `json:"rows"`
}

func newReport(o *Options) *Report {
	r := &Report{
		Time:     time.Now().UTC().Truncate(time.Second),
		System:   fmt.Sprintf("%s/%s, %d CPUs, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version()),
		Version:  "devel",
		Provider: o.Provider, Wire: o.wire(), Paths: o.Paths, Congestion: o.Congestion, Buffers: o.Buffers,
		Duration: o.Duration.String(), Repeat: o.Repeat,
	}
	if r.Provider == rds.ProviderNode || r.Provider == rds.ProviderDaemon {
		r.CRC = o.CRC
	}
	if r.Congestion == "" {
		r.Congestion = defaultCongestion()
	}
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" {
		r.Version = b.Main.Version
	}
	return r
}

// Settings is one line on how the report was made.
func (r *Report) Settings() string {
	s := r.System
	if r.Provider != "" {
		s += fmt.Sprintf("; provider %s, %d path", r.Provider, r.Paths)
		if r.Paths != 1 {
			s += "s"
		}
	}
	if r.Wire != "" {
		s += ", wire " + string(r.Wire)
	}
	switch r.CRC {
	case "":
	case CRCOff:
		s += ", no CRC"
	default:
		s += ", CRC " + string(r.CRC) + " (over TCP none)"
	}
	if r.Congestion != "" {
		s += ", TCP " + r.Congestion
	}
	if b := r.Buffers; b != (Buffers{}) {
		s += fmt.Sprintf(", TCP buffers %d/%d", b.Send, b.Receive)
	}
	s += fmt.Sprintf("; runs of %s", r.Duration)
	if r.Repeat > 1 {
		s += fmt.Sprintf(", medians of %d", r.Repeat)
	}
	return s
}

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Row numbers in words that both the text and the page use.

// count writes a number with four digits or less before its unit.
func count(v float64) string {
	switch {
	case v >= 1e7:
		return fmt.Sprintf("%.1f M", v/1e6)
	case v >= 1e6:
		return fmt.Sprintf("%.2f M", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.0f k", v/1e3)
	case v >= 1e3:
		return fmt.Sprintf("%.1f k", v/1e3)
	}
	return fmt.Sprintf("%.0f", v)
}

func micros(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.1f", v)
}

// cells are the columns of a result, after its title.
func (r *Result) cells() []string {
	out := []string{"", "", "", ""}
	if l := r.Latency; l != nil {
		out = []string{micros(l.P50), micros(l.P99), micros(l.P999), micros(l.Max)}
	}
	return append(out, count(r.Rate), fmt.Sprintf("%.0f", r.MBPerSecond), fmt.Sprintf("%.3f", r.CPU()))
}

var heads = []string{"work", "p50 us", "p99 us", "p99.9 us", "max us", "msg/s", "MB/s", "CPU us/msg", "x node", "x wire", "x TCP", "TCP conns"}

// line is one of the table. Class names what it is of, for the page.
type line struct {
	Class string
	Cells []string
}

// lines are the table's lines of a row: RDS, and what it is compared with.
func (row *Row) lines() []line {
	if row.RDS.Memory != nil && row.RDS.Fabric == nil {
		return nil
	}
	title := row.Title
	if !row.Finished {
		title += " (cut short)"
	}
	ratio := func(has bool, ratio float64) string {
		if !has {
			return ""
		}
		return fmt.Sprintf("%.2f", ratio)
	}
	cells := func(title string, r *Result, ratios ...string) []string {
		return slices.Concat([]string{title}, r.cells(), ratios, []string{fmt.Sprint(r.TCPConns)})
	}
	out := []line{{"rds", cells(title, &row.RDS, ratio(row.Node != nil, row.OfNode), ratio(row.OverTCP != nil, row.OfOverTCP), ratio(row.RatioOf != "", row.Ratio))}}
	for _, o := range row.others() {
		if r := *o.result; r != nil {
			out = append(out, line{"tcp", cells("  "+o.title, r, "", "", "")})
		}
	}
	return out
}

// table is the heads and lines of a report, without the columns in which
// nothing stands.
func (r *Report) table() (columns []string, lines []line) {
	for i := range r.Rows {
		lines = append(lines, r.Rows[i].lines()...)
	}
	columns = slices.Clone(heads)
	for i := len(heads) - 1; i >= 0; i-- {
		if slices.ContainsFunc(lines, func(l line) bool { return l.Cells[i] != "" }) {
			continue
		}
		columns = slices.Delete(columns, i, i+1)
		for k := range lines {
			lines[k].Cells = slices.Delete(lines[k].Cells, i, i+1)
		}
	}
	return columns, lines
}

// Sentence says what a row has to say besides its figures; empty if nothing.
func (row *Row) Sentence() string {
	if row.RDS.Fabric != nil {
		return row.fabricSentence()
	}
	if m := row.RDS.Memory; m != nil {
		heap := "heap"
		if row.Work.Kind == Sessions {
			heap = "the daemon's heap"
		}
		s := fmt.Sprintf("%s: %.1f ms in all, %.0f bytes of %s each", row.Title, m.BindMillis, m.HeapEach, heap)
		if m.ResidentEach > 0 {
			s += fmt.Sprintf(" (%.0f bytes of physical memory)", m.ResidentEach)
		}
		return s
	}
	if row.Note != "" {
		return row.Title + ": " + row.Note
	}
	if a, b := row.RDS.Latency, row.Alone; a != nil && b != nil && b.Latency != nil {
		return fmt.Sprintf("%s of %s, %.0f MB/s: p50 %+.0f us, p99 %+.0f us, p99.9 %+.0f us against alone", row.Title, FormatSize(floodSize), row.RDS.Flood,
			a.P50-b.Latency.P50, a.P99-b.Latency.P99, a.P999-b.Latency.P999)
	}
	switch row.Work.Kind {
	case Atomic:
		return fmt.Sprintf("%s: %d changes in the first run, and the words add up to that", row.Title, row.RDS.Total)
	case Mux:
		return row.activeSentence()
	case Stopped:
		return row.standstillSentence()
	case Regions:
		return row.regionsSentence()
	case Chernobyl:
		return row.chernobylSentence()
	case RDMA:
		return row.queuesSentence()
	}
	if row.RDS.Account != nil && row.Finished {
		return row.accountSentence()
	}
	if row.Work.Kind == Stress && row.Finished {
		return fmt.Sprintf("%s: %d requests and replies, every payload and sequence number verified", row.Title, row.RDS.Messages)
	}
	return ""
}

// WriteText writes the report as a table for a terminal.
func (r *Report) WriteText(w io.Writer) error {
	columns, lines := r.table()
	width := make([]int, len(columns))
	for _, l := range append(lines, line{Cells: columns}) {
		for i, c := range l.Cells {
			width[i] = max(width[i], len(c))
		}
	}
	var b strings.Builder
	write := func(cells []string) {
		fmt.Fprintf(&b, "%-*s", width[0], cells[0])
		for i, c := range cells[1:] {
			fmt.Fprintf(&b, "  %*s", width[i+1], c)
		}
		b.WriteByte('\n')
	}
	if len(lines) > 0 {
		write(columns)
	}
	for _, l := range lines {
		write(l.Cells)
	}
	for i := range r.Rows {
		if s := r.Rows[i].Sentence(); s != "" {
			b.WriteString(s + "\n")
		}
	}
	b.WriteString(r.Settings() + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}
