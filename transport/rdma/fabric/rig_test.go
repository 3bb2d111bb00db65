package fabric

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc"
)

// gnet starts a worker pool when the program starts; only what comes later is ours.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) }

// within bounds a whole test.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// network makes tests that run at once independent, in this process and in others:
// each has a network of its own, 127.p.n.x.
var network atomic.Uint32

// hostOptions are what tests set.
type hostOptions struct {
	fabric Config
	xrc    xrc.Config
	iwarp  iwarp.Config
}

// hostNet is a test's hosts.
type hostNet struct {
	testing.TB
	n       byte
	options hostOptions
}

func newNet(t testing.TB, o hostOptions) *hostNet {
	t.Helper()
	return &hostNet{TB: t, n: byte(network.Add(1)), options: o}
}

func (n *hostNet) addr(i byte) netip.Addr {
	return netip.AddrFrom4([4]byte{127, byte(1 + os.Getpid()%250), n.n, i})
}

// host is one life of a daemon.
type host struct {
	n    *hostNet
	addr netip.Addr
	dev  *iwarp.Device
	xrc  *xrc.Device
	*Fabric
	dead bool
}

// host starts a daemon at address i.
func (n *hostNet) host(i byte) *host {
	n.Helper()
	h := &host{n: n, addr: n.addr(i)}
	o := n.options
	var err error
	if o.iwarp.EventLoops == 0 {
		o.iwarp.EventLoops = 1
	}
	if h.dev, err = iwarp.Open(o.iwarp); err != nil {
		n.Fatal(err)
	}
	if o.xrc.Now = o.fabric.Now; o.xrc.Now == nil {
		o.xrc.Now = time.Now
	}
	if h.xrc, err = xrc.New(o.xrc); err != nil {
		n.Fatal(err)
	}
	if os.Getenv("FABRIC_LOG") != "" {
		o.fabric.Logger, _ = zap.NewDevelopment()
	}
	o.fabric.Device, o.fabric.XRC = h.dev, h.xrc
	o.fabric.Addresses = []netip.Addr{h.addr}
	if h.Fabric, err = New(o.fabric); err != nil {
		n.Fatal(err)
	}
	n.Cleanup(h.close)
	return h
}

func (h *host) close() {
	if h.dead {
		return
	}
	h.dead = true
	if err := h.Fabric.Close(); err != nil {
		h.n.Error(err)
	}
	_ = h.xrc.Close()
	if err := h.dev.Close(); err != nil {
		h.n.Error(err)
	}
}

// kill ends the host as SIGKILL does: its connections are reset and nobody is told.
func (h *host) kill() {
	h.dead = true
	h.Fabric.stop()
	if err := h.dev.Close(); err != nil {
		h.n.Error(err)
	}
	h.Fabric.mu.Lock()
	h.Fabric.closed = true
	h.Fabric.mu.Unlock()
	h.Fabric.wg.Wait()
}

// app is a process on a host.
type app struct {
	*xrc.Session
	h   *host
	dom *xrc.Domain
	pd  *PD
	cq  *CQ
}

// app starts a process in the domain of a job; the empty job is a private one.
func (h *host) app(job string) *app {
	t := h.n
	t.Helper()
	s, err := h.xrc.NewSession(xrc.SessionConfig{Name: job})
	if err != nil {
		t.Fatal(err)
	}
	a := &app{Session: s, h: h}
	attr := xrc.DomainAttr{Mask: xrc.DomainFD | xrc.DomainFlags, FD: -1, Flags: os.O_CREATE}
	if job != "" {
		file, err := os.OpenFile(filepath.Join(os.TempDir(), "fabric-test-"+job), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(file.Name()) })
		defer file.Close()
		attr.FD = int(file.Fd())
	}
	if a.dom, err = s.OpenDomain(attr); err != nil {
		t.Fatal(err)
	}
	if a.pd, err = h.AllocPD(s); err != nil {
		t.Fatal(err)
	}
	if a.cq, err = h.CreateCQ(s, 4096); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil && !errors.Is(err, xrc.ErrClosed) {
			t.Error(err)
		}
	})
	return a
}

// serve makes a queue with n receives of size bytes and advertises it.
func (a *app) serve(service uint64, n, size int) (*xrc.SRQ, *MR) {
	t := a.h.n
	t.Helper()
	srq, err := a.h.CreateSRQ(a.Session, SRQAttr{Domain: a.dom, PD: a.pd, CQ: a.cq, MaxWR: 1024, MaxSGE: 1})
	if err != nil {
		t.Fatal(err)
	}
	m := a.region(max(n*size, 1), mr.LocalWrite)
	for i := range n {
		if _, err := srq.PostReceive(xrc.Receive{ID: uint64(i), SGE: []xrc.SGE{m.Receive(i*size, size)}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.Advertise(xrc.ServiceAttr{ID: service, Domain: a.dom, SRQ: srq, Access: mr.RemoteRead | mr.RemoteWrite | mr.RemoteAtomic}); err != nil {
		t.Fatal(err)
	}
	return srq, m
}

func (a *app) region(n int, rights mr.Rights) *MR {
	t := a.h.n
	t.Helper()
	m, err := a.pd.RegMR(make([]byte, n), rights, 0)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// connect makes a channel to a service at host i.
func (a *app) connect(i byte, service uint64) *Channel {
	t := a.h.n
	t.Helper()
	ch, err := a.h.Connect(within(t), a.Session, ChannelAttr{PD: a.pd, CQ: a.cq, Remote: t.addr(i), Service: service, Reads: 4, MaxSend: 512})
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

// next waits for one completion.
func (a *app) next() Completion {
	t := a.h.n
	t.Helper()
	var c [1]Completion
	for a.cq.Poll(c[:]) == 0 {
		if err := a.cq.Wait(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	return c[0]
}

func (a *app) want(id uint64, status iwarp.Status, op iwarp.Op) Completion {
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

// event waits for an event of the session and acknowledges it.
func (a *app) event() xrc.Event {
	t := a.h.n
	t.Helper()
	e, err := a.NextEvent(within(t))
	if err != nil {
		t.Fatal(err)
	}
	_ = a.Ack(e)
	return e
}

// until waits for something that comes by itself, in steps that nothing tells of.
func (n *hostNet) until(what string, ok func() bool) {
	n.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(end) {
			n.Fatal("never:", what)
		}
		<-tick.C
	}
}
