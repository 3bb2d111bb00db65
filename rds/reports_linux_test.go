package rds

import (
	"testing"
)

// A report that was begun while a call was being served is not what a session gets after
// the call: its part may be missing there.
func TestReportFollowsCalls(t *testing.T) {
	t.Parallel()
	n, svc, path := served(t, newLoopLab(t), Config{}, ServiceConfig{})
	c := dialed(t, path)
	x := onlySession(svc)
	addr := addrOf(newAddr(), 5)
	done := make(chan error, 1)
	x.mu.Lock()
	go func() {
		_, err := c.Bind(addr)
		done <- err
	}()
	for range 20 { // the call comes during one of them, and waits for x.mu
		if _, err := n.Report(); err != nil {
			t.Error(err)
		}
	}
	x.mu.Unlock()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	info, err := c.Info()
	if err != nil || len(info.Sockets) != 1 || len(info.Sessions) != 1 {
		t.Errorf("%+v, %v", info, err)
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
