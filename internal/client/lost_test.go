//go:build !live

package client

import (
	"errors"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/datagram"
)

// A call that was under way when a daemon ended reports that loss alone: that of the next
// daemon is told by another call.
func TestCallReportsTheLossOfItsOwnDaemon(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		d, s, _ := newAttached(t, l)
		half := clientHalfOf(s)
		first := half.half.Load()
		for losses := uint64(1); losses <= 2; losses++ {
			d.stop()
			rdstest.Eventually(t, "the loss", func() bool { return half.Begun() == losses })
			startBound(t, d, s)
		}
		if err := half.lossOf(first); !errors.Is(err, datagram.ErrDaemonLost) {
			t.Errorf("the call: %v", err)
		}
		_, err := s.TryRecv()
		rdstest.WantErr(t, "TryRecv", err, datagram.ErrDaemonLost)
		_, err = s.TryRecv()
		rdstest.WantErr(t, "TryRecv", err, datagram.ErrWouldBlock)
	})
}

// A socket that was bound at a daemon that has ended since is nobody's: whoever binds hears of
// the loss, and the next daemon is not asked for it twice.
func TestBoundTooEarly(t *testing.T) {
	bubble(t, func(t *testing.T, l *lab) {
		d, s, _ := newAttached(t, l)
		half := clientHalfOf(s)
		c, first := half.c, half.half.Load().att
		d.stop()
		rdstest.Eventually(t, "the loss", func() bool { return half.Begun() == 1 })
		late := newSocket(c, first)
		if err := c.remember(late, first); !errors.Is(err, datagram.ErrDaemonLost) {
			t.Errorf("remember: %v", err)
		}
		startBound(t, d, s)
		if err := c.remember(late, first); !errors.Is(err, datagram.ErrDaemonLost) {
			t.Errorf("remember: %v", err)
		}
		if n := len(c.sockets()); n != 1 {
			t.Errorf("the client has %d sockets", n)
		}
	})
}
