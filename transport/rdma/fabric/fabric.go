package fabric

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc"
)

// Fabric carries the queue pairs of an xrc.Device to other hosts. A daemon has
// one for each of its lives.
type Fabric struct {
	cfg   Config
	dev   *iwarp.Device
	xrc   *xrc.Device
	pd    *iwarp.PD // protection domain of all connections and regions
	ctx   context.Context
	stop  context.CancelFunc
	wg    sync.WaitGroup // everything but wg of links
	poke  chan struct{}  // cap 1: a deadline has changed
	seq   atomic.Uint64  // number of the last connection
	stats counters

	mu     sync.Mutex
	closed bool                // guarded by mu
	peers  map[hosts]*peer     // guarded by mu
	cqs    map[*CQ]struct{}    // guarded by mu
	lns    []*iwarp.Listener   // guarded by mu
	inis   map[uint32]*Channel // guarded by mu; by the number of the initiator

	linksMu sync.RWMutex
	links   map[*iwarp.QP]*link // guarded by linksMu
}

// hosts are the two ends of a connection.
type hosts struct{ local, remote netip.Addr }

// New makes a fabric and listens.
func New(c Config) (*Fabric, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	f := &Fabric{cfg: c, dev: c.Device, xrc: c.XRC, poke: make(chan struct{}, 1), peers: make(map[hosts]*peer),
		cqs: make(map[*CQ]struct{}), inis: make(map[uint32]*Channel), links: make(map[*iwarp.QP]*link)}
	f.ctx, f.stop = context.WithCancel(context.Background())
	var err error
	if f.pd, err = c.Device.AllocPD(); err != nil {
		f.stop()
		return nil, err
	}
	for _, a := range c.Addresses {
		ln, err := c.Device.Listen(netip.AddrPortFrom(a, c.Port))
		if err != nil {
			_ = f.Close()
			return nil, err
		}
		f.lns = append(f.lns, ln)
		f.wg.Go(func() { f.listen(ln) })
	}
	f.wg.Go(f.maintain)
	return f, nil
}

// byeTime bounds how long Close waits for peers to hear of it.
const byeTime = time.Second

// Close ends the fabric: peers are told, so that their queue pairs to this
// incarnation end at once, and all connections are closed. The sessions' objects
// remain the sessions'; xrc.Device.Close tells them.
func (f *Fabric) Close() error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return ErrClosed
	}
	f.closed = true
	lns, peers := f.lns, f.peersLocked()
	f.mu.Unlock()
	for _, ln := range lns {
		_ = ln.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), byeTime)
	defer cancel()
	var wg sync.WaitGroup
	for _, p := range peers {
		wg.Go(func() { p.bye(ctx) })
	}
	told := make(chan struct{})
	go func() {
		wg.Wait()
		close(told)
	}()
	select {
	case <-told:
	case <-ctx.Done():
	}
	f.stop()
	<-told
	for _, p := range peers {
		p.mu.Lock() // whoever has not seen the end has begun, and is waited for
		p.changeLocked()
		p.mu.Unlock()
	}
	for _, l := range f.allLinks() {
		l.end(ErrClosed)
		<-l.finished
	}
	f.wg.Wait()
	for _, p := range peers {
		for _, ch := range p.allChannels() {
			ch.die(ErrClosed)
		}
	}
	_ = f.pd.Close() // if sessions still have regions the device closes it
	return nil
}

func (f *Fabric) peersLocked() []*peer {
	list := make([]*peer, 0, len(f.peers))
	for _, p := range f.peers {
		list = append(list, p)
	}
	return list
}

func (f *Fabric) allPeers() []*peer {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.peersLocked()
}

func (f *Fabric) allLinks() []*link {
	f.linksMu.RLock()
	defer f.linksMu.RUnlock()
	list := make([]*link, 0, len(f.links))
	for _, l := range f.links {
		list = append(list, l)
	}
	return list
}

// linkOf is the connection that a queue pair is.
func (f *Fabric) linkOf(q *iwarp.QP) *link {
	f.linksMu.RLock()
	defer f.linksMu.RUnlock()
	return f.links[q]
}

// between names a pair of hosts.
func (f *Fabric) between(local, remote netip.Addr) hosts {
	remote = remote.Unmap()
	if local = local.Unmap(); !local.IsValid() {
		for _, a := range f.cfg.Addresses {
			if a.Is4() == remote.Is4() {
				return hosts{a, remote}
			}
		}
	}
	return hosts{local, remote}
}

// peer finds or makes what is known of a pair of hosts. The caller calls leave.
func (f *Fabric) peer(h hosts) (*peer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return nil, ErrClosed
	case !h.local.IsValid() || !h.remote.IsValid() || h.local == h.remote:
		return nil, fmt.Errorf("fabric: no connection from %v to %v: %w", h.local, h.remote, syscall.EADDRNOTAVAIL)
	}
	p := f.peers[h]
	if p == nil {
		p = newPeer(f, h)
		f.peers[h] = p
	}
	p.users++
	return p, nil
}

// leave ends the use of what peer returned.
func (f *Fabric) leave(p *peer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p.users--
}

// forget drops a peer that nothing is left of, and with the last of its addresses
// here what xrc knows of the host.
func (f *Fabric) forget(p *peer) {
	f.mu.Lock()
	if p.users > 0 || f.peers[p.hosts] != p || !p.idle() {
		f.mu.Unlock()
		return
	}
	delete(f.peers, p.hosts)
	last := true
	for h := range f.peers {
		last = last && h.remote != p.remote
	}
	f.mu.Unlock()
	if last {
		f.xrc.HostDown(p.remote)
	}
}

// Resolve asks the fabric at remote for the queue behind a service. It makes no
// connection and holds nothing there. A refusal is a *StatusError. The zero local
// address is the first of Config.Addresses that fits.
func (f *Fabric) Resolve(ctx context.Context, local, remote netip.Addr, service uint64) (xrc.Answer, error) {
	p, err := f.peer(f.between(local, remote))
	if err != nil {
		return xrc.Answer{}, err
	}
	defer f.leave(p)
	return p.resolve(ctx, service)
}

// wake has maintain look at the time again.
func (f *Fabric) wake() {
	select {
	case f.poke <- struct{}{}:
	default:
	}
}

// maintain does what time brings: the end of grace, questions whether queue pairs
// are alive, the end of what is idle.
func (f *Fabric) maintain() {
	timer := time.NewTimer(f.cfg.Interval)
	defer timer.Stop()
	round := f.cfg.Now().Add(f.cfg.Interval)
	for {
		select {
		case <-f.ctx.Done():
			return
		case <-f.poke:
		case <-timer.C:
		}
		now := f.cfg.Now()
		next := f.xrc.Expire(now)
		ask := !now.Before(round)
		if ask {
			round = now.Add(f.cfg.Interval)
		}
		for _, p := range f.allPeers() {
			p.sweep()
			if p.hurries() || ask {
				p.look(now)
			}
		}
		at := round
		if !next.IsZero() && next.Before(at) {
			at = next
		}
		timer.Reset(max(at.Sub(now), time.Millisecond))
	}
}
