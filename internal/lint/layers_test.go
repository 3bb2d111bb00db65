package lint

import (
	"fmt"
	"slices"
	"strings"
)

// ban forbids imports. Packages are directories; imports of this module begin
// with "/". A name covers what is below it, one ending in "/" only that.
type ban struct {
	pkgs    []string // who; "" is everybody
	except  []string // but not these packages
	only    bool     // the packages themselves, not those below them
	imports []string // what they must not import
	allow   []string // but may import these
	deep    bool     // the packages must not import them through other packages of this module either
	why     string
}

func checkBans(t *tree, bans []ban) []string {
	var out []string
	for _, pkg := range t.names() {
		for _, b := range bans {
			if !b.concerns(pkg) {
				continue
			}
			for _, chain := range b.reach(t, pkg) {
				what := "imports " + chain[len(chain)-1]
				if len(chain) > 1 {
					what += " through " + strings.Join(chain[:len(chain)-1], ", ")
				}
				out = append(out, fmt.Sprintf("%s %s: %s", pkg, what, b.why))
			}
		}
	}
	return out
}

func (b ban) concerns(pkg string) bool {
	if underAny(pkg, b.except) {
		return false
	}
	if b.only {
		return slices.Contains(b.pkgs, pkg)
	}
	return underAny(pkg, b.pkgs)
}

func (b ban) forbids(imported string) bool {
	hit := slices.ContainsFunc(b.imports, func(p string) bool {
		if p == "/" {
			return strings.HasPrefix(imported, "/")
		}
		return under(imported, p)
	})
	return hit && !underAny(imported, b.allow)
}

// reach returns the ways from pkg to forbidden imports: one step, or for a
// deep ban any number through packages of this module, each visited once.
func (b ban) reach(t *tree, pkg string) (chains [][]string) {
	seen := map[string]bool{pkg: true}
	var walk func(pkg string, chain []string)
	walk = func(pkg string, chain []string) {
		for _, imp := range t.imports(pkg) {
			next := append(slices.Clone(chain), imp)
			if b.forbids(imp) {
				chains = append(chains, next)
				continue
			}
			if dir, ok := strings.CutPrefix(imp, "/"); ok && b.deep && !seen[dir] {
				seen[dir] = true
				walk(dir, next)
			}
		}
	}
	walk(pkg, nil)
	return chains
}
