//go:build interop

package interop

import (
	"testing"
	"time"

	"github.com/rds-go/rds/test/interop/peer"
)

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
func testMessages(t *testing.T, a, b *process, paths int) {
	nPairs := min(paths, 4) // so that several paths carry data
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
