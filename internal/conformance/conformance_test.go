//go:build !live

package conformance

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// docs/PROTOCOL.md has the same table.
func TestDifferencesAreDocumented(t *testing.T) {
	b, err := os.ReadFile("../../docs/PROTOCOL.md")
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("needs docs/PROTOCOL.md: run it in a checkout")
	}
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(b), "\n## Differences between providers\n")
	if !ok {
		t.Fatal("docs/PROTOCOL.md has no such section")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var got []string
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "| ") && strings.Contains(line, "/") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	var want []string
	for _, d := range Differences() {
		want = append(want, d.Row())
	}
	if !slices.Equal(got, want) {
		t.Errorf("docs/PROTOCOL.md has\n%s\nthe table is\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Row is the difference's line in docs/PROTOCOL.md.
func (d *Difference) Row() string {
	return fmt.Sprintf("| %s | %s | %s |", d.Case, d.Provider, d.What)
}
