package simnet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/transport"
)

// Faults is what a Network does to links. The zero value is a perfect network.
type Faults struct {
	Latency time.Duration // latency of each direction: half of it at least, at most as much
	Reading time.Duration // arrived bytes are read up to this much later
	Cut     float64       // chance of a link to be cut when some byte is written
	CutSize int           // bound of the number of that byte
	Late    time.Duration // a cut link is noticed by each side within this time
	Stall   float64       // chance of a write to be held back for up to StallTime, and all after it
	Silence time.Duration // see Stall
	Half    float64       // chance of a write to be followed by a half close
	Refuse  float64       // chance of a dial to be refused
	Reject  float64       // chance of a link to be accepted and closed
}

// Network joins transports by links that fail. NewNetwork makes it. All times
// are those of the synctest bubble it is used in.
type Network struct {
	mu        sync.Mutex
	rng       *rand.Rand          // guarded by mu
	faults    Faults              // guarded by mu
	listeners map[netip.Addr]*nic // guarded by mu
	dialed    int                 // guarded by mu
}

// NewNetwork makes a network whose faults follow from the seed.
func NewNetwork(seed uint64, f Faults) *Network {
	return &Network{rng: rand.New(rand.NewPCG(seed, 0x6e6574)), faults: f, listeners: map[netip.Addr]*nic{}}
}

// Calm ends the faults; latencies stay.
func (n *Network) Calm() {
	n.mu.Lock()
	n.faults = Faults{Latency: n.faults.Latency, Reading: n.faults.Reading}
	n.mu.Unlock()
}

// CutAll cuts every link of a transport.
func (n *Network) CutAll(t transport.Transport) {
	for _, p := range t.(*nic).all() {
		p.cut()
	}
}

// Transport makes a new transport of the network.
func (n *Network) Transport() transport.Transport {
	return &nic{net: n, ports: map[*port]struct{}{}}
}

// below draws a duration; the network's lock is held.
func (n *Network) belowLocked(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(n.rng.Int64N(int64(d)))
}

func (n *Network) chanceLocked(p float64) bool { return p > 0 && n.rng.Float64() < p }

// nic is one transport.
type nic struct {
	net  *Network
	pool buf.Pool
	wg   sync.WaitGroup // ports until they have ended

	mu     sync.Mutex
	closed bool                                // guarded by mu
	ports  map[*port]struct{}                  // guarded by mu
	accept map[netip.Addr]func(transport.Link) // guarded by mu
}

var _ transport.Transport = (*nic)(nil)

// Name returns "simnet".
func (t *nic) Name() string { return "simnet" }

// Listen accepts links to local.
func (t *nic) Listen(local netip.Addr, accept func(transport.Link)) error {
	t.net.mu.Lock()
	defer t.net.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return transport.ErrClosed
	case t.net.listeners[local] != nil:
		return fmt.Errorf("simnet: listen on %v: %w", local, syscall.EADDRINUSE)
	}
	t.net.listeners[local] = t
	if t.accept == nil {
		t.accept = map[netip.Addr]func(transport.Link){}
	}
	t.accept[local] = accept
	return nil
}

// Unlisten ends listening; links go on.
func (t *nic) Unlisten() {
	t.net.mu.Lock()
	defer t.net.mu.Unlock()
	for a, l := range t.net.listeners {
		if l == t {
			delete(t.net.listeners, a)
		}
	}
}

// Dial connects to whoever listens on remote.
func (t *nic) Dial(ctx context.Context, local, remote netip.Addr, path int) (transport.Link, error) {
	n := t.net
	n.mu.Lock()
	to := n.listeners[remote]
	rtt := n.faults.Latency + n.belowLocked(n.faults.Latency)
	refuse, reject := n.chanceLocked(n.faults.Refuse), n.chanceLocked(n.faults.Reject)
	n.dialed++
	sport := uint16(32768 + n.dialed%4096*8 + path%8)
	n.mu.Unlock()
	if err := wait(ctx, rtt); err != nil {
		return nil, fmt.Errorf("simnet: dial %v: %w", remote, err)
	}
	refused := fmt.Errorf("simnet: dial %v: %w", remote, syscall.ECONNREFUSED)
	if to == nil || refuse {
		return nil, refused
	}
	a := n.newPort(t, netip.AddrPortFrom(local, sport), netip.AddrPortFrom(remote, transport.DefaultPort))
	b := n.newPort(to, a.remote, a.local)
	a.peer, b.peer = b, a
	to.mu.Lock()
	accept := to.accept[remote]
	to.mu.Unlock()
	if accept == nil || !to.add(b) {
		return nil, refused
	}
	if !t.add(a) {
		b.Close(transport.Abort)
		return nil, fmt.Errorf("simnet: dial %v: %w", remote, transport.ErrClosed)
	}
	if reject {
		b.Close(transport.Drain)
	} else {
		accept(b)
	}
	return a, nil
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stats returns nothing.
func (t *nic) Stats() []transport.Counter { return nil }

func (t *nic) add(p *port) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.ports[p] = struct{}{}
	t.wg.Add(1)
	return true
}

func (t *nic) remove(p *port) {
	t.mu.Lock()
	delete(t.ports, p)
	t.mu.Unlock()
	t.wg.Done()
}

func (t *nic) all() []*port {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]*port, 0, len(t.ports))
	for p := range t.ports {
		out = append(out, p)
	}
	return out
}

// Close ends listening and aborts all links.
func (t *nic) Close() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil
	}
	t.closed = true
	t.mu.Unlock()
	t.Unlisten()
	for _, p := range t.all() {
		p.Close(transport.Abort)
	}
	t.wg.Wait()
	return nil
}
