//go:build live

package client

import (
	"errors"
	"runtime"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/datagram"
)

// A daemon that ends while its socket is about to be put to use has its loss told behind what it
// has brought, and the socket waits for the next one.
func TestDaemonEndsBeforeItsSocketIsUsed(t *testing.T) {
	t.Parallel()
	d, s, far := newAttached(t, newLoopLab(t))
	half := clientHalfOf(s)
	d.stop()
	rdstest.Eventually(t, "the loss", func() bool { return half.Begun() == 1 })
	release := rdstest.Hold(&half.Queue.TakeMu) // use waits
	d.start()
	var att *attachment
	rdstest.Eventually(t, "the attachment", func() bool { att, _ = half.c.current(); return att != nil })
	for i := uint64(0); ; i++ { // those that come before the daemon has bound its half are refused
		rdstest.MustSend(t, far, s.LocalAddrPort(), rdstest.Payload(i, 100))
		att.sockMu.Lock()
		n := len(att.early)
		att.sockMu.Unlock()
		if n > 0 {
			break
		}
		runtime.Gosched()
	}
	d.stop()
	<-att.gone
	release()
	rdstest.Eventually(t, "the loss", func() bool { return half.Begun() >= 2 && half.half.Load() == nil })
	var last error
	messages := 0
	rdstest.Eventually(t, "a message, and the loss behind it", func() bool {
		m, err := s.TryRecv()
		if err == nil {
			messages++
			m.Release()
		}
		if !errors.Is(err, datagram.ErrWouldBlock) {
			last = err
		}
		return messages > 0 && errors.Is(last, datagram.ErrDaemonLost)
	})
	startBound(t, d, s)
	rdstest.MustSend(t, far, s.LocalAddrPort(), rdstest.Payload(7, 100))
	rdstest.Eventually(t, "a message of the next daemon", func() bool {
		m, err := s.TryRecv()
		if err != nil {
			return false
		}
		defer m.Release()
		return rdstest.Verify(m.Data, 7) == nil
	})
	if n := half.half.Load().cell.TakenMessages.Load(); n != 1 {
		t.Errorf("%d messages are taken of 1", n)
	}
}
