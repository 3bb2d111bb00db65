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
	who := row.Work.workers()
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
	times := 2*max(len(shared.Rounds), 1) + 1
	when := "in the second third"
	if times > thirds {
		when = "at times"
	}
	s := newPlot(row.Title+", one more with bad keys "+when, 40)
	s.b.WriteString(style)
	s.rect(0, 0, s.w, s.h, "#ffffff", "")
	for i := 1; i < times; i += 2 {
		s.rect(s.across(float64(i)/float64(times)), s.top, (s.right-s.left)/float64(times), s.bottom-s.top, "#fbe9e7", "the rogue at work")
	}
	for v := 0.0; v <= most; v += step {
		s.row(v/most, count(v))
	}
	for sec, every := 0.0, math.Ceil(last/10); sec <= last+every/10; sec += every {
		s.text(s.across(min(sec/last, 1)), s.bottom+16, "middle", fmt.Sprintf("%g s", sec))
	}
	s.text(s.left, s.h-6, "start", "per second: operations of the "+who+", requests of the rogue")
	s.line(s.left, s.bottom, s.right, s.bottom, "axis")
	at := s.left
	for i := range curves {
		c := &curves[i]
		var points []string
		for k := range c.series {
			points = append(points, s.point(c.series[k].At/last, c.of(&c.series[k])/most))
		}
		s.polyline(points, c.colour)
		s.rect(at, 14, 10, 10, c.colour, c.name)
		s.text(at+14, 23, "start", c.name)
		at += 30 + 6.2*float64(len(c.name))
	}
	return s.svg
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
