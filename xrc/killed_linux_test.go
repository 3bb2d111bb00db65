package xrc

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/transport/iwarp"
)

// beClient is a process that connects to a service and sends to its queue until it is killed.
func beClient(s *Session, to netip.Addr, service uint64) error {
	pd, err := s.AllocPD()
	if err != nil {
		return err
	}
	cq, err := s.CreateCQ(16)
	if err != nil {
		return err
	}
	i, err := s.Connect(context.Background(), InitiatorAttr{PD: pd, CQ: cq, Remote: to, Service: service, MaxSend: 16})
	if err != nil {
		return err
	}
	var got [16]iwarp.Completion
	for n := 0; ; n++ {
		if _, err := i.PostSend(iwarp.WorkRequest{Flags: iwarp.Signaled, Queue: i.Queue().SRQN, Inline: []byte("hello")}); err != nil {
			return err
		}
		for k := 0; k == 0; k = cq.Poll(got[:]) {
			if err := cq.Wait(context.Background()); err != nil {
				return err
			}
		}
		if got[0].Status != iwarp.Success {
			return fmt.Errorf("%+v", got[0])
		}
		if n == 0 {
			fmt.Println("served")
		}
	}
}

// Clients connect, use a target, and are killed at random points. The process that serves them reads no events and cleans
// nothing up: nothing is left of them, and the next one is served at once. It is 10,000 of them with RDS_LONG.
func TestXRCREQ34KilledClientsLeaveNothing(t *testing.T) {
	clients := 200
	if os.Getenv("RDS_LONG") != "" {
		clients = 10_000
	}
	l := rdstest.NewLab(t)
	near, far := newHost(t, &l), newHost(t, &l)
	a := newProcess(t, far, nil, 64, 128)
	a.advertise(t, 7)
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { // takes what comes
		var list [64]iwarp.Completion
		for a.cq.Wait(ctx) == nil {
			for _, c := range list[:a.cq.Poll(list[:])] {
				if _, err := a.srq.PostReceive(iwarp.ReceiveRequest{ID: c.ID, SGE: []iwarp.SGE{a.mem.SGE(int(c.ID)*slot, slot)}}); err != nil {
					return
				}
			}
		}
	})
	before, ours := far.node.Xrc.Objects().Stats(), near.node.Xrc.Objects().Stats()
	places := make(chan struct{}, 4)
	var crowd sync.WaitGroup
	for range clients {
		places <- struct{}{}
		crowd.Go(func() {
			defer func() { <-places }()
			at, stop := context.WithTimeout(ctx, time.Duration(rand.Int64N(int64(60*time.Millisecond)))) // the random point
			defer stop()
			client := exec.CommandContext(at, os.Args[0], near.path, "7", far.addr.String())
			client.Env = append(os.Environ(), workerEnv+"=1")
			_ = client.Run() // ends by SIGKILL
		})
	}
	crowd.Wait()
	rdstest.Eventually(t, "nothing to be left", func() bool {
		now, here := far.node.Xrc.Objects().Stats(), near.node.Xrc.Objects().Stats()
		return now.TotalTargets() <= before.TotalTargets()+2 && here.Initiators <= ours.Initiators+2 && here.Sessions == ours.Sessions // the path's own
	})
	t.Logf("%d clients: %+v, %+v", clients, far.node.Xrc.Objects().Stats(), near.node.Xrc.Objects().Stats())
	p := newProcess(t, near, nil, 1, 128)
	p.connect(t, far.addr, 7)
	cancel()
	work.Wait()
}
