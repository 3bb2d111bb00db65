//go:build invariants && amd64

package lockorder

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// goroutine is what a goroutine holds.
type goroutine struct {
	mu   sync.Mutex // guards held: another goroutine may unlock
	held []holding
}

type holding struct {
	lock  any
	class *class
	pcs   [12]uintptr // callers of Lock
	depth int
}

// goroutines has each *goroutine by getg, in parts so that few wait for each other. The runtime
// uses the record of a goroutine that has ended for another one, so there are never more than
// ran at a time.
var goroutines [64]struct {
	mu sync.RWMutex
	m  map[uintptr]*goroutine // guarded by mu
}

// getg returns the address of the runtime's record of the goroutine.
func getg() uintptr

func current() *goroutine {
	id := getg()
	part := &goroutines[id>>5%uintptr(len(goroutines))]
	part.mu.RLock()
	g := part.m[id]
	part.mu.RUnlock()
	if g != nil {
		return g
	}
	part.mu.Lock()
	defer part.mu.Unlock()
	if part.m == nil {
		part.m = make(map[uintptr]*goroutine)
	}
	g = new(goroutine)
	part.m[id] = g
	return g
}

// check panics if a lock of class c may not be taken behind those that the goroutine holds.
func (g *goroutine) check(c *class) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.held {
		if h := &g.held[i]; h.class.rank >= c.rank {
			panic(fmt.Sprintf("docs/LOCKING.md does not let a goroutine take %s while it holds %s, which it took at\n%s", c.name, h.class.name, h.stack()))
		}
	}
}

func (g *goroutine) took(lock any, c *class) {
	h := holding{lock: lock, class: c}
	h.depth = runtime.Callers(3, h.pcs[:])
	g.mu.Lock()
	g.held = append(g.held, h)
	g.mu.Unlock()
}

func (g *goroutine) gave(lock any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := len(g.held) - 1; i >= 0; i-- {
		if g.held[i].lock == lock {
			g.held = slices.Delete(g.held, i, i+1)
			return
		}
	}
	panic(fmt.Sprintf("a %T is given back that the goroutine does not hold", lock))
}

func (h *holding) stack() string {
	var b strings.Builder
	frames := runtime.CallersFrames(h.pcs[:h.depth])
	for {
		f, more := frames.Next()
		fmt.Fprintf(&b, "\t%s\n\t\t%s:%d\n", f.Function, f.File, f.Line)
		if !more {
			return b.String()
		}
	}
}
