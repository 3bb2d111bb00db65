//go:build !live

package rds

import (
	"os"
	"strings"
	"testing"
)

// The example in the documentation of the package is the body of ExampleListen, which is
// compiled and run, but for the address.
func TestExampleInDocIsRun(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	run, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(doc)) {
		code, ok := strings.CutPrefix(line, "//\t")
		switch {
		case ok:
			lines = append(lines, "\t"+code)
		case len(lines) > 0 && line == "//\n":
			lines = append(lines, "\n")
		}
		if strings.HasPrefix(line, "// # Getting") {
			break
		}
	}
	example := strings.TrimSpace(strings.ReplaceAll(strings.Join(lines, ""), "10.0.0.1", "127.91.17.3"))
	if example == "" || !strings.Contains(string(run), "func ExampleListen() {\n\t"+example+"\n\t// Output:") {
		t.Errorf("not the body of ExampleListen:\n%s", example)
	}
}
