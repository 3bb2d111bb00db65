package rds

import (
	"os"
	"os/exec"
	"path/filepath"
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

// The program of the README's quick start is right, and uses what there is.
func TestProgramInReadme(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "```go\npackage main\n")
	program, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("no program in the README")
	}
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte("package main\n"+program), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "vet", file).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
