package bench

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
)

// Plots are drawn here rather than by a library: two kinds of plot take fewer
// lines than the dependencies of one, and the page has no outside assets.

// Colours of the transports; the page's style sheet has the same.
const (
	rdsColour = "#1565c0"
	tcpColour = "#b0bec5"
)

// svg is a picture under construction, in pixels from the top left.
type svg struct {
	b    strings.Builder
	w, h float64
}

func newSVG(w, h float64, title string) *svg {
	s := &svg{w: w, h: h}
	fmt.Fprintf(&s.b, `<svg viewBox="0 0 %g %g" role="img" xmlns="http://www.w3.org/2000/svg"><title>%s</title>`, w, h, html.EscapeString(title))
	return s
}

func (s *svg) line(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(&s.b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`, x1, y1, x2, y2, class)
}

func (s *svg) text(x, y float64, anchor, text string) {
	fmt.Fprintf(&s.b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, x, y, anchor, html.EscapeString(text))
}

func (s *svg) rect(x, y, w, h float64, colour, tip string) {
	fmt.Fprintf(&s.b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"><title>%s</title></rect>`, x, y, w, h, colour, html.EscapeString(tip))
}

func (s *svg) polyline(points []string, colour string) {
	fmt.Fprintf(&s.b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`, strings.Join(points, " "), colour)
}

func (s *svg) html() template.HTML { return template.HTML(s.b.String() + "</svg>") }

// plot is a picture with two axes.
type plot struct {
	*svg
	left, right, top, bottom float64 // edges of the area
}

func newPlot(title string, top float64) plot {
	const w, h = 640.0, 300.0
	return plot{newSVG(w, h, title), 60, w - 20, top, h - 40}
}

// across and up are where a share of an axis is.
func (p *plot) across(share float64) float64 { return p.left + share*(p.right-p.left) }
func (p *plot) up(share float64) float64     { return p.bottom - share*(p.bottom-p.top) }

// point is one of a curve.
func (p *plot) point(across, up float64) string {
	return fmt.Sprintf("%.1f,%.1f", p.across(across), p.up(up))
}

// row marks a value of the upward axis.
func (p *plot) row(share float64, text string) {
	p.line(p.left, p.up(share), p.right, p.up(share), "grid")
	p.text(p.left-6, p.up(share)+4, "end", text)
}

// latencyPlot draws percentiles: to the right the rarer, each decade of rarity
// as wide; upwards microseconds, logarithmic.
func latencyPlot(row *Row) template.HTML {
	all := []*Percentiles{row.RDS.Latency}
	if row.TCP != nil {
		all = append(all, row.TCP.Latency)
	}
	lo, hi, last := math.Inf(1), 0.0, 1.0
	rarity := func(q float64) float64 { return -math.Log10(1 - q) } // decades
	for _, l := range all {
		if l == nil {
			continue
		}
		for _, p := range l.Curve {
			lo, hi = min(lo, p.US), max(hi, p.US)
			if p.Quantile < 1 {
				last = max(last, rarity(p.Quantile))
			}
		}
	}
	if hi == 0 {
		return ""
	}
	lo, hi = math.Floor(math.Log10(max(lo, 0.1))), math.Ceil(math.Log10(hi))
	hi, last = max(hi, lo+1), last+0.5 // the maximum is drawn half a decade further
	x := func(q float64) float64 { return min(rarity(q)/last, 1) }
	y := func(us float64) float64 { return (math.Log10(max(us, 0.1)) - lo) / (hi - lo) }
	s := newPlot("latency percentiles of "+row.Title, 15)
	for e := lo; e <= hi; e++ {
		us := math.Pow(10, e)
		s.row(y(us), fmt.Sprintf("%g", us))
	}
	for _, q := range []float64{0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999} {
		if at := s.across(x(q)); rarity(q) <= last-0.4 {
			s.line(at, s.top, at, s.bottom, "grid")
			s.text(at, s.bottom+16, "middle", fmt.Sprintf("%g%%", math.Round(q*1e7)/1e5))
		}
	}
	s.text(s.right, s.bottom+16, "middle", "max")
	s.text(s.left-6, s.top-3, "end", "us")
	s.text((s.left+s.right)/2, s.h-6, "middle", "share of round trips that take no longer")
	for i, colour := range []string{tcpColour, rdsColour} {
		if i = 1 - i; i < len(all) && all[i] != nil {
			var points []string
			for _, p := range all[i].Curve {
				points = append(points, s.point(x(p.Quantile), y(p.US)))
			}
			s.polyline(points, colour)
		}
	}
	return s.html()
}

// ratePlot draws a pair of bars for each row, as long as the ratio: plain TCP
// is 1. Rows without a baseline are left out.
func ratePlot(rows []Row) template.HTML {
	const w, left, right, bar, gap = 640.0, 240.0, 130.0, 13.0, 12.0
	var with []*Row
	most := 1.0
	for i := range rows {
		if r := &rows[i]; r.TCP != nil && r.RatioOf == "rate" {
			with = append(with, r)
			most = max(most, r.Ratio)
		}
	}
	if len(with) == 0 {
		return ""
	}
	h := float64(len(with))*(2*bar+gap) + gap
	s := newSVG(w, h, "message rates relative to plain TCP")
	x := func(ratio float64) float64 { return ratio / most * (w - left - right) }
	y := gap
	for _, r := range with {
		s.text(left-8, y+bar+4, "end", r.Title)
		s.rect(left, y, x(r.Ratio), bar, rdsColour, "RDS "+count(r.RDS.Rate)+"/s")
		s.text(left+x(r.Ratio)+6, y+bar-3, "start", fmt.Sprintf("%s/s  x %.2f", count(r.RDS.Rate), r.Ratio))
		s.rect(left, y+bar, x(1), bar, tcpColour, "TCP "+count(r.TCP.Rate)+"/s")
		s.text(left+x(1)+6, y+2*bar-2, "start", count(r.TCP.Rate)+"/s")
		y += 2*bar + gap
	}
	s.line(left, 0, left, h, "axis")
	return s.html()
}
