package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// column is one column: its name and least width.
type column struct {
	name  string
	width int
}

// table is one report. A row of a single cell is a line of its own.
type table struct {
	title   string
	columns []column
	rows    [][]string
}

// add appends a row; cells are formatted as fmt.Print does.
func (t *table) add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	t.rows = append(t.rows, row)
}

// note appends a line below the last row.
func (t *table) note(format string, args ...any) {
	t.rows = append(t.rows, []string{fmt.Sprintf(format, args...)})
}

func (t *table) writeTo(w io.Writer) error {
	names := make([]string, len(t.columns))
	widths := make([]int, len(t.columns))
	for i, c := range t.columns {
		names[i], widths[i] = c.name, c.width
	}
	for _, row := range t.rows {
		if len(row) > 1 {
			for i, cell := range row {
				widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s:\n", t.title)
	for _, row := range append([][]string{names}, t.rows...) {
		if len(row) == 1 {
			b.WriteString(row[0])
		} else {
			for i, cell := range row {
				if i > 0 {
					b.WriteByte(' ')
				}
				fmt.Fprintf(&b, "%*s", widths[i], cell)
			}
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}
