//go:build live

package xrc

import (
	"context"
	"errors"
	"testing"

	"github.com/rds-go/rds/internal/client"
	"github.com/rds-go/rds/internal/daemon"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/rds/datagram"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

// When the daemon ends each object has one event, whoever waits hears of it, and nothing is posted to what is
// gone. The Client begins new objects when another daemon is there.
func TestXRCREQ48ObjectsEndWithTheDaemon(t *testing.T) {
	t.Parallel()
	l := rdstest.NewLab(t)
	near, far := newHost(t, &l), newHost(t, &l)
	a := newProcess(t, far, nil, 1, 8)
	a.advertise(t, 7)
	c, err := client.New(config.Client{Path: near.path, Reconnect: true})
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	open := func() (*Session, error) {
		o, err := c.Objects()
		if err != nil {
			return nil, err
		}
		return Open(context.Background(), o)
	}
	s, err := open()
	must(t, err)
	p := equip(t, s, nil, 4, 128)
	i := p.connect(t, far.addr, 7)
	endObjects(t, p, i, near.svc.Close, isLost)
	near.serve(t)
	rdstest.Eventually(t, "objects of the next daemon", func() bool {
		s, err = open()
		return err == nil
	})
	q := equip(t, s, nil, 4, 128)
	j := q.connect(t, far.addr, 7)
	if s := q.send(t, j, a.srq.Num()); s != iwarp.Success {
		t.Error(s)
	}
}

// endObjects ends the host of p, which has the initiator i, and tells by the errors of what is called then
// whether the host has ended.
func endObjects(t *testing.T, p *process, i *Initiator, end func() error, ended func(error) bool) {
	t.Helper()
	waited := make(chan error, 1)
	go func() { waited <- p.cq.Wait(rdstest.Background(t)) }()
	must(t, end())
	if err := <-waited; !ended(err) {
		t.Errorf("Wait: %v", err)
	}
	want := map[objects.Ref]bool{p.cq.Ref(): true, p.srq.Ref(): true, i.Ref(): true}
	for len(want) > 0 {
		e, err := p.NextEvent(rdstest.Background(t))
		must(t, err)
		if e.Kind != objects.EventDeviceFatal || !want[e.Object] {
			t.Fatalf("event %v of %v", e.Kind, e.Object)
		}
		delete(want, e.Object)
		if err := p.Ack(e); err != nil {
			t.Error(err)
		}
	}
	if _, err := p.NextEvent(rdstest.Background(t)); !ended(err) {
		t.Errorf("one more event, %v", err)
	}
	if _, err := i.PostSend(iwarp.WorkRequest{Queue: i.Queue().SRQN, Inline: []byte("x")}); !ended(err) {
		t.Errorf("PostSend: %v", err)
	}
	if _, err := p.srq.PostReceive(iwarp.ReceiveRequest{}); !ended(err) {
		t.Errorf("PostReceive: %v", err)
	}
	if _, err := p.AllocPD(); !ended(err) {
		t.Errorf("AllocPD: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// A node in the process ends its sessions as a daemon does that ends. No session can be begun then.
func TestObjectsEndWithTheNode(t *testing.T) {
	t.Parallel()
	l := rdstest.NewLab(t)
	near, far := newNodeHost(t, &l), newNodeHost(t, &l)
	a, p := newProcess(t, far, nil, 1, 8), newProcess(t, near, nil, 4, 128)
	a.advertise(t, 7)
	endObjects(t, p, p.connect(t, far.addr, 7), near.node.Close, rdstest.Closed)
	if _, err := daemon.NewOwnObjects(near.node); !rdstest.Closed(err) {
		t.Errorf("a session of the closed node: %v", err)
	}
}

func isLost(err error) bool { return errors.Is(err, datagram.ErrDaemonLost) }
