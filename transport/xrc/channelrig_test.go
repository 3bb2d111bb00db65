package xrc

import (
	"cmp"
	"context"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/memnet"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
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

// bubble runs a test, beside other tests, in virtual time, with its transports on a network in
// memory: see memnet.Bubble.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	bubbleOn(t, memnet.Options{}, f)
}

// bubbleOn is bubble with a network that is set up by o.
func bubbleOn(t *testing.T, o memnet.Options, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	memnet.Bubble(t, o, f)
}

// lan is a network on which everything takes time: what a test ends at once is under way.
var lan = memnet.Options{Latency: 50 * time.Microsecond}

// networkOf is the network in memory of a test in a bubble, nil for other tests.
func networkOf(t testing.TB) *memnet.Network {
	if n, ok := t.(*hostNet); ok {
		t = n.TB
	}
	return memnet.Of(t)
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

// twoHosts are those that most tests need.
func twoHosts(t testing.TB, o hostOptions) (n *hostNet, a, b *host) {
	t.Helper()
	n = newNet(t, o)
	return n, n.host(1), n.host(2)
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
	o.Interval = cmp.Or(o.Interval, time.Hour) // what is told is not found out by asking
	if os.Getenv("FABRIC_LOG") != "" {
		o.Logger, _ = zap.NewDevelopment()
	}
	var err error
	if m := networkOf(n); m != nil {
		o.Network = m
	}
	h.Transport, err = New(o)
	must(n, err)
	must(n, h.Listen(h.addr, h.accept))
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

// when asks with a lock held.
func when(lock sync.Locker, ok func() bool) func() bool {
	return func() bool {
		lock.Lock()
		defer lock.Unlock()
		return ok()
	}
}

// mute holds back whatever the host sends: its peers' TCP and transports hear nothing of it.
func (h *host) mute() (release func()) {
	return networkOf(h.n).Hold(func(from, _ netip.AddrPort) bool { return from.Addr() == h.addr })
}

// spin is until for tests in which somebody waits for a lock: virtual time stands still then.
func (n *hostNet) spin(what string, ok func() bool) {
	n.Helper()
	for range 10_000_000 {
		if ok() {
			return
		}
		runtime.Gosched()
	}
	n.Fatal("never:", what)
}

// until waits for something that comes by itself, in steps that nothing tells of.
func (n *hostNet) until(what string, ok func() bool) {
	n.Helper()
	eventually(n, what, ok)
}

// eventually waits for what no event tells.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(transporttest.Patience); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("never:", what)
		}
	}
}

// must fails the test on an error.
func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// errOf is the error of a call whose result does not matter.
func errOf[T any](_ T, err error) error { return err }
