//go:build live

package xrc

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

// A process runs a script that makes, uses and closes objects of all kinds, and is killed with SIGKILL
// at a random point of the script, 200 times. The tables of both daemons are then as they were, the
// target that the processes had registered with lives, and messages to another process go on.
func TestXRCREQ30ProcessKilledAtAnyPointLeavesNothing(t *testing.T) {
	const kills, steps = 200, 60
	l := rdstest.NewLab(t)
	near, far := newHost(t, &l), newHost(t, &l)
	f := domainFile(t)
	server, stays := newProcess(t, far, nil, 64, 1024), newProcess(t, near, f, 64, 1024)
	server.advertise(t, 7)
	stays.advertise(t, 8)
	from := server.connect(t, near.addr, 8) // the scripts register with its target
	drained := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // receives what the scripts send
		defer close(drained)
		drain(ctx, server, 64)
	}()
	kill := func(seed, after int) {
		victim := startProcess(t, f, scriptRole, near.path, far.addr.String(), fmt.Sprint(from.Target()), fmt.Sprint(seed))
		for range after {
			victim.hear("step")
		}
		if victim.kill(); victim.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Errorf("seed %d: %v", seed, victim.cmd.ProcessState)
		}
	}
	type tables struct {
		near, far objects.Stats
		sessions  int // attached applications
		owners    int // of regions
		live      int // regions
		dirty     int
		holders   int // sessions registered with the target that the scripts register with
	}
	look := func() (x tables) {
		x.near, x.far = near.node.Xrc.Objects().Stats(), far.node.Xrc.Objects().Stats()
		for _, s := range []*objects.Stats{&x.near, &x.far} {
			s.Resting, s.EventsLost = 0, 0
		}
		r := near.node.Regions().Stats()
		info, err := stays.QueryTarget(stays.dom, from.Target())
		must(t, err)
		x.sessions, x.owners, x.live, x.dirty, x.holders = len(near.svc.Sessions()), r.Owners, r.Registered.Live, r.Registered.Dirty, info.Registered
		return x
	}
	if _, err := stays.Register(stays.dom, from.Target()); err != nil {
		t.Fatal(err)
	}
	baseline := look()
	rnd := rand.New(rand.NewPCG(30, 0))
	places := make(chan struct{}, 4)
	var crowd sync.WaitGroup
	for seed := range kills {
		places <- struct{}{}
		after := rnd.IntN(steps)
		crowd.Go(func() {
			defer func() { <-places }()
			kill(seed, after)
		})
	}
	crowd.Wait()
	var now tables
	if !rdstest.Holds(rdstest.Patience, func() bool { now = look(); return now == baseline }) {
		t.Errorf("after %d kills %+v\nbefore %+v", kills, now, baseline)
	}
	m := stream{p: server, i: from, queue: stays.srq.Num()}
	must(t, m.send())
	if c := stays.poll(t); c.Status != iwarp.Success {
		t.Errorf("a message by the target that the scripts had registered with: %+v", c)
	}
	cancel()
	<-drained
}

// drain takes what arrives at a process with n receives until ctx ends.
func drain(ctx context.Context, p *process, n int) {
	list := make([]iwarp.Completion, n)
	for p.cq.Wait(ctx) == nil {
		for _, c := range list[:p.cq.Poll(list)] {
			if c.Op != iwarp.OpReceive {
				continue
			}
			if _, err := p.srq.PostReceive(iwarp.ReceiveRequest{ID: c.ID, SGE: []iwarp.SGE{p.mem.SGE(int(c.ID)*slot, slot)}}); err != nil {
				return
			}
		}
	}
}
