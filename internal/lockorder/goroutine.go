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
	pcs   [12]uintptr // return addresses: into Lock, into its caller, and so on
	depth int
}

// goroutines has each *goroutine in or behind the place that its id names. The runtime uses the
// record of a goroutine that has ended for another one, so there are never more than ran at a
// time. A record is never removed.
var goroutines [1 << 17]atomic.Pointer[goroutine]

// getg returns the address of the runtime's record of the goroutine.
func getg() uintptr

// callers fills in the return addresses of the caller's frame and of those below it, and returns
// how many. It follows frame pointers: runtime.Callers takes a microsecond or more, which was three
// quarters of the time of a test that takes many locks.
//
//go:noescape
func callers(pcs *[12]uintptr) int

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
//go:noinline
func (g *goroutine) took(lock any, c *class) {
	raceDisable()
	g.mu.Lock()
	full := g.n == mostHeld
	if !full {
		h := &g.held[g.n]
		h.lock, h.class = lock, c
		h.depth = callers(&h.pcs)
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

// stack is where the lock was taken. Of the calls that the compiler has put in line in one function
// it has the innermost and the function.
func (h holding) stack() string {
	var b strings.Builder
	for _, pc := range h.pcs[:h.depth] {
		f, _ := runtime.CallersFrames([]uintptr{pc}).Next()
		fmt.Fprintf(&b, "\t%s\n\t\t%s:%d\n", f.Function, f.File, f.Line)
		if outer := runtime.FuncForPC(f.Entry); outer != nil && outer.Name() != f.Function {
			fmt.Fprintf(&b, "\t%s\n", outer.Name())
		}
	}
	return b.String()
}
