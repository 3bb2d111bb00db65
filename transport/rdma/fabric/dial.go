package fabric

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"go.uber.org/zap"

	"github.com/rds-go/rds/transport/iwarp"
	"github.com/rds-go/rds/transport/iwarp/xctl"
	"github.com/rds-go/rds/xrc/setup"
)

// One connection there is between two hosts. The side that needs it connects; if
// both do at once, the request of the smaller address wins:
//
//   - a side that is connecting refuses the other's request if its own address is
//     the smaller one, and else accepts it, for its own will be refused;
//   - a side that has a connection of its own making refuses a request whose sender
//     does not know of that connection: it was under way at that time;
//   - any other request is from a peer that has lost the connection there was, and
//     replaces it.
//
// What goes with a request that is refused is asked again by the connection there
// is then.

// runLocked has somebody connect.
func (p *peer) runLocked() {
	if p.running || p.link != nil || p.f.ctx.Err() != nil {
		return
	}
	p.running = true
	p.f.wg.Go(p.run)
}

// run connects until there is a connection or nobody wants one.
func (p *peer) run() {
	wait := p.f.cfg.RedialWait
	for {
		p.mu.Lock()
		if p.link != nil || !p.wantsLocked() || p.f.ctx.Err() != nil {
			p.running, p.dialing = false, false
			p.mu.Unlock()
			return
		}
		var c *firstCall
		for _, x := range p.calls {
			if x.answer == nil {
				c = x
				break
			}
		}
		query := false
		if c != nil {
			_, query = c.m.(*setup.Resolve)
		}
		if c == nil && p.suspended == 0 {
			// All were answered, and are about to leave.
			p.calls = nil
			p.mu.Unlock()
			continue
		}
		p.dialing = !query
		last, changed := p.last, p.changed
		p.mu.Unlock()
		err := p.dial(c, last, query)
		p.mu.Lock()
		p.dialing = false
		p.failure = err
		p.mu.Unlock()
		if err == nil {
			wait = p.f.cfg.RedialWait
			continue
		}
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
		case <-changed:
		case <-p.f.ctx.Done():
		}
		pause.Stop()
		wait = min(2*wait, p.f.cfg.RedialMax)
	}
}

// dial tries to connect, with a question if there is one. No error means that there
// is a connection, or that the question was answered without.
func (p *peer) dial(c *firstCall, last uint64, query bool) error {
	f := p.f
	f.stats.dials.Add(1)
	l, err := f.newLink(p, f.xrc.Incarnation()+f.seq.Add(1), true)
	if err != nil {
		return err
	}
	hello := record{kind: recordHello, link: l.id, last: last}
	if query {
		hello.reason = reasonQuery
	}
	private := hello.appendTo(nil)
	if c != nil {
		private = withID(c.m, 0).AppendTo(private)
	}
	ctx, cancel := context.WithTimeout(f.ctx, setupTime)
	defer cancel()
	est, err := f.dev.ConnectFrom(ctx, l.qp, netip.AddrPortFrom(p.local, 0), netip.AddrPortFrom(p.remote, f.cfg.Port), l.params(private))
	if err != nil {
		l.abandon(err)
		var refused *iwarp.RejectedError
		if errors.As(err, &refused) {
			r, answer, e := decodePrivate(refused.Private)
			switch {
			case e != nil:
				return err
			case answer != nil:
				p.mu.Lock()
				c.answeredLocked(answer, nil)
				p.mu.Unlock()
				return nil
			case r.reason == reasonCrossed:
				return errCrossed
			}
		}
		return err
	}
	_, answer, err := decodePrivate(est.Private)
	if err != nil {
		l.abandon(err)
		return err
	}
	if !p.open(l, est.Peer.Incarnation, c, answer) {
		l.abandon(errCrossed)
		return errCrossed
	}
	l.resume()
	return nil
}

// open makes a connection that is up the peer's.
func (p *peer) open(l *link, incarnation uint64, c *firstCall, answer setup.Message) bool {
	l.incarnation = incarnation
	p.f.xrc.HostUp(p.remote, incarnation)
	p.sweep()
	if !p.up(l, c, answer) {
		return false
	}
	p.f.cfg.Logger.Info("hosts connected", zap.Stringer("local", p.local), zap.Stringer("peer", p.remote), zap.Bool("dialed", l.dialed))
	l.run(true)
	return true
}

