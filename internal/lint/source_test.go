package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

func checkPure(t *tree) (out []string) {
	t.each(func(pkg string, f *file) {
		if f.test || !underAny(pkg, purePackages) || slices.Contains(impureFiles, f.path) {
			return
		}
		f.uses("time", func(sel *ast.SelectorExpr) {
			if slices.Contains(clock, sel.Sel.Name) {
				out = append(out, fmt.Sprintf("%s: time.%s: time is an argument here", t.at(sel), sel.Sel.Name))
			}
		})
		for _, p := range []string{"math/rand", "math/rand/v2"} {
			f.uses(p, func(sel *ast.SelectorExpr) {
				// Types and New.. make a source of one's own; the rest draws from the global one.
				if name := sel.Sel.Name; !strings.HasPrefix(name, "New") && !slices.Contains([]string{"Rand", "Source", "PCG", "ChaCha8", "Zipf"}, name) {
					out = append(out, fmt.Sprintf("%s: rand.%s: random numbers come from an injected source", t.at(sel), name))
				}
			})
		}
		for _, p := range []string{"time", "math/rand", "math/rand/v2"} {
			if f.localName(p) == "." {
				out = append(out, fmt.Sprintf("%s: dot import of %s", f.path, p))
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if g, ok := n.(*ast.GoStmt); ok {
				out = append(out, fmt.Sprintf("%s: goroutine in a pure package", t.at(g)))
			}
			return true
		})
	})
	return out
}

func checkSyscalls(t *tree, allowed []string) (out []string) {
	t.each(func(pkg string, f *file) {
		if f.test || underAny(pkg, allowed) {
			return
		}
		f.uses("syscall", func(sel *ast.SelectorExpr) {
			if strings.HasPrefix(sel.Sel.Name, "Syscall") || strings.HasPrefix(sel.Sel.Name, "RawSyscall") {
				out = append(out, fmt.Sprintf("%s: syscall.%s outside the packages listed for it", t.at(sel), sel.Sel.Name))
			}
		})
	})
	return out
}

func checkDoc(t *tree) (out []string) {
	for _, pkg := range t.names() {
		var code, documented bool
		var name string
		for _, f := range t.pkgs[pkg] {
			if f.test {
				continue
			}
			code, name = true, f.ast.Name.Name
			if strings.HasSuffix("/"+f.path, "/doc.go") {
				documented = strings.HasPrefix(f.ast.Doc.Text(), "Package "+name+" ")
			}
		}
		if code && name != "main" && !documented {
			out = append(out, fmt.Sprintf("%s: no doc.go with a comment that starts with %q", pkg, "Package "+name))
		}
	}
	return out
}

func checkLength(t *tree) (out []string) {
	t.each(func(_ string, f *file) {
		if f.lines > maxLines && !ast.IsGenerated(f.ast) {
			out = append(out, fmt.Sprintf("%s: %d lines, split by %d", f.path, f.lines, maxLines))
		}
	})
	return out
}

func checkSleep(t *tree) (out []string) {
	t.each(func(_ string, f *file) {
		if !f.test {
			return
		}
		f.uses("time", func(sel *ast.SelectorExpr) {
			if sel.Sel.Name == "Sleep" {
				out = append(out, fmt.Sprintf("%s: time.Sleep: tests wait on events", t.at(sel)))
			}
		})
	})
	return out
}

// checkSkip wants a reason in every skip, so that a run can say why. It goes
// by the usual names of a testing.TB.
func checkSkip(t *tree) (out []string) {
	t.each(func(_ string, f *file) {
		if f.localName("testing") == "" {
			return
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if !ok || !slices.Contains([]string{"t", "b", "f", "tb"}, x.Name) {
				return true
			}
			switch sel.Sel.Name {
			case "SkipNow":
				out = append(out, fmt.Sprintf("%s: SkipNow says no reason", t.at(call)))
			case "Skip", "Skipf":
				if len(call.Args) == 0 || emptyString(call.Args[0]) {
					out = append(out, fmt.Sprintf("%s: %s without a reason", t.at(call), sel.Sel.Name))
				}
			}
			return true
		})
	})
	return out
}

func emptyString(e ast.Expr) bool {
	lit, ok := e.(*ast.BasicLit)
	return ok && lit.Kind == token.STRING && strings.TrimSpace(strings.Trim(lit.Value, "\"`")) == ""
}

// checkTestLength finds functions of tests that are too long. The lines of tables, which are literals
// of slices and maps, do not count.
func checkTestLength(t *tree) (out []string) {
	t.each(func(_ string, f *file) {
		if !f.test {
			return
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			lines := t.lines(fn)
			ast.Inspect(fn, func(n ast.Node) bool {
				lit, ok := n.(*ast.CompositeLit)
				if !ok {
					return true
				}
				switch lit.Type.(type) {
				case *ast.ArrayType, *ast.MapType:
					lines -= t.lines(lit)
					return false
				}
				return true
			})
			if lines > mostTestLines {
				out = append(out, fmt.Sprintf("%s: %s has %d lines beside its tables, split by %d", t.at(fn), fn.Name.Name, lines, mostTestLines))
			}
		}
	})
	return out
}

func (t *tree) lines(n ast.Node) int {
	return t.fset.Position(n.End()).Line - t.fset.Position(n.Pos()).Line
}
