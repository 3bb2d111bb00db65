package bench

import (
	_ "embed"
	"html/template"
	"io"
)

//go:embed page.html.tmpl
var pageSource string

type pageLine struct {
	Class string
	Cells []string
}

type pagePlot struct {
	Title string
	Plot  template.HTML
}

// WriteHTML writes the report as one page that needs nothing from elsewhere.
func (r *Report) WriteHTML(w io.Writer) error {
	t, err := template.New("page").Parse(pageSource)
	if err != nil {
		return err
	}
	page := struct {
		Report    *Report
		Heads     []string
		Lines     []pageLine
		Sentences []string
		Rates     template.HTML
		Latencies []pagePlot
	}{Report: r, Heads: heads, Rates: ratePlot(r.Rows)}
	for i := range r.Rows {
		row := &r.Rows[i]
		for k, cells := range row.lines() {
			page.Lines = append(page.Lines, pageLine{[]string{"rds", "tcp"}[k], cells})
		}
		if s := row.Sentence(); s != "" {
			page.Sentences = append(page.Sentences, s)
		}
		if p := latencyPlot(row); p != "" {
			page.Latencies = append(page.Latencies, pagePlot{row.Title, p})
		}
	}
	return t.Execute(w, page)
}
