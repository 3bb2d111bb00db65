//go:build invariants && amd64

package lockorder

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
)

// goroutine is what a goroutine holds.
type goroutine struct {
	id   uintptr    // address of the runtime's record of the goroutine; constant
	mu   sync.Mutex // guards n and held: another goroutine may unlock
	n    int
	held [mostHeld]holding // the first n locks are held
}

// mostHeld bounds how many locks a goroutine may hold.
const mostHeld = 24

type holding struct {
	lock  any
	class *class
	pcs   [12]uintptr // callers of Lock
	depth int
}

// goroutines has each *goroutine in or behind the place that its id names. The runtime uses the
// record of a goroutine that has ended for another one, so there are never more than ran at a
// time. A record is never removed.
var goroutines [1 << 17]atomic.Pointer[goroutine]

// getg returns the address of the runtime's record of the goroutine.
func getg() uintptr

// Functions that read or write a goroutine or a class carry norace, and call the race detector
// off while they synchronise: the detector must not learn an order of goroutines from this
// package, or it would report no race between two goroutines that have taken some locks in turn.

// current finds or makes the record of the calling goroutine.
//
//go:norace
func current() *goroutine {
	raceDisable()
	defer raceEnable()
	id := getg()
	for i := id >> 5; ; i++ {
		at := &goroutines[i%uintptr(len(goroutines))]
		g := at.Load()
		if g == nil {
			g = &goroutine{id: id}
			if !at.CompareAndSwap(nil, g) {
				g = at.Load()
			}
		}
		if g.id == id {
			return g
		}
	}
}

// check panics if a lock of class c may not be taken behind those that the goroutine holds.
//
//go:norace
func (g *goroutine) check(c *class) {
	raceDisable()
	g.mu.Lock()
	wrong := -1
	for i := range g.n {
		if g.held[i].class.rank >= c.rank {
			wrong = i
			break
		}
	}
	g.mu.Unlock()
	raceEnable()
	if wrong >= 0 {
		h := g.held[wrong]
		panic(fmt.Sprintf("docs/LOCKING.md does not let a goroutine take %s while it holds %s, which it took at\n%s", c.name, h.class.name, h.stack()))
	}
}

//go:norace
func (g *goroutine) took(lock any, c *class) {
	raceDisable()
	g.mu.Lock()
	full := g.n == mostHeld
	if !full {
		h := &g.held[g.n]
		h.lock, h.class = lock, c
		h.depth = runtime.Callers(3, h.pcs[:])
		g.n++
	}
	g.mu.Unlock()
	raceEnable()
	if full {
		panic(fmt.Sprintf("a goroutine holds more than %d locks", mostHeld))
	}
}

//go:norace
func (g *goroutine) gave(lock any) {
	raceDisable()
	g.mu.Lock()
	at := g.n - 1
	for at >= 0 && g.held[at].lock != lock {
		at--
	}
	if at >= 0 {
		for i := at; i < g.n-1; i++ {
			g.held[i] = g.held[i+1]
		}
		g.n--
		g.held[g.n].lock = nil
	}
	g.mu.Unlock()
	raceEnable()
	if at < 0 {
		panic(fmt.Sprintf("a %T is given back that the goroutine does not hold", lock))
	}
}

// forget has the goroutine hold nothing any more.
//
//go:norace
func (g *goroutine) forget() { g.n = 0 }

func (h holding) stack() string {
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
