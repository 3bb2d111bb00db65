//go:build !live

package xrc

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp"
)

// What is told of ports and queues, in any order, comes to what it says at the end of each
// burst: whose each port is, and that those of queues that are not ready are held, each once
// and as long as that.
func TestRoutesFollowTheNews(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 3))
		var (
			routes = routes{first: 1}
			home   = map[uint16]uint32{}
			closed = map[uint32]bool{}
			full   = map[uint16]bool{}
			held   = map[uint16]bool{}
		)
		turn := func(ports []uint16, on bool) {
			for _, port := range ports {
				if held[port] == on {
					t.Fatalf("seed %d: port %d is told of twice: %v", seed, port, on)
				}
				held[port] = on
			}
		}
		for step := range 3000 {
			for range r.IntN(5) {
				queue, port := 1+uint32(r.IntN(5)), uint16(r.IntN(40)*150)
				switch r.IntN(3) {
				case 0:
					home[port] = queue
					routes.home(port, queue)
				case 1:
					full[port] = !full[port]
					if routes.fill(port, full[port]) {
						turn([]uint16{port}, full[port])
					}
					if full[port] && !held[port] {
						t.Fatalf("seed %d, step %d: full port %d is not held", seed, step, port)
					}
				default:
					routes.state(queue, iwarp.QueueState(1+r.IntN(3)))
				}
			}
			for queue, state := range routes.news {
				closed[queue] = state == iwarp.QueueNotReady
				if state == iwarp.QueueGone {
					for p, q := range home {
						if q == queue {
							delete(home, p)
						}
					}
				}
			}
			hold, free := routes.apply()
			turn(hold, true)
			turn(free, false)
			for i := range uint16(40) {
				port := i * 150
				want := max(1, home[port])
				if got := routes.queue(port); got != want {
					t.Fatalf("seed %d, step %d: port %d is of %d, not %d", seed, step, port, got, want)
				}
				if held[port] != (closed[want] || full[port]) {
					t.Fatalf("seed %d, step %d: port %d of %d is held: %v", seed, step, port, want, held[port])
				}
			}
			if got := routes.queue(7); got != 1 {
				t.Fatalf("a port that nobody spoke of is of %d", got)
			}
			known := 0
			for i := range uint16(40) {
				if pages := routes.pages.Load(); pages != nil && pages[i*150>>8].Load() != nil && pages[i*150>>8].Load()[i*150&0xff].Load() != 0 {
					known++
				}
			}
			if routes.known != known {
				t.Fatalf("seed %d, step %d: %d ports are known, and counted %d", seed, step, known, routes.known)
			}
		}
	}
}

func TestRoutesOfOneQueue(t *testing.T) {
	t.Parallel()
	r := routes{first: 1}
	for _, p := range []uint16{5, 0, 65535, 256} {
		r.home(p, 3)
	}
	r.home(6, 2)
	told := func(what string, hold, free int) {
		t.Helper()
		if h, f := r.apply(); len(h) != hold || len(f) != free {
			t.Errorf("%s: %d are held, %d free", what, h, f)
		}
	}
	r.state(3, iwarp.QueueNotReady)
	told("not ready", 4, 0)
	r.state(3, iwarp.QueueNotReady)
	told("told again", 0, 0)
	for range 1000 {
		r.state(3, iwarp.QueueReady)
		r.state(3, iwarp.QueueNotReady)
	}
	told("back and forth in one burst", 0, 0)
	r.state(3, iwarp.QueueGone)
	told("gone", 0, 4)
}

// A peer that says of all ports whose they are has no more of them noted than are looked at
// when a queue changes: those that it has spoken of last.
func TestRoutesAreBounded(t *testing.T) {
	t.Parallel()
	r := routes{first: 1}
	for range 2 {
		for p := range 1 << 16 {
			r.home(uint16(p), 3)
			if r.queue(uint16(p)) != 3 || r.known > maxHomes {
				t.Fatalf("port %d is of %d, %d are known", p, r.queue(uint16(p)), r.known)
			}
		}
	}
	r.state(3, iwarp.QueueNotReady)
	hold, _ := r.apply()
	if len(hold) != r.known || len(hold) < maxHomes-256 {
		t.Errorf("%d ports are held, %d known", len(hold), r.known)
	}
	for i := range uint32(2 * maxNews) {
		r.state(10+i, iwarp.QueueNotReady)
	}
	r.home(1, 10)
	r.state(3, iwarp.QueueGone)
	if _, free := r.apply(); len(free) < maxHomes-512 || r.known > 257 {
		t.Errorf("%d ports are free, %d known", len(free), r.known)
	}
}

func BenchmarkRoutesTurn(b *testing.B) {
	for _, ports := range []int{0, 256, maxHomes} {
		b.Run(fmt.Sprint(ports), func(b *testing.B) {
			r := routes{first: 1}
			for p := range ports {
				r.home(uint16(p*8), 3)
			}
			for i := 0; b.Loop(); i++ {
				r.state(3, iwarp.QueueState(1+i%2))
				r.apply()
			}
		})
	}
}

// held notes which ports a handler was told of.
type held struct {
	transport.Handler
	told []string
}

func (h *held) Hold(ports []uint16, on bool) {
	h.told = append(h.told, fmt.Sprint(ports, on))
}

// The handler hears of full ports that the peer has told of before Start, unless they have
// room again, in front of what the peer tells next; and of each once.
func TestFullPortsBeforeStart(t *testing.T) {
	t.Parallel()
	h := &held{}
	in := &input{link: &link{}}
	in.Full(1, true)
	in.Full(2, true)
	in.Full(1, false)
	in.Full(1<<16, true)
	if len(h.told) != 0 {
		t.Errorf("told %q before Start", h.told)
	}
	in.h = h
	in.started.Store(true)
	in.Full(3, true)
	in.Full(2, false)
	in.Full(3, true)
	in.Full(1<<16, true)
	if want := []string{"[2] true", "[3] true", "[2] false"}; !slices.Equal(h.told, want) {
		t.Errorf("told %q, want %q", h.told, want)
	}
}
