package lint

import (
	"flag"
	"fmt"
	"go/ast"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

const requirementsPage = "docs/REQUIREMENTS.md"

var update = flag.Bool("update", false, "rewrite the lists of tests in "+requirementsPage)

// requirement is one section of the page: its number in a family such as
// MR-REQ, and what it says of where it is met and tested.
type requirement struct {
	family string
	number int
	text   int // letters of it
	code   []string
	tests  []string
	at     int // line of the tests
}

func (r requirement) String() string { return fmt.Sprintf("%s-%d", r.family, r.number) }

var (
	familyLine      = regexp.MustCompile(`^## .*: ([A-Z]+-REQ)-1 to ([A-Z]+-REQ)-([0-9]+)(, in part)?$`)
	requirementLine = regexp.MustCompile(`^### ([A-Z]+-REQ)-([0-9]+)$`)
	requirementTest = regexp.MustCompile(`^Test([A-Z]+)REQ([0-9]+)[A-Z_]`)
	quoted          = regexp.MustCompile("`([^`]+)`")
)

// family is how many requirements there are of one kind. One that is met in part
// may have requirements that no code and no test belong to yet.
type family struct {
	limit  int
	inPart bool
}

// parseRequirements reads the page.
func parseRequirements(page string) (all []requirement, families map[string]family) {
	families = map[string]family{}
	for i, line := range strings.Split(page, "\n") {
		if m := familyLine.FindStringSubmatch(line); m != nil && m[1] == m[2] {
			n, _ := strconv.Atoi(m[3])
			families[m[1]] = family{n, m[4] != ""}
		} else if m := requirementLine.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[2])
			all = append(all, requirement{family: m[1], number: n})
		} else if len(all) > 0 {
			r := &all[len(all)-1]
			var names []string
			for _, q := range quoted.FindAllStringSubmatch(line, -1) {
				names = append(names, q[1])
			}
			if strings.HasPrefix(line, "- Code: ") {
				r.code = names
			} else if strings.HasPrefix(line, "- Tests:") {
				r.tests, r.at = names, i+1
			} else if r.at == 0 {
				r.text += len(line)
			}
		}
	}
	return all, families
}

// requirementTests are the tests that carry a requirement's number, as
// "package.Test", by requirement ("MR-REQ-1").
func requirementTests(t *tree) map[string][]string {
	tests := map[string][]string{}
	t.each(func(pkg string, f *file) {
		if !f.test {
			return
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil {
				continue
			}
			if m := requirementTest.FindStringSubmatch(fn.Name.Name); m != nil {
				n, _ := strconv.Atoi(m[2])
				key := fmt.Sprintf("%s-REQ-%d", m[1], n)
				tests[key] = append(tests[key], pkg+"."+fn.Name.Name)
			}
		}
	})
	for _, names := range tests {
		slices.Sort(names)
	}
	return tests
}

// checkRequirements wants every requirement of a family on the page once, with
// words, with code that exists, and with exactly the tests that carry its
// number, of which there must be one at least. In a family that is met in part
// a requirement may have neither code nor tests.
func checkRequirements(page string, t *tree, fsys fs.FS) (out []string) {
	complain := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	all, families := parseRequirements(page)
	tests := requirementTests(t)
	seen := map[string]bool{}
	for _, r := range all {
		name := r.String()
		of, ok := families[r.family]
		switch {
		case !ok:
			complain("%s: its family has no heading", name)
		case r.number < 1 || r.number > of.limit:
			complain("%s: its family has 1 to %d", name, of.limit)
		}
		missing := of.inPart && len(r.code) == 0 && len(tests[name]) == 0
		if seen[name] {
			complain("%s: twice", name)
		}
		seen[name] = true
		if r.text < 20 {
			complain("%s: says nothing", name)
		}
		if len(r.code) == 0 && !missing {
			complain("%s: no code", name)
		}
		for _, c := range r.code {
			if _, err := fs.Stat(fsys, c); err != nil {
				complain("%s: no file %s", name, c)
			}
		}
		if len(tests[name]) == 0 && !missing {
			complain("%s: no test carries its number", name)
		}
		for _, n := range r.tests {
			if !slices.Contains(tests[name], n) {
				complain("%s: no test %s", name, n)
			}
		}
		for _, n := range tests[name] {
			if !slices.Contains(r.tests, n) {
				complain("%s: %s is not listed", name, n)
			}
		}
	}
	for kind, of := range families {
		for n := 1; n <= of.limit; n++ {
			if name := fmt.Sprintf("%s-%d", kind, n); !seen[name] {
				complain("%s: not on the page", name)
			}
		}
	}
	for name, of := range tests {
		family := name[:strings.LastIndexByte(name, '-')]
		if _, ok := families[family]; ok && !seen[name] {
			complain("%s: tested by %s, not on the page", name, of[0])
		}
	}
	slices.Sort(out)
	return out
}

