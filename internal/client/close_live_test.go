//go:build live

package client

import (
	"runtime"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
)

// A socket that is closed while it is bound at the next daemon leaves its port.
func TestClosedWhileBoundAgain(t *testing.T) {
	t.Parallel()
	d, s, _ := newAttached(t, newLoopLab(t))
	half := clientHalfOf(s)
	d.stop()
	rdstest.Eventually(t, "the loss", func() bool { return half.Begun() == 1 })
	release := rdstest.Hold(&half.Queue.TakeMu) // use waits, and Close when it has found no half
	d.start()
	rdstest.Eventually(t, "the daemon to have bound the port", func() bool { return len(d.node.Sockets()) > 0 })
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	rdstest.Eventually(t, "the close", func() bool { return half.Closed.Load() })
	runtime.Gosched()
	release()
	rdstest.NoError(t, <-closed)
	rdstest.Eventually(t, "the port to be free", func() bool { return len(d.node.Sockets()) == 0 })
}
