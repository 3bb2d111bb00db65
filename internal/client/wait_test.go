//go:build !live

package client

import (
	"context"
	"testing"

	"github.com/rds-go/rds/internal/ipc"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
)

// A sender that gives up when it has just been told of room passes that on.
func TestSenderThatGivesUpLeavesTheRoomToOthers(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		_, path := serving(t, l.node(config.Node{}), config.Service{})
		s := clientHalfOf(bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 100)))
		h := s.half.Load()
		d := &destination{h.att, s.addr.Addr(), ipc.MaxPeers - 1} // up, as far as the table says
		rdstest.GivingUp(t, &s.writers, &h.account, func(ctx context.Context) error { return s.charge(ctx, h, d, 1, 1000, true) })
	})
}
