//go:build !live

package node

import (
	"context"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
)

// A sender that gives up when it has just been told of room passes that on.
func TestSenderThatGivesUpLeavesTheRoomToOthers(t *testing.T) {
	rdstest.Bubble(t, func(t *testing.T) {
		s := halfOf(newLoopLab(t).bindOne(config.Node{}))
		p, err := s.peerFor(rdstest.NewAddr())
		rdstest.Must(t, err)
		p.Down.Store(false) // as if it were up: it may have all of the buffer
		rdstest.GivingUp(t, &s.Writers, &s.Account, func(ctx context.Context) error { return s.charge(ctx, s.Share(p), 1, 1000, true) })
	})
}
