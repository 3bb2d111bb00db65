//go:build !live

package node

import (
	"testing"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/xrc"
)

// Expected time until some guess hits, with the rates that nodes have and the bits that
// cookies have (docs/XRC.md, "Keys").
func TestExpectedTimeToAHit(t *testing.T) {
	t.Parallel()
	const year = 365.25 * 24 * 3600
	for _, c := range []struct {
		name    string
		peers   float64
		regions float64
		size    float64
		known   float64 // keys that are out of the question, because the guesser has them
		least   float64 // years
	}{
		{"1,000 regions of 8 KiB", 1, 1000, mr.SmallSize, 0, 1},
		{"1,000 regions of 8 KiB, one key known", 1, 999, mr.SmallSize, 1, 1},
		{"1,000 regions of 8 KiB, 64 guessers", 64, 1000, mr.SmallSize, 0, 1},
		{"1,000 regions of 64 KiB", 1, 1000, 64 << 10, 0, 1},
		{"1,000 regions of 64 KiB, one key known", 1, 999, 64 << 10, 1, 1},
		{"1,000 regions of 64 KiB, 64 guessers", 64, 1000, 64 << 10, 0, 1},
		{"1,000 regions of 1 MiB", 1, 1000, 1 << 20, 0, 1},
		{"1,000 regions of 1 MiB, one key known", 1, 999, 1 << 20, 1, 1},
		{"1,000 regions of 1 MiB, 64 guessers", 64, 1000, 1 << 20, 0, 0.5},
	} {
		rate := min(c.peers*xrc.PeerLookUps, xrc.LookUps)
		keys := float64(^mr.Key(0)) - c.known              // 0 is none
		places := float64(^uint32(0)&^pageMask) + pageMask // addresses that a region may begin at
		tries := keys / c.regions * places / c.size
		years := tries / rate / year
		t.Logf("%-45s %10.2f years", c.name, years)
		if years < c.least {
			t.Errorf("%s: %.2f years", c.name, years)
		}
	}
}
