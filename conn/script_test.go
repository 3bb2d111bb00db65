package conn

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "record the output of the scripts in testdata")

// Each script in testdata is a conversation: a line that starts with "> " is
// a command, the lines below it are what it printed, blank lines and comments
// are kept. go test ./conn -run Scripts -rewrite records them anew; the diff is
// for the reviewer.
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			got, err := play(string(raw))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got == string(raw) {
				return
			}
			if *rewrite {
				if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			t.Errorf("%s:\n%s", name, firstDifference(string(raw), got))
		})
	}
}

// play runs a script and returns it with its actual output.
func play(script string) (string, error) {
	r := newRunner()
	var out strings.Builder
	output := false // the lines at hand are old output
	for n, line := range strings.Split(strings.TrimSuffix(script, "\n"), "\n") {
		switch {
		case strings.HasPrefix(line, "> "):
			output = true
			out.WriteString(line + "\n")
			if err := r.command(strings.Fields(line[2:])); err != nil {
				return "", fmt.Errorf("line %d: %w", n+1, err)
			}
			out.WriteString(r.out.String())
			r.out.Reset()
		case line == "" || line[0] == '#':
			output = false
			out.WriteString(line + "\n")
		case !output:
			return "", fmt.Errorf("line %d: neither command, output nor comment", n+1)
		}
	}
	return out.String(), nil
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	var command string
	for i := range max(len(w), len(g)) {
		switch {
		case i >= len(w) || i >= len(g) || w[i] != g[i]:
			at := func(s []string) string {
				if i < len(s) {
					return s[i]
				}
				return "(end)"
			}
			return fmt.Sprintf("line %d, after %q\nwant %s\ngot  %s", i+1, command, at(w), at(g))
		case strings.HasPrefix(w[i], "> "):
			command = w[i]
		}
	}
	return ""
}
