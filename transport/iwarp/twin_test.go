//go:build !live

package iwarp

import (
	"fmt"
	"testing"

	"github.com/rds-go/rds/internal/invariants"
)

// The engine's receiver, which places octets as they come, does the same as the
// plain parsers with any stream, however it is split.
func TestReceiverMatchesItsTwin(t *testing.T) {
	t.Parallel()
	for i, s := range streams {
		for _, readBuffer := range []int{4 << 10, 256 << 10} {
			inBubble(t, fmt.Sprintf("%s/%d", s.name, readBuffer), func(t *testing.T) {
				host := twinHost(t, readBuffer)
				s := s
				s.slow = false
				n := 8
				if invariants.Enabled {
					n = 2
				}
				for n := range n {
					compareTwins(t, host.of(t), uint64(i*1000+n), s)
				}
			})
		}
	}
}
