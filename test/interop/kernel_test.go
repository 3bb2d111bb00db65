//go:build interop

package interop

import (
	"testing"
	"time"

	"github.com/rds-go/rds/test/interop/peer"
)

// TestKernelToKernel runs cases between two guests: what fails here is the
// harness's fault or the kernel's, not ours.
func TestKernelToKernel(t *testing.T) {
	l := newLab(t, 2)
	a := l.startGuest(t, 0, guestAddr)
	a.stopWith(t)
	b := l.boot(t, 1, otherGuest)
	a.waitReady(t)
	t.Run("ping", func(t *testing.T) { testPing(t, a, b) })
	t.Run("messages", func(t *testing.T) { testMessages(t, a, b, 4) })
	t.Run("congestion", func(t *testing.T) { testCongestion(t, a, b) })
	t.Run("kills", func(t *testing.T) { testKills(t, a, b, 8) })
}

// testPing is case (a): pings in both directions.
func testPing(t *testing.T, a, b *process) {
	for _, way := range [][2]*process{{a, b}, {b, a}} {
		s := way[0].bind(t, 0, 0)
		for range 3 {
			d, err := s.ping(t.Context(), way[1].addr)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s pings %v: %v", s.name, way[1].addr, d)
		}
	}
}

// testMessages is case (b): 10,000 messages each way, in order, none lost or
// doubled.
func testMessages(t *testing.T, a, b *process, nPairs int) {
	flows := pairs(t, a, b, nPairs, bufferSize)
	for i := range flows {
		flows[i].stream = peer.Stream{Seed: uint64(100 * i), Count: 10_000 / nPairs, Large: 36 / nPairs}
	}
	start := time.Now()
	if err := exchange(t.Context(), bothWays(flows)); err != nil {
		t.Fatal(err)
	}
	t.Logf("20,000 messages in %v", time.Since(start).Round(time.Millisecond))
}
