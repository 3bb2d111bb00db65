//go:build live

package xrc

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/rds-go/rds/internal/daemon"
	"github.com/rds-go/rds/internal/node"
	"github.com/rds-go/rds/internal/rdstest"
	"github.com/rds-go/rds/rds/config"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

// send sends a message and waits for its completion.
func (p *process) send(t testing.TB, i *Initiator, queue uint32) iwarp.Status {
	t.Helper()
	if _, err := i.PostSend(iwarp.WorkRequest{Flags: iwarp.Signaled, Queue: queue, Inline: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	return p.poll(t).Status
}

// event waits for an event and acknowledges it.
func (p *process) event(t testing.TB) Event {
	t.Helper()
	for {
		e, err := p.NextEvent(rdstest.Background(t))
		if err == nil {
			err = p.Ack(e)
		}
		must(t, err)
		if e.Kind != objects.EventCommEstablished { // comes with the first message by each target
			return e
		}
	}
}

// The limit of a shared receive queue is heard once, when a message leaves fewer receives, until it is armed again.
func TestLimitIsHeardOnce(t *testing.T) {
	eachProvider(t, func(t *testing.T, near, far *host) {
		a, p := newProcess(t, far, nil, 8, 64), newProcess(t, near, nil, 1, 128)
		a.advertise(t, 7)
		i := p.connect(t, far.addr, 7)
		for _, left := range []int{6, 4} { // of 8 receives
			must(t, a.srq.Arm(left))
			for range 2 {
				if s := p.send(t, i, a.srq.Num()); s != iwarp.Success {
					t.Fatal(s)
				}
				a.poll(t)
			}
			if posted, limit, err := a.srq.Query(); posted != left || limit != left || err != nil {
				t.Errorf("%d receives, limit %d, %v: heard with %d", posted, limit, err, left)
			}
			if s := p.send(t, i, a.srq.Num()); s != iwarp.Success {
				t.Fatal(s)
			}
			if e := a.event(t); e.Kind != objects.EventSRQLimit || e.Object != a.srq.Ref() {
				t.Errorf("event %v of %v", e.Kind, e.Object)
			}
			if _, limit, err := a.srq.Query(); limit != 0 || err != nil {
				t.Errorf("limit %d when it was heard, %v", limit, err)
			}
			a.receive(t, a.poll(t).ID)
			rdstest.Eventually(t, "the receive", func() bool { n, _, err := a.srq.Query(); return n == left && err == nil })
		}
	})
}

// A target lives as long as a session is registered with it, whatever becomes of the one that it was made for, and its
// handles and attributes are those of all.
func TestTargetLivesWithTheLastSession(t *testing.T) {
	eachProvider(t, func(t *testing.T, near, far *host) {
		f := domainFile(t)
		a, b, p := newProcess(t, far, f, 8, 64), newProcess(t, far, f, 8, 64), newProcess(t, near, nil, 1, 128)
		a.advertise(t, 7)
		i := p.connect(t, far.addr, 7)
		info, err := b.Register(b.dom, i.Target())
		if err != nil {
			t.Fatalf("%+v, %v", info, err)
		}
		must(t, a.Close())
		if s := p.send(t, i, b.srq.Num()); s != iwarp.Success {
			t.Error(s)
		}
		h, err := b.OpenTarget(b.dom, i.Target())
		must(t, err)
		must(t, b.Unregister(context.Background(), b.dom, i.Target()))
		if s := p.send(t, i, b.srq.Num()); s != iwarp.Success {
			t.Errorf("with a handle: %v", s)
		}
		must(t, h.Destroy(context.Background()))
		if _, err := b.QueryTarget(b.dom, i.Target()); err == nil {
			t.Error("the target is there, and nobody has it")
		}
		if e := p.event(t); e.Object != i.Ref() {
			t.Errorf("the sender hears %v of %v", e.Kind, e.Object)
		}
	})
}

// The end of a session ends whatever waits for something of it, and is not the end of its host: no events are made.
func TestSessionEnds(t *testing.T) {
	eachProvider(t, func(t *testing.T, near, far *host) {
		a, p := newProcess(t, far, nil, 1, 8), newProcess(t, near, nil, 1, 128)
		a.advertise(t, 7)
		i := p.connect(t, far.addr, 7)
		waits := make(chan error, 1)
		go func() { waits <- p.cq.Wait(rdstest.Background(t)) }()
		rdstest.Eventually(t, "the waiter", func() bool { return p.cq.waiters.N.Load() > 0 })
		must(t, p.Close())
		if err := <-waits; !rdstest.Closed(err) {
			t.Errorf("Wait: %v", err)
		}
		for what, err := range map[string]error{
			"NextEvent":   second(p.NextEvent(rdstest.Background(t))),
			"AllocPD":     second(p.AllocPD()),
			"PostSend":    second(i.PostSend(iwarp.WorkRequest{Queue: a.srq.Num(), Inline: []byte("x")})),
			"PostReceive": second(p.srq.PostReceive(iwarp.ReceiveRequest{})),
			"Close":       p.Close(),
		} {
			if !rdstest.Closed(err) {
				t.Errorf("%s: %v, want %v", what, err, net.ErrClosed)
			}
		}
		q := newProcess(t, near, nil, 1, 128)
		if s := q.send(t, q.connect(t, far.addr, 7), a.srq.Num()); s != iwarp.Success {
			t.Errorf("the next session: %v", s)
		}
	})
}

// A node with a service has sessions of its own, too: they and attached processes share a domain, and one initiator
// reaches both.
func TestNodeAndDaemonShareADomain(t *testing.T) {
	t.Parallel()
	l := rdstest.NewLab(t)
	near, far := newNodeHost(t, &l), newHost(t, &l)
	f := domainFile(t)
	own, attached := equip(t, far.openOwn(t), f, 8, 64), newProcess(t, far, f, 8, 64)
	if own.dom.Tag() != attached.dom.Tag() {
		t.Errorf("domains %d and %d of one file", own.dom.Tag(), attached.dom.Tag())
	}
	own.advertise(t, 7)
	p := newProcess(t, near, nil, 1, 128)
	i := p.connect(t, far.addr, 7)
	for _, to := range []*process{own, attached, own} {
		if s := p.send(t, i, to.srq.Num()); s != iwarp.Success {
			t.Error(s)
		}
		to.poll(t)
	}
	must(t, far.svc.Close())
	if s := p.send(t, i, own.srq.Num()); s != iwarp.Success {
		t.Errorf("when the service has ended: %v", s)
	}
}

// A node that is left to another process ends its sessions, and has new ones when the other process has given up.
func TestBequeathEndsTheSessionsOfTheNode(t *testing.T) {
	t.Parallel()
	l := rdstest.NewLab(t)
	near, far := &host{addr: rdstest.NewAddr()}, newHost(t, &l)
	near.node = rdstest.Start(&l, node.New, config.Node{Wire: config.WireXRC, Addresses: []netip.Addr{near.addr}, Linger: time.Minute}) // which bounds Bequeath
	a := newProcess(t, far, nil, 8, 64)
	a.advertise(t, 7)
	p := newProcess(t, near, nil, 1, 128)
	if s := p.send(t, p.connect(t, far.addr, 7), a.srq.Num()); s != iwarp.Success {
		t.Fatal(s)
	}
	legacy, err := daemon.Bequeath(rdstest.Background(t), near.node)
	must(t, err)
	legacy.Close()
	if _, err := p.AllocPD(); !rdstest.Closed(err) {
		t.Errorf("a call of the session: %v", err)
	}
	if _, err := daemon.NewOwnObjects(near.node); !rdstest.Closed(err) {
		t.Errorf("a new session: %v", err)
	}
	daemon.Return(near.node)
	q := newProcess(t, near, nil, 1, 128)
	if s := q.send(t, q.connect(t, far.addr, 7), a.srq.Num()); s != iwarp.Success {
		t.Error(s)
	}
}
