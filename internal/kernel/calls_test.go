//go:build !live

package kernel

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/socket"
	"github.com/rds-go/rds/rds/datagram"
)

// The kernel has no time limits of messages.
func TestTimeLimitsAreNotSupported(t *testing.T) {
	o := datagram.Outgoing{Expires: time.Unix(1<<31, 0)}
	err := socket.New(new(Socket)).TrySendMessage(&o)
	if !errors.Is(err, datagram.ErrNotSupported) || !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Errorf("%v", err)
	}
}
