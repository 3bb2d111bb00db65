package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// A column of a table: a value of the result line times scale; ratio is 1
// where more is better than raw Go TCP, -1 where less is, 0 for no ratio.
type column struct {
	head, key string
	scale     float64
	format    string
	span      bool // with the minimum and the maximum
	ratio     int
}

var tables = map[string][]column{
	"pingpong": {{"p50 us", "p50", 1, "%.1f", true, -1}, {"p99 us", "p99", 1, "%.0f", true, -1}, {"mean us", "mean", 1, "%.1f", false, 0}, {"CPU us per round trip", "cpu", 1, "%.1f", false, -1}},
	"oneway":   {{"k msgs/s", "rate", 1e-3, "%.0f", true, 1}, {"MB/s", "mbps", 1, "%.0f", false, 0}, {"CPU us per msg", "cpu", 1, "%.3f", true, -1}},
	"mux": {{"k msgs/s", "rate", 1e-3, "%.0f", true, 1}, {"p99 ms", "p99", 1e-3, "%.1f", true, -1}, {"CPU s per M msgs", "cpu", 1, "%.2f", false, -1},
		{"TCP conns", "conns", 1, "%.0f", false, 0}, {"client RSS MB", "rssc", 1, "%.0f", false, 0}, {"server RSS MB", "rsss", 1, "%.0f", false, 0}},
	"sockets": {{"endpoints", "n", 1, "%.0f", false, 0}, {"open us each", "openus", 1, "%.0f", true, -1}, {"client kB each", "kbc", 1, "%.1f", false, -1},
		{"server kB each", "kbs", 1, "%.1f", false, -1}, {"kernel slab kB each", "kbk", 1, "%.1f", false, 0}, {"TCP conns", "conns", 1, "%.0f", false, 0}},
}

type result map[string]string

func (r result) num(key string) float64 {
	v, _ := strconv.ParseFloat(r[key], 64)
	return v
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if len(v) == 0 {
		return 0
	}
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// report prints a table for each workload and size: the median of the runs,
// [minimum-maximum], and the median over the runs of the ratio to raw Go TCP
// in the same run.
func report(out io.Writer, files []string) error {
	rows := map[[3]string][]result{} // workload, size, peer
	var order [][3]string
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		for s := bufio.NewScanner(f); s.Scan(); {
			r := result{}
			for _, kv := range strings.Fields(s.Text()) {
				k, v, _ := strings.Cut(kv, "=")
				r[k] = v
			}
			if r["w"] == "sockets" {
				r["openus"] = fmt.Sprint(r.num("open") / r.num("n") * 1e6)
			}
			k := [3]string{r["w"], r["size"], r["peer"]}
			if rows[k] == nil {
				order = append(order, k)
			}
			rows[k] = append(rows[k], r)
		}
		f.Close()
	}
	size := func(k [3]string) int { n, _ := strconv.Atoi(k[1]); return n }
	slices.SortStableFunc(order, func(a, b [3]string) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(size(a), size(b)))
	})
	last := ""
	for _, k := range order {
		cols := tables[k[0]]
		if title := k[0] + " " + k[1]; title != last {
			last = title
			heads, line := "| peer |", "|---|"
			for _, c := range cols {
				heads += " " + c.head + " |"
				line += "---:|"
				if c.ratio != 0 {
					heads += " x tcp |"
					line += "---:|"
				}
			}
			if k[1] != "" {
				title += " B"
			}
			fmt.Fprintf(out, "\n**%s**\n\n%s\n%s\n", strings.TrimSpace(title), heads, line)
		}
		base := rows[[3]string{k[0], k[1], "tcp"}]
		fmt.Fprintf(out, "| %s |", k[2])
		for _, c := range cols {
			var v, ratio []float64
			for _, r := range rows[k] {
				if r[c.key] == "" {
					continue // a tool that does not tell
				}
				x := r.num(c.key) * c.scale
				v = append(v, x)
				for _, b := range base {
					if y := b.num(c.key) * c.scale; b["rep"] == r["rep"] && y != 0 {
						ratio = append(ratio, x/y)
					}
				}
			}
			if len(v) == 0 {
				fmt.Fprint(out, " -")
			} else {
				fmt.Fprintf(out, " "+c.format, median(v))
			}
			if c.span && len(v) > 1 {
				fmt.Fprintf(out, " ["+c.format+"-"+c.format+"]", slices.Min(v), slices.Max(v))
			}
			fmt.Fprint(out, " |")
			if c.ratio != 0 && len(ratio) > 0 {
				fmt.Fprintf(out, " %.2f |", median(ratio))
			} else if c.ratio != 0 {
				fmt.Fprint(out, " |")
			}
		}
		fmt.Fprintln(out)
	}
	return nil
}
