package xrc

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc/objects"
)

// app is a process on a host.
type app struct {
	*objects.Session
	h   *host
	dom *objects.Domain
	pd  *objects.PD
	cq  *objects.CQ
}

// app starts a process in the domain of a job; the empty job is a private one.
func (h *host) app(job string) *app {
	t := h.n
	t.Helper()
	s, err := h.objects.NewSession(objects.SessionConfig{Name: job})
	must(t, err)
	a := &app{Session: s, h: h}
	fd := -1
	if job != "" {
		file, err := os.OpenFile(filepath.Join(os.TempDir(), "fabric-test-"+job), os.O_CREATE|os.O_RDWR, 0o600)
		must(t, err)
		t.Cleanup(func() { _ = os.Remove(file.Name()) })
		defer file.Close()
		fd = int(file.Fd())
	}
	a.dom, err = s.OpenDomain(fd, os.O_CREATE)
	must(t, err)
	a.pd, err = s.AllocPD()
	must(t, err)
	a.cq, err = s.CreateCQ(8192)
	must(t, err)
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil && !errors.Is(err, objects.ErrClosed) {
			t.Error(err)
		}
	})
	return a
}

// serve makes a queue with n receives of size bytes and advertises it.
func (a *app) serve(service uint64, n, size int) (*objects.SRQ, *iwarp.MR) {
	t := a.h.n
	t.Helper()
	srq, err := a.CreateSRQ(objects.SRQAttr{Domain: a.dom, PD: a.pd, CQ: a.cq, MaxWR: 1024})
	must(t, err)
	m := a.region(max(n*size, 1), mr.LocalWrite)
	for i := range n {
		post(t, srq, uint64(i), m.SGE(i*size, size))
	}
	must(t, errOf(a.Advertise(objects.ServiceAttr{ID: service, Domain: a.dom, SRQ: srq, Access: mr.RemoteRead | mr.RemoteWrite | mr.RemoteAtomic})))
	return srq, m
}

func (a *app) region(n int, rights mr.Rights) *iwarp.MR {
	t := a.h.n
	t.Helper()
	m, err := a.pd.RegMR(make([]byte, n), rights, 0)
	must(t, err)
	return m
}

// connect makes a channel to a service at host i.
func (a *app) connect(i byte, service uint64) *Channel {
	a.h.n.Helper()
	return a.connectAs(i, ChannelAttr{Service: service, Reads: 4, MaxSend: 512})
}

// client is a process with a channel to a service at host i.
func (h *host) client(i byte, service uint64) (*app, *Channel) {
	h.n.Helper()
	a := h.app("")
	return a, a.connect(i, service)
}

// connectAs connects with attributes of a test.
func (a *app) connectAs(i byte, attr ChannelAttr) *Channel {
	t := a.h.n
	t.Helper()
	attr.PD, attr.CQ, attr.Remote = a.pd, a.cq, t.addr(i)
	ch, err := a.h.Connect(within(t), a.Session, attr)
	must(t, err)
	return ch
}

// register has the session hear of a channel's target, too.
func (a *app) register(ch *Channel) {
	a.h.n.Helper()
	must(a.h.n, errOf(a.Register(a.dom, ch.Target().Number)))
}

// next waits for one completion.
func (a *app) next() iwarp.Completion {
	a.h.n.Helper()
	return nextOf(a.h.n, a.cq)
}

// polling is an iwarp.CQ, or an objects.CQ.
type polling interface {
	Poll(list []iwarp.Completion) int
	Wait(ctx context.Context) error
}

// nextOf waits for one completion of a queue.
func nextOf(t testing.TB, cq polling) iwarp.Completion {
	t.Helper()
	var c [1]iwarp.Completion
	for cq.Poll(c[:]) == 0 {
		must(t, cq.Wait(within(t)))
	}
	return c[0]
}

func (a *app) want(id uint64, status iwarp.Status, op iwarp.Op) iwarp.Completion {
	t := a.h.n
	t.Helper()
	c := a.next()
	if c.ID != id || c.Status != status || status == iwarp.Success && c.Op != op {
		t.Fatalf("completed %+v, want %d: %v, %v", c, id, status, op)
	}
	return c
}

func (a *app) send(ch *Channel, list ...iwarp.WorkRequest) {
	t := a.h.n
	t.Helper()
	if n, err := ch.PostSend(list...); err != nil || n != len(list) {
		t.Fatalf("%d of %d posted: %v", n, len(list), err)
	}
}

// NextEvent is that of the session without the event of a target's first message.
func (a *app) NextEvent(ctx context.Context) (objects.Event, error) {
	for {
		e, err := a.Session.NextEvent(ctx)
		if err != nil || e.Kind != objects.EventCommEstablished {
			return e, err
		}
		_ = a.Ack(e)
	}
}

// PollEvent is as NextEvent.
func (a *app) PollEvent() (objects.Event, bool) {
	for {
		e, ok := a.Session.PollEvent()
		if !ok || e.Kind != objects.EventCommEstablished {
			return e, ok
		}
		_ = a.Ack(e)
	}
}

// event waits for an event of the session and acknowledges it.
func (a *app) event() objects.Event {
	t := a.h.n
	t.Helper()
	e, err := a.NextEvent(within(t))
	must(t, err)
	_ = a.Ack(e)
	return e
}

// hears wants the next event to be this one.
func (a *app) hears(k objects.EventKind, about objects.Ref) {
	a.h.n.Helper()
	if e := a.event(); e.Kind != k || e.Object != about {
		a.h.n.Errorf("%+v, want %v of %v", e, k, about)
	}
}

// quiet wants no event.
func (a *app) quiet() {
	a.h.n.Helper()
	if e, ok := a.PollEvent(); ok {
		a.h.n.Errorf("%+v", e)
	}
}

// post gives memory to a receive queue.
func post(t testing.TB, srq *objects.SRQ, id uint64, memory iwarp.SGE) {
	t.Helper()
	must(t, errOf(srq.PostReceive(iwarp.ReceiveRequest{ID: id, SGE: []iwarp.SGE{memory}})))
}

// die ends the process.
func (a *app) die() {
	a.h.n.Helper()
	must(a.h.n, a.Session.Close(context.Background()))
}
