package xrc

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport"
	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/transport/transporttest"
	"github.com/rds-go/rds/xrc/objects"
)

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
	fabric Options
	xrc    objects.Config
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
	*Transport
	dials atomic.Int64
	apart atomic.Bool // makes no connections, and accepts none
	dead  bool

	mu      sync.Mutex
	keepers map[netip.Addr]*keeper // guarded by mu
}

// host starts a daemon at address i.
func (n *hostNet) host(i byte) *host {
	n.Helper()
	h := &host{n: n, addr: n.addr(i), keepers: make(map[netip.Addr]*keeper)}
	o := n.options.fabric
	o.XRC, o.EventLoops, o.Port = n.options.xrc, 1, channelPort
	o.Addresses = []netip.Addr{h.addr}
	o.Want = h.want
	if os.Getenv("FABRIC_LOG") != "" {
		o.Logger, _ = zap.NewDevelopment()
	}
	var err error
	if h.Transport, err = New(o); err != nil {
		n.Fatal(err)
	}
	if err := h.Listen(h.addr, h.accept); err != nil {
		n.Fatal(err)
	}
	n.Cleanup(h.close)
	return h
}

// channelPort is another port than that of a node on this machine.
const channelPort = 18635

func (h *host) close() {
	if h.dead {
		return
	}
	h.dead = true
	if err := h.Transport.Close(); err != nil {
		h.n.Error(err)
	}
}

// kill ends the host as SIGKILL does: its connections are reset and nobody is told.
func (h *host) kill() {
	h.dead = true
	h.Transport.mu.Lock()
	h.closed = true
	h.Transport.mu.Unlock()
	h.stop()
	if err := h.dev.Close(); err != nil {
		h.n.Error(err)
	}
	h.work.Wait()
}

// keeper makes connections to a peer as RDS does: the side with the smaller address connects,
// the other one knocks.
type keeper struct {
	h      *host
	remote netip.Addr
	poke   chan struct{} // cap 1

	// Guarded by host.mu.
	wanted  int
	knocked bool
	links   int
}

func (h *host) keeper(remote netip.Addr) *keeper {
	k := h.keepers[remote]
	if k == nil {
		k = &keeper{h: h, remote: remote, poke: make(chan struct{}, 1)}
		h.keepers[remote] = k
		h.work.Go(k.run)
	}
	return k
}

// want is Options.Want.
func (h *host) want(_, remote netip.Addr) (release func()) {
	k := h.change(remote, func(k *keeper) { k.wanted++ })
	return func() { k.h.change(remote, func(k *keeper) { k.wanted-- }) }
}

func (h *host) change(remote netip.Addr, f func(k *keeper)) *keeper {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.keeper(remote)
	f(k)
	select {
	case k.poke <- struct{}{}:
	default:
	}
	return k
}

func (h *host) accept(l transport.Link) {
	remote := l.RemoteAddr().Addr()
	if h.apart.Load() {
		l.Close(transport.Abort)
		return
	}
	if h.addr.Less(remote) {
		l.Close(transport.Abort)
		h.change(remote, func(k *keeper) { k.knocked = true })
		return
	}
	h.start(remote, l)
}

// start puts a link to use.
func (h *host) start(remote netip.Addr, l transport.Link) {
	h.change(remote, func(k *keeper) { k.links++ })
	if l.Start(&kept{h: h, remote: remote}) != nil {
		h.change(remote, func(k *keeper) { k.links-- })
		l.Close(transport.Abort)
	}
}

// kept takes the messages of a link, of which there are none, and its end.
type kept struct {
	transporttest.Simple
	h      *host
	remote netip.Addr
}

func (k *kept) Message(*wire.Header, []byte, *buf.Buf) {}
func (k *kept) Closed(error, uint64) {
	k.h.change(k.remote, func(k *keeper) { k.links-- })
}

func (k *keeper) run() {
	for {
		k.h.mu.Lock()
		due := (k.wanted > 0 || k.knocked) && k.links == 0 && !k.h.apart.Load()
		k.knocked = false
		k.h.mu.Unlock()
		again := make(<-chan time.Time)
		if due {
			k.dial()
			again = time.After(5 * time.Millisecond)
		}
		select {
		case <-k.poke:
		case <-again:
		case <-k.h.ctx.Done():
			return
		}
	}
}

func (k *keeper) dial() {
	ctx, cancel := context.WithTimeout(k.h.ctx, time.Second)
	defer cancel()
	k.h.dials.Add(1)
	l, err := k.h.Dial(ctx, k.h.addr, k.remote, 0)
	switch {
	case err != nil:
	case k.h.addr.Less(k.remote):
		k.h.start(k.remote, l)
	default:
		l.Close(transport.Abort)
	}
}

// paths is the number of pairs of an initiator and a target that RDS has.
func (h *host) paths() (n int) {
	for _, p := range h.allPeers() {
		for _, x := range p.paths {
			if x != nil && !x.sweep() {
				n++
			}
		}
	}
	return n
}

// channelTargets is the number of targets that take requests and are not of RDS, allTargets
// of those in any state, and channelInitiators of initiators that are not of RDS.
func (h *host) channelTargets() int { return h.objects.Stats().Targets[objects.StateRTR] - h.paths() }

func (h *host) allTargets() int { return h.objects.Stats().TotalTargets() - h.paths() }

func (h *host) channelInitiators() int { return h.objects.Stats().Initiators - h.paths() }

// connections is the number of links that are in use.
func (h *host) connections() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range h.keepers {
		n += k.links
	}
	return n
}

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
	if err != nil {
		t.Fatal(err)
	}
	a := &app{Session: s, h: h}
	fd := -1
	if job != "" {
		file, err := os.OpenFile(filepath.Join(os.TempDir(), "fabric-test-"+job), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(file.Name()) })
		defer file.Close()
		fd = int(file.Fd())
	}
	if a.dom, err = s.OpenDomain(fd, os.O_CREATE); err != nil {
		t.Fatal(err)
	}
	if a.pd, err = s.AllocPD(); err != nil {
		t.Fatal(err)
	}
	if a.cq, err = s.CreateCQ(8192); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	m := a.region(max(n*size, 1), mr.LocalWrite)
	for i := range n {
		if _, err := srq.PostReceive(iwarp.ReceiveRequest{ID: uint64(i), SGE: []iwarp.SGE{m.SGE(i*size, size)}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.Advertise(objects.ServiceAttr{ID: service, Domain: a.dom, SRQ: srq, Access: mr.RemoteRead | mr.RemoteWrite | mr.RemoteAtomic}); err != nil {
		t.Fatal(err)
	}
	return srq, m
}

func (a *app) region(n int, rights mr.Rights) *iwarp.MR {
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
func (a *app) next() iwarp.Completion {
	t := a.h.n
	t.Helper()
	var c [1]iwarp.Completion
	for a.cq.Poll(c[:]) == 0 {
		if err := a.cq.Wait(within(t)); err != nil {
			t.Fatal(err)
		}
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
