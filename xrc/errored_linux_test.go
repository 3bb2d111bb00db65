//go:build live

package xrc

import (
	"sync"
	"testing"

	"github.com/rds-go/rds/internal/invariants"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/xrc/objects"
)

// together does something for each number below n, for 8 at a time.
func together(t *testing.T, n int, f func(k int) error) {
	t.Helper()
	const callers = 8
	var crowd sync.WaitGroup
	for c := range callers {
		crowd.Go(func() {
			for k := c; k < n; k += callers {
				if err := f(k); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	crowd.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// Two processes are registered with 10,000 targets whose initiators end. Each target is then in error, and all that the
// daemon keeps of it is a table entry of less than 2 KiB. The processes hear of it, look, and unregister:
// the targets live while one process is registered, and the last one to unregister destroys them.
func TestXRCREQ28TargetsInErrorOfTwoProcessesHoldNothing(t *testing.T) { // not in parallel: it measures the heap
	const most, round = 2 << 10, 250
	targets := 10_000
	if invariants.Enabled { // the detector of races takes ten times as long
		targets = 1000
	}
	l := rdstest.NewLab(t)
	near, far := newHost(t, &l), newHost(t, &l)
	f := domainFile(t)
	both := [2]*worker{startProcess(t, f, registrantRole, far.path, "7"), startProcess(t, f, registrantRole, far.path, "0")}
	for _, r := range both {
		r.hear("ready")
	}
	p := newProcess(t, near, nil, 1, 1024)
	ours := func() int { return far.node.Xrc.Objects().Stats().TotalTargets() }
	everybody := func(what string, numbers []uint32) {
		t.Helper()
		var calls sync.WaitGroup
		for _, r := range both {
			calls.Go(func() { r.do(what, list(numbers)) })
		}
		calls.Wait()
	}
	var all []uint32
	fail := func() []uint32 { // a round of targets whose initiators have ended
		numbers, initiators := make([]uint32, round), make([]*Initiator, round)
		ctx := rdstest.Background(t)
		together(t, round, func(k int) (err error) {
			initiators[k], err = p.Connect(ctx, InitiatorAttr{PD: p.pd, CQ: p.cq, Remote: far.addr, Service: 7, MaxSend: 1})
			if err == nil {
				numbers[k] = initiators[k].Target()
			}
			return err
		})
		everybody("register", numbers)
		together(t, round, func(k int) error { return initiators[k].Close(ctx) })
		return numbers
	}
	first := fail() // what the daemons make once, and the queues of events, are there from here on
	rdstest.Eventually(t, "the first targets to be in error", func() bool {
		return far.node.Xrc.Objects().Stats().Targets[objects.StateError] == round
	})
	others, before := ours()-round, rdstest.Heap()
	for len(all) < targets {
		all = append(all, fail()...)
	}
	inError := func() bool { return far.node.Xrc.Objects().Stats().Targets[objects.StateError] == round+targets }
	rdstest.Eventually(t, "all targets to be in error", inError)
	var each int64
	small := func() bool {
		each = (rdstest.Heap() - before) / int64(targets)
		return each <= most
	}
	if !rdstest.Holds(rdstest.Patience, small) { // what the initiators' ends leave for a moment goes
		t.Errorf("%d bytes for each target in error, %d are allowed", each, most)
	}
	t.Logf("%d bytes for each target in error", each)
	all = append(all, first...)
	both[0].do("handle", list(all))
	if n := far.node.Xrc.Objects().Stats().Targets[objects.StateError]; n != len(all) {
		t.Errorf("%d targets when one of two processes has unregistered, want %d", n, len(all))
	}
	both[1].do("handle", list(all))
	if n := ours(); n != others {
		t.Errorf("%d targets when both processes have unregistered, %d before", n, others)
	}
}
