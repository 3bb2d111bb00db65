package lint

import (
	"fmt"
	"go/ast"
	"go/build/constraint"
	"maps"
	"path"
	"slices"
	"strings"
)

// Each test belongs to a stage by the build tag of its file (CONTRIBUTING.md): without the tag live
// it is of the pure stage, where nothing depends on the machine's clock, its network or other
// processes. A package that has both kinds marks the files of pure tests with !live.

// constraintOf is the build constraint of a file, nil if it has none.
func constraintOf(f *file) constraint.Expr {
	for _, group := range f.ast.Comments {
		if group.Pos() > f.ast.Package {
			break
		}
		for _, c := range group.List {
			if x, err := constraint.Parse(c.Text); err == nil {
				return x
			}
		}
	}
	return nil
}

// builds tells whether a file can be part of a build with the tag live, or without it. Tests
// of interop are of neither.
func (f *file) builds(live bool) bool {
	x := constraintOf(f)
	if x == nil {
		return true
	}
	for _, others := range []bool{true, false} {
		if x.Eval(func(tag string) bool { return tag != "interop" && (tag == "live" && live || tag != "live" && others) }) {
			return true
		}
	}
	return false
}

// runs are the functions of a file that belong to a stage. Benchmarks belong to none, and Examples
// are run by the live stage alone, and have no tag, for a tag would hide them from the documentation.
func (f *file) runs() (list []*ast.FuncDecl) {
	for _, d := range f.ast.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !f.test || !ok || fn.Recv != nil || fn.Name.Name == "TestMain" {
			continue
		}
		for _, prefix := range []string{"Test", "Fuzz"} {
			if strings.HasPrefix(fn.Name.Name, prefix) {
				list = append(list, fn)
			}
		}
	}
	return list
}

// deed is a function, or a variable, of test code, and what it does and uses. Names are those in its
// package; ".name" is the method of that name, if no other method or field has it: without types
// nothing tells which is meant.
type deed struct {
	at         string
	clock      string          // what of the machine's clock it uses, outside of a bubble
	world      string          // what of the network or other processes it uses
	uses, safe map[string]bool // names used outside of a bubble, and inside
}

// deeds are those of the files, with names that begin with prefix. all are all files of the package.
func (t *tree) deeds(files, all []*file, prefix string) map[string]*deed {
	out := map[string]*deed{}
	methods := map[string]int{} // methods, and fields, by name
	for _, f := range all {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil {
					methods[n.Name.Name]++
				}
			case *ast.StructType:
				for _, field := range n.Fields.List {
					for _, name := range field.Names {
						methods[name.Name]++
					}
				}
			}
			return true
		})
	}
	add := func(f *file, name string, n ast.Node) {
		d := out[prefix+name]
		if d == nil {
			d = &deed{at: t.at(n), uses: map[string]bool{}, safe: map[string]bool{}}
			out[prefix+name] = d
		}
		d.look(f, n, false, prefix)
	}
	for _, f := range files {
		for _, decl := range f.ast.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				name := decl.Name.Name
				if decl.Recv != nil {
					if methods[name] > 1 {
						continue
					}
					name = "." + name
				}
				add(f, name, decl)
			case *ast.GenDecl:
				for _, s := range decl.Specs {
					if v, ok := s.(*ast.ValueSpec); ok {
						for _, n := range v.Names {
							add(f, n.Name, v)
						}
					}
				}
			}
		}
	}
	return out
}

// look notes what a part of a function does.
func (d *deed) look(f *file, n ast.Node, bubble bool, prefix string) {
	note := func(name string) {
		if bubble {
			d.safe[name] = true
		} else {
			d.uses[name] = true
		}
	}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if !bubble && slices.Contains(bubbles, callee(n)) {
				for _, a := range n.Args {
					d.look(f, a, true, prefix)
				}
				return false
			}
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if imported := f.importOf(x); ok && imported != "" {
				d.touch(imported, n.Sel.Name, bubble)
				if imported == "/"+helpers {
					note(common + n.Sel.Name)
				}
				return false
			}
			note(prefix + "." + n.Sel.Name)
		case *ast.Ident:
			note(prefix + n.Name)
		}
		return true
	})
}

// touch notes the use of a name of another package.
func (d *deed) touch(imported, name string, bubble bool) {
	for _, w := range worlds {
		if w.imported == imported && slices.ContainsFunc(w.names, func(p string) bool { ok, _ := path.Match(p, name); return ok }) {
			switch {
			case !w.clock:
				d.world = imported + "." + name
			case !bubble:
				d.clock = imported + "." + name
			}
		}
	}
}

// callee is the name of a function that is called, as "package.Name" or "name".
func callee(c *ast.CallExpr) string {
	switch f := c.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok {
			return x.Name + "." + f.Sel.Name
		}
	}
	return ""
}

// importOf is the package that an identifier means, "" if it means none.
func (f *file) importOf(x *ast.Ident) string {
	if x == nil || x.Obj != nil {
		return ""
	}
	for _, s := range f.ast.Imports {
		if p := importPath(s); f.localName(p) == x.Name {
			return p
		}
	}
	return ""
}

// checkStages finds files of no clear stage, and tests of the pure stage that reach for the clock or
// the world.
func checkStages(t *tree) (out []string) {
	shared := t.deeds(t.pkgs[helpers], t.pkgs[helpers], common)
	for _, pkg := range t.names() {
		var pure []*file // of the pure stage, and helpers
		hasLive := false
		for _, f := range t.pkgs[pkg] {
			if f.test && f.builds(false) {
				pure = append(pure, f)
			}
			hasLive = hasLive || f.test && f.builds(true) && !f.builds(false)
		}
		deeds := t.deeds(pure, t.pkgs[pkg], "")
		maps.Copy(deeds, shared)
		for _, f := range pure {
			if hasLive && f.builds(true) && len(f.runs()) > 0 {
				out = append(out, fmt.Sprintf("%s: tests that run in both stages: the file needs the tag live or !live", f.path))
				continue
			}
			for _, fn := range f.runs() {
				if why := reaches(deeds, fn.Name.Name); why != "" {
					out = append(out, fmt.Sprintf("%s: %s of the pure stage %s", t.at(fn), fn.Name.Name, why))
				}
			}
		}
	}
	return out
}

// reaches says how a function comes to the clock or the world, "" if it does not.
func reaches(deeds map[string]*deed, start string) string {
	type visit struct {
		name   string
		bubble bool
	}
	from := map[visit]visit{}
	way := func(v visit) string {
		var names []string
		for ; v.name != start; v = from[v] {
			names = append(names, v.name)
		}
		slices.Reverse(names)
		return strings.Join(names, ", ")
	}
	for queue := []visit{{start, false}}; len(queue) > 0; queue = queue[1:] {
		v := queue[0]
		d := deeds[v.name]
		if d == nil {
			continue
		}
		if what := d.world; what != "" || d.clock != "" && !v.bubble {
			if what == "" {
				what = d.clock
			}
			return strings.TrimSuffix(fmt.Sprintf("uses %s by %s", what, way(v)), " by ")
		}
		for _, next := range []struct {
			names  map[string]bool
			bubble bool
		}{{d.uses, v.bubble}, {d.safe, true}} {
			for _, name := range slices.Sorted(maps.Keys(next.names)) {
				n := visit{name, next.bubble}
				if _, seen := from[n]; !seen && n != (visit{start, false}) {
					from[n] = v
					queue = append(queue, n)
				}
			}
		}
	}
	return ""
}
