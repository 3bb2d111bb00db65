//go:build live

package daemon

import (
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
)

// An application that does not honour the flag loses its session when it has touched far
// more than the share.
func TestTouchingFarBeyondTheShare(t *testing.T) {
	t.Parallel()
	_, svc, path := served(t, newLoopLab(t), config.Node{Linger: -1}, config.Service{Users: config.UserShares{Memory: 4 << 20}})
	e := intrude(t, path)
	defer e.leave()
	area := e.seg.ReceiveArea()
	for i := 0; i < 5<<20; i += 4096 {
		area[i] = 1
	}
	if u := rdstest.SharesOf(svc); !u.OverMemory || u.Memory < 5<<20 || u.Sessions != 1 || !e.seg.Short().IsSet() {
		t.Errorf("%+v", u)
	}
	for i := range area {
		if i%4096 == 0 {
			area[i] = 1
		}
		if i > 5<<20+pagesSlack+1<<20 {
			break
		}
	}
	rdstest.Eventually(t, "the end of the session", func() bool { return len(svc.Users()) == 0 })
	c := dialed(t, path)
	bound(t, c, rdstest.AddrOf(rdstest.NewAddr(), 5))
}

// A receive arena whose user has no share left is filled where it was filled before.
func TestReceiveBeyondTheShare(t *testing.T) {
	t.Parallel()
	l := newLoopLab(t)
	_, svc, path := served(t, l, config.Node{Linger: -1}, config.Service{Users: config.UserShares{Memory: 2 << 20}})
	c := dialed(t, path)
	to := bound(t, c, rdstest.AddrOf(rdstest.NewAddr(), 5))
	far := l.bindOne(config.Node{})
	const size, count = 100 << 10, 40
	done := make(chan error, 1)
	go func() {
		for range count {
			if err := far.Send(rdstest.Background(t), to.LocalAddrPort(), make([]byte, size)); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	rdstest.Eventually(t, "the share to be used up", func() bool { return rdstest.SharesOf(svc).OverMemory })
	before := rdstest.SharesOf(svc).Memory
	for range count {
		expectLen(t, to, size)
	}
	rdstest.NoError(t, <-done)
	if after := rdstest.SharesOf(svc).Memory; after > before+2<<20 {
		t.Errorf("%d bytes were touched, then %d", before, after)
	}
	rdstest.Eventually(t, "what was received to be given back", func() bool { return !rdstest.SharesOf(svc).OverMemory })
}
