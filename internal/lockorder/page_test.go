//go:build !live && invariants && amd64

package lockorder

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/rds-go/rds/docs"
)

// locks calls found for each field of a struct in the module whose type is a Mutex or RWMutex,
// of which package and with which argument.
func locks(t *testing.T, found func(file, name, pkg string)) {
	t.Helper()
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return err
		}
		src, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, src, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok {
				for _, s := range g.Specs {
					fields(s, func(structure, field, pkg string) {
						found(name, strings.TrimPrefix(path.Dir(name), "internal/")+"."+structure+"."+field, pkg)
					})
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func fields(s ast.Spec, found func(structure, field, pkg string)) {
	ts, ok := s.(*ast.TypeSpec)
	if !ok {
		return
	}
	st, ok := ts.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range st.Fields.List {
		of := f.Type
		if ix, ok := of.(*ast.IndexExpr); ok {
			of = ix.X
		}
		sel, ok := of.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != "Mutex" && sel.Sel.Name != "RWMutex" {
			continue
		}
		pkg := sel.X.(*ast.Ident).Name
		if len(f.Names) == 0 {
			found(ts.Name.Name, sel.Sel.Name, pkg)
		}
		for _, n := range f.Names {
			found(ts.Name.Name, n.Name, pkg)
		}
	}
}

// The page has the locks of the code and no others, and a package that has its locks checked
// has no others.
func TestPageHasAllLocks(t *testing.T) {
	t.Parallel()
	page, err := parse(docs.Locking)
	if err != nil {
		t.Fatal(err)
	}
	checked := make(map[string]bool)
	plain := make(map[string]string)
	locks(t, func(file, name, pkg string) {
		switch pkg {
		case "lockorder":
			checked[path.Dir(file)] = true
			if _, ok := page[name]; !ok {
				t.Errorf("%s: %s is not in docs/LOCKING.md", file, name)
			}
			delete(page, name)
		case "sync":
			plain[name] = file
		}
	})
	for name := range page {
		t.Errorf("docs/LOCKING.md has %s, which is no lock", name)
	}
	for _, name := range slices.Sorted(maps.Keys(plain)) {
		if checked[path.Dir(plain[name])] {
			t.Errorf("%s: %s is a mutex of sync, whose order is not checked", plain[name], name)
		}
	}
}

func TestPageWithALockTwice(t *testing.T) {
	t.Parallel()
	if _, err := parse("| 1 | `a.B.mu`, `a.B.nu` | x |\n| leaf | `a.B.mu` | y |\n"); err == nil {
		t.Error("no error")
	}
	got, err := parse("# Page\n\n| # | lock |\n|---|---|\n| 1 | `a.B.mu`, `a.B.nu` | `a.C.mu` |\n| leaf | `a.D.mu` | y |\n| 3, 4 | `a.E.mu` |\n")
	if want := map[string]int{"a.B.mu": 1, "a.B.nu": 1, "a.D.mu": leaf}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}
