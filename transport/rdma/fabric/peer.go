package fabric

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/xrc"
	"github.com/rds-go/rds/xrc/setup"
)

// peer is a pair of hosts, seen from one of them: the connection there is, or what
// remains for the next one.
//
// No method of xrc.Device is called with mu held: what those call back takes it.
type peer struct {
	hosts
	f     *Fabric
	users int // guarded by Fabric.mu: calls that are about to change something

	// accepting is held while a request of the peer is decided; deciding are those
	// that wait for it, too.
	accepting sync.Mutex
	deciding  atomic.Int32

	// scopes are the domains that the peer has targets in, for Find.
	scopes atomic.Pointer[[]scope]

	mu          sync.Mutex
	link        *link         // nil if there is none
	last        uint64        // number of link, or of the previous one if link is nil
	incarnation uint64        // the peer's incarnation on the last connection
	changed     chan struct{} // closed, and made anew, when link changes
	running     bool          // a goroutine is connecting
	dialing     bool          // the connecting goroutine has sent the request
	failure     error         // why the last attempt to connect failed
	calls       []*firstCall  // first calls that wait for a connection
	channels    map[uint32]*Channel
	lastChannel uint32
	suspended   int // channels that wait for a connection
	carriers    map[xrc.Ref]*carrier
	ledgers     []pastLink           // oldest first
	gone        map[xrc.Ref]struct{} // queue pairs that are gone and have to be announced
	ended       map[xrc.Ref]struct{} // targets of the peer that ended while channels are connecting
	connecting  int                  // number of channels that are connecting
	hurry       bool                 // maintain is to look soon
	idleSince   time.Time
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

// rememberLocked keeps what l has delivered. One connection may be lost after the
// other before the peer has asked.
func (p *peer) rememberLocked(l *link) {
	p.ledgers = append(p.ledgers, pastLink{l.id, l.ledger})
	runs := 0
	for i := len(p.ledgers) - 1; i >= 0; i-- {
		runs += p.ledgers[i].ledger.size()
		if keep := len(p.ledgers) - i; keep > maxLedgers || keep > 1 && runs > maxPast {
			p.ledgers = append(p.ledgers[:0], p.ledgers[i+1:]...)
			return
		}
	}
}

func newPeer(f *Fabric, h hosts) *peer {
	return &peer{hosts: h, f: f, changed: make(chan struct{}), channels: make(map[uint32]*Channel), carriers: make(map[xrc.Ref]*carrier), gone: make(map[xrc.Ref]struct{}), ended: make(map[xrc.Ref]struct{})}
}

// smaller tells which side's request wins when both connect at once.
func (p *peer) smaller() bool { return p.local.Less(p.remote) }

func (p *peer) current() *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.link
}

