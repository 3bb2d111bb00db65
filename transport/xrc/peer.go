package xrc

import (
	"context"
	"net/netip"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/internal/lockorder"
	"github.com/rds-go/rds/xrc/objects"
)

// hosts are the two ends of a connection.
type hosts struct{ local, remote netip.Addr }

// peer is a pair of hosts, seen from one of them: its paths, and what channels have there.
//
// No method of objects.Device is called with mu held: what those call back takes it.
type peer struct {
	hosts
	t     *Transport
	users int             // guarded by Transport.mu: links, and calls that are about to change something
	paths [maxPaths]*path // guarded by Transport.mu; nil: nothing is known of a path

	reach reachable // what the peer's requests find

	mu          lockorder.Mutex[peerMu]
	mux         *mux                            // guarded by mu; nil if there is none
	next        *mux                            // guarded by mu; follows mux, whose end is about to be heard; nil: nothing does
	incarnation uint64                          // guarded by mu; the peer's incarnation on the last connection
	changed     chan struct{}                   // guarded by mu; closed, and made anew, when mux changes
	calls       int                             // guarded by mu; questions that have no answer
	channels    map[uint32]*Channel             // guarded by mu
	lastChannel uint32                          // guarded by mu
	carriers    map[objects.Ref]*carrier        // guarded by mu
	ledgers     []pastLink                      // guarded by mu; oldest first
	gone        map[objects.Ref]struct{}        // guarded by mu; queue pairs that are gone and have to be announced
	ended       map[objects.Ref]struct{}        // guarded by mu; targets of the peer that ended while channels are connecting
	limits      map[objects.Ref]targetLimits    // guarded by mu; of targets of the peer, that changed while channels are connecting
	altered     map[objects.Ref]*objects.Target // guarded by mu; targets here whose limits the peer has to be told
	connecting  int                             // guarded by mu; number of channels that are connecting
	hurry       bool                            // guarded by mu; maintain is to look soon

	wanting lockorder.Mutex[peerWanting] // taken before mu
	release func()                       // guarded by wanting; ends what Options.Want has begun; nil: nobody wants a connection
}

// pastLink is what is left of a connection that was lost.
type pastLink struct {
	id     uint64
	ledger *ledger
}

const (
	maxLedgers = 256     // lost connections that a peer may ask about
	maxPast    = 1 << 16 // runs in their ledgers together
	maxGone    = 1 << 16 // announcements that wait for a connection
)

// rememberLocked keeps what m has delivered. One connection may be lost after the
// other before the peer has asked.
func (p *peer) rememberLocked(m *mux) {
	p.ledgers = append(p.ledgers, pastLink{m.id, m.ledger})
	runs := 0
	for i := len(p.ledgers) - 1; i >= 0; i-- {
		runs += p.ledgers[i].ledger.size()
		if keep := len(p.ledgers) - i; keep > maxLedgers || keep > 1 && runs > maxPast {
			p.ledgers = append(p.ledgers[:0], p.ledgers[i+1:]...)
			return
		}
	}
}

func newPeer(t *Transport, h hosts) *peer {
	return &peer{hosts: h, t: t, changed: make(chan struct{}), channels: make(map[uint32]*Channel), carriers: make(map[objects.Ref]*carrier),
		gone: make(map[objects.Ref]struct{}), ended: make(map[objects.Ref]struct{}),
		limits: make(map[objects.Ref]targetLimits), altered: make(map[objects.Ref]*objects.Target)}
}

// pathLocked is a path of the pair, with Transport.mu.
func (p *peer) pathLocked(i int) *path {
	if p.paths[i] == nil {
		p.paths[i] = &path{p: p, index: uint8(i)}
	}
	return p.paths[i]
}

// talking is the connection there is, nil if nothing of channels is on it.
func (p *peer) talking() *mux {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.channels)+len(p.carriers) == 0 {
		return nil
	}
	return p.mux
}

// want has RDS make connections to the peer, and make them again, as long as channels or
// questions need one.
func (p *peer) want() {
	want := p.t.opts.Want
	if want == nil {
		return
	}
	p.wanting.Lock()
	defer p.wanting.Unlock()
	p.mu.Lock()
	wanted := p.calls+len(p.channels) > 0
	p.mu.Unlock()
	switch {
	case wanted && p.release == nil:
		p.release = want(p.local, p.remote)
	case !wanted && p.release != nil:
		p.release()
		p.release = nil
	}
}

func (p *peer) changeLocked() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *peer) allChannels() []*Channel {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]*Channel, 0, len(p.channels))
	for _, ch := range p.channels {
		list = append(list, ch)
	}
	return list
}

func (p *peer) channel(index uint32) *Channel {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.channels[index]
}

