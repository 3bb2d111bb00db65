//go:build live

package xrc

import (
	"testing"
)

// A message costs no allocation on either side once all has its size.
func TestMessagesDoNotAllocate(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates: run without -race")
	}
	x := newBench(t, 64)
	x.run(t, 2000, 256)
	const each = 500
	if got := testing.AllocsPerRun(10, func() { x.run(t, each, 256) }); got/each > 0.1 {
		t.Errorf("%.2f allocations for a message", got/each)
	}
}