// bye tells the peer that this incarnation ends, also if their connection is about
// to come up.
func (p *peer) bye(ctx context.Context) {
	p.accepting.Lock()
	l := p.current()
	p.accepting.Unlock()
	if l != nil {
		l.bye(ctx)
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

// firstCall is a question that waits for a connection, or goes with the request
// for it.
type firstCall struct {
	m      setup.Message
	answer setup.Message
	link   *link         // link by which the answer came, nil if the call was refused
	done   chan struct{} // closed when there is an answer
}

// call asks the peer's fabric, and again if the connection is lost before there is
// an answer: a question asked twice is answered twice in the same way. The link is
// the one the answer came by.
func (p *peer) call(ctx context.Context, m setup.Message) (setup.Message, *link, error) {
	for {
		p.mu.Lock()
		if p.f.ctx.Err() != nil {
			p.mu.Unlock()
			return nil, nil, ErrClosed
		}
		if l := p.link; l != nil {
			changed := p.changed
			p.mu.Unlock()
			answer, err := l.call(ctx, m)
			if err == nil {
				return answer, l, nil
			}
			select {
			case <-l.ended:
			default:
				return nil, nil, err
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return nil, nil, ctx.Err()
			}
			continue
		}
		c := &firstCall{m: m, done: make(chan struct{})}
		p.calls = append(p.calls, c)
		changed := p.changed
		p.runLocked()
		p.mu.Unlock()
		var err error
		select {
		case <-c.done:
		case <-changed:
		case <-p.f.ctx.Done():
			err = ErrClosed
		case <-ctx.Done():
			err = ctx.Err()
		}
		p.mu.Lock()
		for i, x := range p.calls {
			if x == c {
				p.calls = append(p.calls[:i], p.calls[i+1:]...)
				break
			}
		}
		if err != nil && p.failure != nil {
			err = fmt.Errorf("%w: %w", err, p.failure)
		}
		answer, l := c.answer, c.link
		p.mu.Unlock()
		if answer != nil || err != nil {
			return answer, l, err
		}
	}
}

// answeredLocked gives a call its answer.
func (c *firstCall) answeredLocked(m setup.Message, l *link) {
	if c != nil && m != nil && c.answer == nil {
		c.answer, c.link = m, l
		close(c.done)
	}
}

func (p *peer) resolve(ctx context.Context, service uint64) (xrc.Answer, error) {
	m, _, err := p.call(ctx, &setup.Resolve{Service: service})
	if err != nil {
		return xrc.Answer{}, err
	}
	r, ok := m.(*setup.Resolved)
	switch {
	case !ok:
		return xrc.Answer{}, errRecord
	case r.Status != setup.Found:
		return xrc.Answer{}, &StatusError{r.Status}
	}
	return xrc.Answer{SRQN: r.Queue.SRQN, Tag: r.Queue.Tag}, nil
}

// up makes l the connection, by which c has got its answer, if there are these two.
// It is false if there is another connection.
func (p *peer) up(l *link, c *firstCall, answer setup.Message) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.link != nil || p.f.ctx.Err() != nil {
		return false
	}
	if p.incarnation != l.incarnation {
		// Whatever was known is of another life.
		if p.incarnation != 0 {
			clear(p.gone)
		}
		p.incarnation, p.ledgers = l.incarnation, nil
	}
	p.link, p.last, p.failure = l, l.id, nil
	p.idleSince = time.Time{}
	for _, c := range p.carriers {
		p.hurry = p.hurry || c.link == nil // the initiator of a suspended carrier may have ended meanwhile
	}
	if p.hurry {
		p.f.wake()
	}
	c.answeredLocked(answer, l)
	p.changeLocked()
	return true
}

// lost keeps what a connection leaves behind for the next one. Nothing touches the
// connection any more.
func (p *peer) lost(l *link, was bool) {
	if !was && l.dialed {
		return // nobody has sent anything
	}
	for _, c := range p.f.allCQs() {
		c.collect()
	}
	now := p.f.cfg.Now()
	p.mu.Lock()
	p.rememberLocked(l)
	var carriers []*carrier
	for _, c := range p.carriers {
		if c.link == l {
			c.link = nil
			carriers = append(carriers, c)
		}
	}
	p.mu.Unlock()
	for _, c := range carriers {
		_ = c.target.Suspend(now, c.psn)
	}
	for _, ch := range p.allChannels() {
		ch.suspend(l, now)
	}
	if was {
		p.mu.Lock()
		p.link = nil
		p.changeLocked()
		if p.wantsLocked() {
			p.runLocked()
		}
		p.mu.Unlock()
		p.f.cfg.Logger.Info("hosts disconnected", zap.Stringer("local", p.local), zap.Stringer("peer", p.remote), zap.Error(l.cause()))
	}
	p.sweep()
	p.f.wake()
}

// wantsLocked tells whether there is something to connect for.
func (p *peer) wantsLocked() bool { return len(p.calls) > 0 || p.suspended > 0 }

// announce tells the peer that a queue pair of ours is no more.
func (p *peer) announce(r xrc.Ref) {
	p.mu.Lock()
	if len(p.gone) < maxGone {
		p.gone[r] = struct{}{}
	}
	l := p.link
	p.mu.Unlock()
	if l != nil {
		l.speak()
	}
}

// idle tells whether nothing is left of a peer. The caller holds Fabric.mu.
func (p *peer) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.link == nil && !p.running && len(p.calls)+len(p.channels)+len(p.carriers) == 0
}

// sweep ends what xrc has ended while there was no connection.
func (p *peer) sweep() {
	for _, ch := range p.allChannels() {
		ch.sweep()
	}
	p.mu.Lock()
	changed := false
	for ref, c := range p.carriers {
		if c.link == nil && c.target.State() == xrc.StateError {
			delete(p.carriers, ref)
			changed = true
		}
	}
	if changed {
		p.rescopeLocked()
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
	p.mu.Lock()
	l := p.link
	used := len(p.calls)+len(p.channels)+len(p.carriers) > 0 || p.running
	if used {
		p.idleSince = time.Time{}
	} else if p.idleSince.IsZero() {
		p.idleSince = now
	}
	over := !used && now.Sub(p.idleSince) >= p.f.cfg.Idle
	p.mu.Unlock()
	switch {
	case over && l != nil:
		l.end(errIdle)
	case over:
		p.f.forget(p)
	case l != nil:
		l.ask(p.f.xrc.Pairs(p.remote), now)
	}
}

// params are those of every connection.
func (p *peer) params(private []byte) iwarp.ConnParams {
	return iwarp.ConnParams{
		IRD: p.f.cfg.Reads, ORD: p.f.cfg.Reads, NoCRC: p.f.cfg.NoCRC, PeerToPeer: true, Rev: 2, Guard: -1, Private: private,
	}
}