// updateRequirements writes the tests found into the page.
func updateRequirements(page string, t *tree) string {
	lines := strings.Split(page, "\n")
	all, _ := parseRequirements(page)
	tests := requirementTests(t)
	for _, r := range all {
		if r.at > 0 {
			names := tests[r.String()]
			lines[r.at-1] = strings.TrimRight("- Tests: "+strings.Join(quoteAll(names), ", "), " ")
		}
	}
	return strings.Join(lines, "\n")
}

func quoteAll(names []string) (out []string) {
	for _, n := range names {
		out = append(out, "`"+n+"`")
	}
	return out
}

// TestRequirements compares docs/REQUIREMENTS.md with the tests there are.
// With -update it writes the lists of tests.
func TestRequirements(t *testing.T) {
	t.Parallel()
	root := os.DirFS("../..")
	src, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	page, err := fs.ReadFile(root, requirementsPage)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		page = []byte(updateRequirements(string(page), src))
		if err := os.WriteFile("../../"+requirementsPage, page, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if all, _ := parseRequirements(string(page)); len(all) == 0 {
		t.Fatal("the page has no requirements")
	}
	for _, v := range checkRequirements(string(page), src, root) {
		t.Error(v)
	}
}

func TestRequirementsCatchViolations(t *testing.T) {
	t.Parallel()
	section := func(name, tests string) string {
		return "### " + name + "\n\nWhat must hold, in so many words.\n\n- Code: `a/a.go`\n- Tests: " + tests + "\n"
	}
	good := "## As: A-REQ-1 to A-REQ-2\n" + section("A-REQ-1", "`a.TestAREQ1Holds`, `b.TestAREQ1HoldsToo`") + section("A-REQ-2", "`a.TestAREQ2_x`")
	files := fstest.MapFS{
		"a/a.go":      {Data: []byte("package a\n")},
		"a/a_test.go": {Data: []byte(source("a", `import "testing"`, "func TestAREQ1Holds(t *testing.T) {}", "func TestAREQ2_x(t *testing.T) {}", "func TestLATERREQ1Comes(t *testing.T) {}"))},
		"b/b_test.go": {Data: []byte(source("b", `import "testing"`, "func TestAREQ1HoldsToo(t *testing.T) {}"))},
	}
	src, err := load(files)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, old, new, want string }{
		{"nothing wrong", "x", "x", ""},
		{"a number too high", "to A-REQ-2", "to A-REQ-1", "A-REQ-2: its family has 1 to 1"},
		{"the same", "### A-REQ-2\n", "\n", "A-REQ-2: not on the page"},
		{"twice", "### A-REQ-2", "### A-REQ-1", "A-REQ-1: twice"},
		{"a test of no number", "### A-REQ-2\n", "\n", "A-REQ-2: tested by a.TestAREQ2_x, not on the page"},
		{"no heading", "## As", "# As", "A-REQ-1: its family has no heading"},
		{"no words", "### A-REQ-1\n\nWhat must hold, in so many words.\n", "### A-REQ-1\n", "A-REQ-1: says nothing"},
		{"no code", "- Code: `a/a.go`\n- Tests: `a.TestAREQ2", "- Tests: `a.TestAREQ2", "A-REQ-2: no code"},
		{"code that is gone", "a/a.go", "a/old.go", "A-REQ-1: no file a/old.go"},
		{"a test that is gone", "TestAREQ2_x", "TestAREQ2_y", "A-REQ-2: no test a.TestAREQ2_y"},
		{"a test not listed", ", `b.TestAREQ1HoldsToo`", "", "A-REQ-1: b.TestAREQ1HoldsToo is not listed"},
		{"met in part", "A-REQ-1 to A-REQ-2\n", "A-REQ-1 to A-REQ-3, in part\n### A-REQ-3\n\nWhat will hold, in so many words.\n\n- Tests:\n", ""},
		{"tests but no code, in part", "A-REQ-1 to A-REQ-2\n" + section("A-REQ-1", "`a.TestAREQ1Holds`, `b.TestAREQ1HoldsToo`"),
			"A-REQ-1 to A-REQ-2, in part\n" + strings.Replace(section("A-REQ-1", "`a.TestAREQ1Holds`, `b.TestAREQ1HoldsToo`"), "- Code: `a/a.go`\n", "", 1), "A-REQ-1: no code"},
		{"no test at all", "A-REQ-1 to A-REQ-2\n", "A-REQ-1 to A-REQ-3\n" + section("A-REQ-3", ""), "A-REQ-3: no test carries its number"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			page := strings.Replace(good, c.old, c.new, 1)
			got := checkRequirements(page, src, files)
			if c.want == "" && len(got) == 0 || slices.Contains(got, c.want) {
				return
			}
			t.Errorf("complaints %q, want %q", got, c.want)
		})
	}
	stale := strings.Replace(good, ", `b.TestAREQ1HoldsToo`", "", 1)
	if got := updateRequirements(stale, src); got != good {
		t.Errorf("updated:\n%s", got)
	}
}
