package loop

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/mr"
	"github.com/rds-go/rds/transport"
)

// Transport makes links within its Network. Network.Transport makes it, Close
// ends it.
type Transport struct {
	net    *Network
	memory func(local netip.Addr) func(port uint16) *mr.Domain // what is exposed; nil: nothing is
	pool   buf.Pool
	wg     sync.WaitGroup // links until they are finished, and what runs for them
	once   sync.Once

	mu     lockorder.Mutex[Transport]
	closed bool               // guarded by mu
	links  map[*link]struct{} // guarded by mu; from register to finish

	sendFull   atomic.Uint64
	writeSpace atomic.Uint64
}

var _ transport.Transport = (*Transport)(nil)

// Expose has links that lead to t carry operations on the regions of whoever has the port that
// an operation is for: they have Caps.Operations. What memory returns for the address that a
// link leads to finds the protection domain of the program that has a port, nil if nobody does.
// Expose is called before the first link is made, and the device of the domains, which is one,
// outlives t.
func (t *Transport) Expose(memory func(local netip.Addr) func(port uint16) *mr.Domain) {
	t.memory = memory
}

// Name returns "loop".
func (t *Transport) Name() string { return "loop" }

// Listen accepts links to local from every transport of the network.
func (t *Transport) Listen(local netip.Addr, accept func(transport.Link)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return transport.ErrClosed
	}
	return t.net.listen(local.Unmap(), &listener{t: t, accept: accept})
}

// Unlisten ends listening; links go on.
func (t *Transport) Unlisten() { t.net.forget(t) }

// Stats returns how often a write found its direction full, and how often
// Writable was called.
func (t *Transport) Stats() []transport.Counter {
	return []transport.Counter{
		{Name: "loop_send_full", Value: t.sendFull.Load()},
		{Name: "loop_write_space_calls", Value: t.writeSpace.Load()},
	}
}

// Close ends listening, aborts all links and returns when every handler has
// heard Closed. It must not be called from a handler.
func (t *Transport) Close() error {
	t.once.Do(func() {
		t.mu.Lock()
		t.closed = true
		links := make([]*link, 0, len(t.links))
		for l := range t.links {
			links = append(links, l)
		}
		t.mu.Unlock()
		t.net.forget(t)
		for _, l := range links {
			l.Close(transport.Abort)
		}
		t.wg.Wait()
	})
	return nil
}

// register takes a new link into the transport's care, unless it is closed.
// The wait group counts it, and for an accepted link the call of accept too.
func (t *Transport) register(l *link) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.links[l] = struct{}{}
	t.wg.Add(1)
	if l.accepted {
		t.wg.Add(1)
	}
	return true
}

func (t *Transport) unregister(l *link) {
	t.mu.Lock()
	delete(t.links, l)
	t.mu.Unlock()
	t.wg.Done()
}
