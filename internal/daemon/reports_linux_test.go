//go:build live

package daemon

import (
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
)

// A report that was begun while a call was being served is not what a session gets after
// the call: its part may be missing there.
func TestReportFollowsCalls(t *testing.T) {
	t.Parallel()
	n, svc, path := served(t, newLoopLab(t), config.Node{}, config.Service{})
	c := dialed(t, path)
	x := onlySession(svc)
	addr := rdstest.AddrOf(rdstest.NewAddr(), 5)
	done := make(chan error, 1)
	release := rdstest.Hold(&x.mu)
	go func() {
		_, err := c.Bind(addr)
		done <- err
	}()
	for range 20 { // the call comes during one of them, and waits for x.mu
		if _, err := n.Report(); err != nil {
			t.Error(err)
		}
	}
	release()
	rdstest.Must(t, <-done)
	info, err := c.Info()
	if err != nil || len(info.Sockets) != 1 || len(info.Sessions) != 1 {
		t.Errorf("%+v, %v", info, err)
	}
}

// The members of a report group see what all users have, others see their own.
func TestReportGroups(t *testing.T) {
	t.Parallel()
	needRoot(t)
	_, _, path := served(t, newLoopLab(t), config.Node{}, config.Service{ReportGroups: []uint32{12009, 12002}})
	openTo(t, path)
	bound(t, dialed(t, path), rdstest.AddrOf(rdstest.NewAddr(), 5))
	for i, do := range []string{"info", "info of all"} {
		u := asUser(t, 12001+uint32(i), userOrder{Path: path, Do: do, At: rdstest.NewAddr(), N: 2}) // the user's group has the same number
		if n, errno := u.done(); n != 2 || errno != 0 {
			t.Errorf("%s: %d reports, errno %d", do, n, errno)
		}
		u.kill()
	}
}

// onlySession is the session of a service that has one.
func onlySession(svc *Service) *session {
	svc.mu.Lock()
	defer svc.mu.Unlock()
	for _, x := range svc.sessions {
		return x
	}
	return nil
}