// decodePrivate reads what a fabric puts into private data.
func decodePrivate(b []byte) (r record, m setup.Message, err error) {
	rest, err := r.decode(b)
	if err == nil && r.kind != recordHello {
		err = errRecord
	}
	if err == nil && len(rest) > 0 {
		m, _, err = setup.Decode(rest)
	}
	return r, m, err
}

// listen takes the requests that come to an address of ours.
func (f *Fabric) listen(ln *iwarp.Listener) {
	slots := make(chan struct{}, acceptsAtOnce)
	for {
		in, err := ln.Accept(f.ctx)
		if err != nil {
			return
		}
		slots <- struct{}{}
		f.wg.Go(func() {
			defer func() { <-slots }()
			f.decide(in)
		})
	}
}

const (
	acceptsAtOnce = 64
	decidesAtOnce = 4 // requests of one peer that are decided at a time

	// setupTime bounds an attempt: so long the side with the smaller address refuses
	// the other's.
	setupTime = 10 * time.Second
)

// decide accepts or refuses a request.
func (f *Fabric) decide(in *iwarp.Incoming) {
	var block xctl.Block // only for reading the peer's block
	offer, upper, err := block.Negotiate(in.Private)
	if err != nil || !offer.Extended {
		_ = in.Reject(nil)
		return
	}
	hello, m, err := decodePrivate(upper)
	if err != nil || hello.link == 0 || offer.Peer.Incarnation == 0 {
		_ = in.Reject(nil)
		return
	}
	refuse := func(r reason, answer setup.Message) {
		b := (&record{kind: recordHello, link: hello.link, reason: r}).appendTo(nil)
		if answer != nil {
			b = answer.AppendTo(b)
		}
		_ = in.Reject(b)
	}
	p, err := f.peer(hosts{in.Local().Addr().Unmap(), in.Remote().Addr().Unmap()})
	if err != nil {
		refuse(reasonClosed, nil)
		return
	}
	defer f.leave(p)
	if p.deciding.Add(1) > decidesAtOnce {
		p.deciding.Add(-1)
		refuse(reasonCrossed, nil)
		return
	}
	defer p.deciding.Add(-1)
	if q, ok := m.(*setup.Resolve); ok && hello.reason == reasonQuery {
		answer, _ := p.answer(nil, q)
		refuse(reasonNone, answer)
		return
	}
	switch m.(type) {
	case nil, *setup.Resolve, *setup.Connect:
	default:
		_ = in.Reject(nil)
		return
	}
	p.accepting.Lock()
	defer p.accepting.Unlock()
	p.mu.Lock()
	old := p.link
	crossed := p.dialing && p.smaller() ||
		old != nil && old.dialed && old.incarnation == offer.Peer.Incarnation && hello.last != old.id
	p.mu.Unlock()
	if crossed {
		refuse(reasonCrossed, nil)
		return
	}
	if old != nil {
		old.end(errReplaced)
		<-old.finished
	}
	l, err := f.newLink(p, hello.link, false)
	if err != nil {
		refuse(reasonClosed, nil)
		return
	}
	f.xrc.HostUp(p.remote, offer.Peer.Incarnation)
	l.incarnation = offer.Peer.Incarnation
	reply := (&record{kind: recordHello, link: l.id}).appendTo(nil)
	if m != nil {
		answer, found := p.answer(l, m)
		if !found && hello.last == 0 {
			refuse(reasonNone, answer)
			l.abandon(errCrossed)
			return
		}
		reply = answer.AppendTo(reply)
	}
	ctx, cancel := context.WithTimeout(f.ctx, setupTime)
	defer cancel()
	if _, err := in.Accept(ctx, l.qp, l.params(reply)); err != nil {
		refuse(reasonClosed, nil) // for a connection that ended before the request was decided
		l.abandon(err)
		return
	}
	if !p.open(l, offer.Peer.Incarnation, nil, nil) {
		l.abandon(errCrossed)
		return
	}
	f.wg.Go(l.resume)
}
