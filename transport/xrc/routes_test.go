package xrc

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp"
)

// What is told of ports and queues, in any order, comes to what it says: whose each port
// is, and that those of queues that are not ready are held, each once and as long as that.
func TestRoutesFollowTheNews(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 3))
		var (
			routes = routes{first: 1}
			home   = map[uint16]uint32{}
			closed = map[uint32]bool{}
			held   = map[uint16]bool{}
		)
		turn := func(port uint16, on bool) {
			if held[port] == on {
				t.Fatalf("seed %d: port %d is told of twice: %v", seed, port, on)
			}
			if held[port] = on; !on {
				delete(held, port)
			}
		}
		for step := range 3000 {
			queue := 1 + uint32(r.IntN(5))
			if r.IntN(2) == 0 {
				port := uint16(r.IntN(40) * 150)
				home[port] = queue
				if on, changed := routes.home(port, queue); changed {
					turn(port, on)
				}
			} else {
				state := iwarp.QueueState(1 + r.IntN(3))
				if queue > 1 {
					closed[queue] = state == iwarp.QueueNotReady
					if state == iwarp.QueueGone {
						for p, q := range home {
							if q == queue {
								delete(home, p)
							}
						}
					}
				}
				ports, on := routes.state(queue, state)
				for _, p := range ports {
					turn(p, on)
				}
			}
			for i := range uint16(40) {
				port := i * 150
				want := max(1, home[port])
				if got := routes.queue(port); got != want {
					t.Fatalf("seed %d, step %d: port %d is of %d, not %d", seed, step, port, got, want)
				}
				if held[port] != closed[want] {
					t.Fatalf("seed %d, step %d: port %d of %d is held: %v", seed, step, port, want, held[port])
				}
			}
			if got := routes.queue(7); got != 1 {
				t.Fatalf("a port that nobody spoke of is of %d", got)
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
	ports, held := r.state(3, iwarp.QueueNotReady)
	if !slices.Equal(ports, []uint16{0, 5, 256, 65535}) || !held {
		t.Errorf("%d, %v", ports, held)
	}
	if ports, _ := r.state(3, iwarp.QueueNotReady); ports != nil {
		t.Errorf("told again: %d", ports)
	}
	if ports, held := r.state(3, iwarp.QueueGone); len(ports) != 4 || held {
		t.Errorf("gone: %d, %v", ports, held)
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
