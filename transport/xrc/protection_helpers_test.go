package xrc

import (
	"bytes"
	"context"

	"github.com/rds-go/rds/transport/iwarp"
)

// noticesNothing checks that a process has no event and no completion, and that a region of its
// is as it was.
func (a *app) noticesNothing(m *iwarp.MR) {
	t := a.h.n
	t.Helper()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if e, err := a.NextEvent(over); err == nil {
		t.Errorf("event %v", e)
	}
	if k := a.cq.Poll(make([]iwarp.Completion, 1)); k != 0 {
		t.Error("a completion")
	}
	must(t, m.Dereg(within(t))) // orders the memory for the race detector
	if !bytes.Equal(m.Bytes(), make([]byte, len(m.Bytes()))) {
		t.Error("a request that was refused has changed memory")
	}
}
