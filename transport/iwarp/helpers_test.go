package iwarp

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rds-go/rds/internal/memnet"
	"github.com/rds-go/rds/mr"
)

// end is one side of a connection under test.
type end struct {
	t   testing.TB
	dev *Device
	pd  *PD
	cq  *CQ // completion queue of both queues of qp
	qp  *QP
	est *Established
}

var loopback = netip.MustParseAddr("127.0.0.1")

// within bounds a whole test.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// networks are those of tests in bubbles, by their testing.TB.
var networks sync.Map

// bubble runs a test in a bubble of testing/synctest: time is virtual, and the devices of the
// test are on a network in memory.
//
// Whatever does not wait for a timer takes no time there. So a test that interrupts something at
// a random time has a network with a latency (bubbleOn).
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	bubbleOn(t, memnet.Options{}, f)
}

// bubbleOn is bubble with a network that is set up by o.
func bubbleOn(t *testing.T, o memnet.Options, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		networks.Store(t, memnet.New(o))
		defer networks.Delete(t)
		f(t)
	})
}

// networkOf is the network in memory of a test in a bubble, nil for other tests.
func networkOf(t testing.TB) *memnet.Network {
	n, _ := networks.Load(t)
	m, _ := n.(*memnet.Network)
	return m
}

func openDevice(t testing.TB, cfg Config) *Device {
	t.Helper()
	if n := networkOf(t); n != nil {
		cfg.Network = n
	}
	d, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil && err != ErrClosed {
			t.Error(err)
		}
	})
	return d
}

func newEnd(t testing.TB, d *Device, cfg QPConfig) *end {
	t.Helper()
	pd, err := d.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := d.CreateCQ(4096)
	if err != nil {
		t.Fatal(err)
	}
	cfg.SendCQ, cfg.RecvCQ = cq, cq
	qp, err := pd.CreateQP(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &end{t: t, dev: d, pd: pd, cq: cq, qp: qp}
}

// connectEnds makes a connection of two queue pairs in StateInit.
func connectEnds(t testing.TB, client, server *end, cp, sp ConnParams) {
	t.Helper()
	ctx := within(t)
	ln, err := server.dev.Listen(netip.AddrPortFrom(loopback, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	accepted := make(chan error, 1)
	go func() {
		in, err := ln.Accept(ctx)
		if err == nil {
			server.est, err = in.Accept(ctx, server.qp, sp)
		}
		accepted <- err
	}()
	if client.est, err = client.dev.Connect(ctx, client.qp, ln.Addr(), cp); err != nil {
		t.Fatal(err)
	}
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
}

// pair makes two devices and a connection between them.
func pair(t testing.TB, cfg Config, cp, sp ConnParams) (client, server *end) {
	t.Helper()
	client = newEnd(t, openDevice(t, cfg), QPConfig{})
	server = newEnd(t, openDevice(t, cfg), QPConfig{})
	connectEnds(t, client, server, cp, sp)
	return client, server
}

const allRights = mr.LocalWrite | mr.RemoteWrite | mr.RemoteRead | mr.RemoteAtomic

func (e *end) reg(n int, rights mr.Rights) *MR {
	e.t.Helper()
	m, err := e.pd.RegMR(make([]byte, n), rights, 0x10000)
	if err != nil {
		e.t.Fatal(err)
	}
	return m
}

func (e *end) send(reqs ...WorkRequest) {
	e.t.Helper()
	if _, err := e.qp.PostSend(reqs...); err != nil {
		e.t.Fatal(err)
	}
}

func (e *end) post(id uint64, sge ...SGE) {
	e.t.Helper()
	if _, err := e.qp.PostReceive(ReceiveRequest{ID: id, SGE: sge}); err != nil {
		e.t.Fatal(err)
	}
}

// next waits for one completion.
func (e *end) next() Completion {
	e.t.Helper()
	ctx := within(e.t)
	var c [1]Completion
	for {
		if e.cq.Poll(c[:]) == 1 {
			return c[0]
		}
		if err := e.cq.Wait(ctx); err != nil {
			e.t.Fatalf("no completion: %v (queue pair: %v, %v)", err, e.qp.State(), e.qp.Err())
		}
	}
}

// want waits for a completion with this ID, status and operation.
func (e *end) want(id uint64, status Status, op Op) Completion {
	e.t.Helper()
	c := e.next()
	if c.ID != id || c.Status != status || status == Success && c.Op != op {
		e.t.Fatalf("completion of %d: %v, %v; want that of %d: %v, %v (queue pair: %v)", c.ID, c.Op, c.Status, id, op, status, e.qp.Err())
	}
	return c
}

func addrOf(port uint16) netip.AddrPort { return netip.AddrPortFrom(loopback, port) }
