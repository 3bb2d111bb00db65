package conn

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"
)

// TestStatusString: every Status that status.go declares has a name of its own.
func TestStatusString(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "status.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]string)
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Values) != 1 {
			return true
		}
		number, ok := v.Values[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		i, err := strconv.Atoi(number.Value)
		if err != nil {
			t.Fatal(err)
		}
		name, ok := statusNames[Status(i)]
		if other := names[name]; !ok || name == "" || other != "" || Status(i).String() != name {
			t.Errorf("%s is %q, and %q is %q", v.Names[0], Status(i), other, name)
		}
		names[name] = v.Names[0].Name
		return true
	})
	if len(names) != len(statusNames) {
		t.Errorf("%d statuses declared, %d names", len(names), len(statusNames))
	}
}
