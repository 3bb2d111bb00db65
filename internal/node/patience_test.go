//go:build !live

package node

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rds-go/rds/internal/gnetloop"
	"github.com/rds-go/rds/transport"
)

// silence is a peer that does not answer.
type silence struct{}

func (silence) Close(transport.CloseMode) {}

// A dial of a peer that does not answer lasts the shorter the more there are, and makes no second attempt
// among many.
func TestManyDialsAreShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := new(Node)
		for _, c := range []struct {
			dials    int64
			lasts    time.Duration
			attempts int32
		}{{1, dialTimeout, 21}, {patientDials, dialTimeout, 21}, {2 * patientDials, dialTimeout / 2, 1}, {100_000, leastPatience, 1}} {
			ctx, cancel := n.patience(t.Context(), c.dials)
			var attempts atomic.Int32
			begin := time.Now()
			_, err := gnetloop.Insist(ctx, func(ctx context.Context) (silence, error) {
				attempts.Add(1)
				<-ctx.Done()
				return silence{}, ctx.Err()
			})
			cancel()
			if lasted := time.Since(begin); !errors.Is(err, context.DeadlineExceeded) || lasted != c.lasts || attempts.Load() != c.attempts {
				t.Errorf("one of %d dials: %d attempts in %v, want %d in %v: %v", c.dials, attempts.Load(), lasted, c.attempts, c.lasts, err)
			}
		}
	})
}
