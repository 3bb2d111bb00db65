package bench

import (
	_ "embed"
	"html/template"
	"io"
)

//go:embed page.html.tmpl
var pageSource string

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
		Lines     []line
		Sentences []string
		Rates     template.HTML
		Latencies []pagePlot
		Series    []pagePlot
	}{Report: r, Rates: ratePlot(r.Rows)}
	page.Heads, page.Lines = r.table()
	for i := range r.Rows {
		row := &r.Rows[i]
		if s := row.Sentence(); s != "" {
			page.Sentences = append(page.Sentences, s)
		}
		if p := latencyPlot(row); p != "" {
			page.Latencies = append(page.Latencies, pagePlot{row.Title, p})
		}
		if s := chernobylPlot(row, ""); s != nil {
			page.Series = append(page.Series, pagePlot{row.Title, s.html()})
		}
	}
	return t.Execute(w, page)
}
