package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

const module = "github.com/rds-go/rds"

// file is one Go source file.
type file struct {
	path  string // from the module's root
	test  bool
	lines int
	ast   *ast.File
}

// tree is the module: its files by directory, which is also how packages are
// called here ("conn", "internal/wire"; "." is the root).
type tree struct {
	fset *token.FileSet
	pkgs map[string][]*file
}

func load(fsys fs.FS) (*tree, error) {
	t := &tree{fset: token.NewFileSet(), pkgs: map[string][]*file{}}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			base := path.Base(name)
			if name == "." {
				return nil
			}
			if base == "testdata" || base == "vendor" || base[0] == '.' || base[0] == '_' {
				return fs.SkipDir
			}
			if _, err := fs.Stat(fsys, path.Join(name, "go.mod")); err == nil {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		src, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(t.fset, name, src, parser.ParseComments)
		if err != nil {
			return err
		}
		dir := path.Dir(name)
		t.pkgs[dir] = append(t.pkgs[dir], &file{
			path:  name,
			test:  strings.HasSuffix(name, "_test.go"),
			lines: bytes.Count(src, []byte("\n")),
			ast:   f,
		})
		return nil
	})
	return t, err
}

// names are the packages in order.
func (t *tree) names() []string {
	var out []string
	for name := range t.pkgs {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// each calls fn for every file, in order.
func (t *tree) each(fn func(pkg string, f *file)) {
	for _, pkg := range t.names() {
		for _, f := range t.pkgs[pkg] {
			fn(pkg, f)
		}
	}
}

func (t *tree) at(n ast.Node) string {
	p := t.fset.Position(n.Pos())
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

// imports are what the package's files outside tests import, packages of this
// module as "/conn", "/internal/wire", all others by their full path.
func (t *tree) imports(pkg string) []string {
	var out []string
	for _, f := range t.pkgs[pkg] {
		if !f.test {
			for _, s := range f.ast.Imports {
				out = append(out, importPath(s))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func importPath(s *ast.ImportSpec) string {
	p, _ := strconv.Unquote(s.Path.Value)
	if rest, ok := strings.CutPrefix(p, module); ok && (rest == "" || rest[0] == '/') {
		return "/" + strings.TrimPrefix(rest, "/")
	}
	return p
}

// localName is what the file calls an imported package: "" if it does not
// import it, "." for a dot import.
func (f *file) localName(imported string) string {
	for _, s := range f.ast.Imports {
		if importPath(s) == imported {
			if s.Name != nil {
				return s.Name.Name
			}
			base := path.Base(imported)
			if len(base) > 1 && base[0] == 'v' && base[1] >= '0' && base[1] <= '9' {
				base = path.Base(path.Dir(imported)) // math/rand/v2
			}
			return base
		}
	}
	return ""
}

// uses calls fn for each selector pkg.Name in the file where pkg is the given
// import.
func (f *file) uses(imported string, fn func(sel *ast.SelectorExpr)) {
	name := f.localName(imported)
	if name == "" {
		return
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			// An identifier the parser resolved is a variable of that name.
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == name && x.Obj == nil {
				fn(sel)
			}
		}
		return true
	})
}

// under tells whether a package or import is p or below it. A p that ends in
// "/" means only what is below, "" means everything.
func under(name, p string) bool {
	if p == "" || name == p {
		return p == "" || !strings.HasSuffix(p, "/")
	}
	return strings.HasPrefix(name, strings.TrimSuffix(p, "/")+"/")
}

func underAny(name string, ps []string) bool {
	return slices.ContainsFunc(ps, func(p string) bool { return under(name, p) })
}
