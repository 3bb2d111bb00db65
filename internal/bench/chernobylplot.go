package bench

import (
	"fmt"
	"io"
	"math"
)

const (
	rogueColour = "#c62828"
	calmStyle   = `<style>text { font: 11px system-ui, sans-serif; fill: #37474f; } .grid { stroke: #cfd8dc; stroke-width: 0.5; } .axis { stroke: #90a4ae; }</style>`
)

// chernobylPlot draws the time series of the workers on both connections, and
// of the rogue, with the times that the rogue has marked. The style is for a
// picture that is not on a page.
func chernobylPlot(row *Row, style string) *svg {
	const w, h, left, right, top, bottom = 640.0, 300.0, 60.0, 20.0, 40.0, 40.0
	shared := row.RDS.Thirds
	if shared == nil || len(shared.Series) == 0 {
		return nil
	}
	type curve struct {
		name, colour string
		series       []Sample
		of           func(*Sample) float64
	}
	others := func(s *Sample) float64 { return s.Others }
	who := "sockets"
	if row.Work.Verbs {
		who = "workers"
	}
	curves := []curve{
		{who, rdsColour, shared.Series, others},
		{"rogue, refused", rogueColour, shared.Series, func(s *Sample) float64 { return s.Refused }},
	}
	if row.Plain != nil && row.Plain.Thirds != nil {
		curves = append([]curve{{"workers on a plain connection", tcpColour, row.Plain.Thirds.Series, others}}, curves...)
	}
	most, last := 1.0, 0.0
	for _, c := range curves {
		for i := range c.series {
			most, last = max(most, c.of(&c.series[i])), max(last, c.series[i].At)
		}
	}
	step := math.Pow(10, math.Floor(math.Log10(most)))
	if most/step < 4 {
		step /= 2
	}
	most = math.Ceil(most/step) * step
	x := func(at float64) float64 { return left + at/last*(w-left-right) }
	y := func(rate float64) float64 { return h - bottom - rate/most*(h-top-bottom) }
	times := 2*max(len(shared.Rounds), 1) + 1
	when := "in the second third"
	if times > thirds {
		when = "at times"
	}
	s := newSVG(w, h, row.Title+", one more with bad keys "+when)
	s.b.WriteString(style)
	s.rect(0, 0, w, h, "#ffffff", "")
	width := last / float64(times)
	for i := 1; i < times; i += 2 {
		s.rect(x(float64(i)*width), top, x(width)-left, h-top-bottom, "#fbe9e7", "the rogue at work")
	}
	for v := 0.0; v <= most; v += step {
		s.line(left, y(v), w-right, y(v), "grid")
		s.text(left-6, y(v)+4, "end", count(v))
	}
	for sec, every := 0.0, math.Ceil(last/10); sec <= last+every/10; sec += every {
		s.text(x(min(sec, last)), h-bottom+16, "middle", fmt.Sprintf("%g s", sec))
	}
	s.text(left, h-6, "start", "per second: operations of the "+who+", requests of the rogue")
	s.line(left, h-bottom, w-right, h-bottom, "axis")
	at := left
	for i := range curves {
		c := &curves[i]
		var points []string
		for k := range c.series {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(c.series[k].At), y(c.of(&c.series[k]))))
		}
		s.polyline(points, c.colour)
		s.rect(at, 14, 10, 10, c.colour, c.name)
		s.text(at+14, 23, "start", c.name)
		at += 30 + 6.2*float64(len(c.name))
	}
	return s
}

// WriteSVG writes the plot of the first Chernobyl row as a picture by itself.
func (r *Report) WriteSVG(w io.Writer) error {
	for i := range r.Rows {
		if s := chernobylPlot(&r.Rows[i], calmStyle); s != nil {
			_, err := fmt.Fprintln(w, s.html())
			return err
		}
	}
	return fmt.Errorf("there is no plot of a %s", Chernobyl)
}