// call asks the peer's transport, and again if the connection is lost before there is an
// answer: a question asked twice is answered twice in the same way. The mux is the one that
// the answer came by.
func (p *peer) call(ctx context.Context, m message) (answer, *mux, error) {
	p.mu.Lock()
	p.calls++
	p.mu.Unlock()
	p.want()
	defer p.want()
	defer func() {
		p.mu.Lock()
		p.calls--
		p.mu.Unlock()
	}()
	for {
		p.mu.Lock()
		x, changed := p.mux, p.changed
		p.mu.Unlock()
		if p.t.ctx.Err() != nil {
			return nil, nil, ErrClosed
		}
		if x != nil {
			a, err := x.call(ctx, m)
			if err == nil {
				return a, x, nil
			}
			if err != errLost {
				return nil, nil, err
			}
		}
		select {
		case <-changed:
		case <-p.t.ctx.Done():
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// resolve asks for the queue behind a service, on the connection there is, and without one by
// a question that makes none.
func (p *peer) resolve(ctx context.Context, service uint64) (objects.Answer, error) {
	p.mu.Lock()
	x := p.mux
	p.mu.Unlock()
	var a answer
	err := error(errLost)
	if x != nil {
		a, err = x.call(ctx, &resolve{service: service})
	}
	if err == errLost {
		a, err = p.t.question(ctx, p.hosts, &resolve{service: service})
	}
	if err != nil {
		return objects.Answer{}, err
	}
	r, ok := a.(*resolved)
	switch {
	case !ok:
		return objects.Answer{}, errRecord
	case r.status != objects.StatusFound:
		return objects.Answer{}, &StatusError{r.status}
	}
	return r.queue, nil
}

// up makes m the connection of channels. If there is one whose end is still to be heard, m
// follows it.
func (p *peer) up(m *mux) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.t.ctx.Err() != nil:
	case p.mux != nil:
		p.next = m
	default:
		p.useLocked(m)
	}
}

func (p *peer) useLocked(m *mux) {
	if p.incarnation != m.incarnation {
		// Whatever was known is of another life.
		if p.incarnation != 0 {
			clear(p.gone)
		}
		p.incarnation, p.ledgers = m.incarnation, nil
	}
	p.mux = m
	for _, c := range p.carriers {
		p.hurry = p.hurry || c.mux == nil // the initiator of a suspended carrier may have ended meanwhile
	}
	if p.hurry {
		p.t.wake()
	}
	p.changeLocked()
	close(m.used)
	p.t.work.Go(m.resume)
}

// lost keeps what a connection leaves behind for the next one. Nothing touches the
// connection any more.
func (p *peer) lost(m *mux) {
	p.mu.Lock()
	used := p.mux == m && len(p.channels) > 0 || m.ledger.size() > 0
	for _, c := range p.carriers {
		used = used || c.mux == m
	}
	p.mu.Unlock()
	if used {
		p.keep(m)
	}
	p.mu.Lock()
	switch {
	case p.next == m:
		p.next = nil
	case p.mux == m && p.next != nil:
		next := p.next
		p.next = nil
		p.useLocked(next)
	case p.mux == m:
		p.mux = nil
		p.changeLocked()
	}
	p.mu.Unlock()
	if used {
		p.t.opts.Logger.Info("channels lost their connection", zap.Stringer("local", p.local), zap.Stringer("peer", p.remote), zap.Error(m.cause()))
		p.sweep()
		p.t.wake()
	}
}

// keep suspends what the connection carried.
func (p *peer) keep(m *mux) {
	now := p.t.now()
	p.mu.Lock()
	p.rememberLocked(m)
	var carriers []*carrier
	for _, c := range p.carriers {
		if c.mux == m {
			c.mux = nil
			carriers = append(carriers, c)
		}
	}
	p.mu.Unlock()
	for _, c := range carriers {
		_ = c.target.Suspend(now)
	}
	for _, ch := range p.allChannels() {
		ch.suspend(m, now)
	}
}

// announce tells the peer that a queue pair of ours is no more.
func (p *peer) announce(r objects.Ref) {
	p.mu.Lock()
	if len(p.gone) < maxGone {
		p.gone[r] = struct{}{}
	}
	m := p.mux
	p.mu.Unlock()
	if m != nil {
		m.speak()
	}
}

// idle tells whether nothing is left of a peer. The caller holds Transport.mu.
func (p *peer) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mux == nil && p.calls+len(p.channels)+len(p.carriers) == 0
}

// sweep ends what xrc has ended while there was no connection.
func (p *peer) sweep() {
	for _, ch := range p.allChannels() {
		ch.sweep()
	}
	p.mu.Lock()
	for ref, c := range p.carriers {
		if c.mux == nil && c.target.State() == objects.StateError {
			delete(p.carriers, ref)
			p.reach.removeLocked(c)
		}
	}
	p.mu.Unlock()
}

func (p *peer) hurries() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.hurry
	p.hurry = false
	return h
}

// look is the turn of a peer in a round of maintain.
func (p *peer) look(now time.Time) {
	if m := p.talking(); m != nil {
		m.ask(p.t.objects.Pairs(p.remote), now)
	}
}
