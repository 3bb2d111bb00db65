package xrc

import (
	"maps"
	"slices"
)

// apart keeps two hosts from connecting until the function returned is called.
func apart(a, b *host) (again func()) {
	a.apart.Store(true)
	b.apart.Store(true)
	a.cut()
	b.cut()
	return func() {
		for _, h := range []*host{a, b} {
			h.apart.Store(false)
			h.mu.Lock()
			remotes := slices.Collect(maps.Keys(h.keepers))
			h.mu.Unlock()
			for _, remote := range remotes {
				h.change(remote, func(*keeper) {})
			}
		}
	}
}
