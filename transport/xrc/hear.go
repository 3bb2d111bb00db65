package xrc

import (
	"context"
	"time"

	"github.com/rds-go/rds/xrc/objects"
)

// hear takes one control message. An error ends the connection.
func (c *control) hear(b []byte) error {
	p := c.m.p
	x, remote := p.t.objects, p.remote
	if !isRecord(b) {
		id, m, _, err := decodeMessage(b)
		switch m.(type) {
		case nil:
			return err
		case *resolved, *connected:
			c.answered(id, m)
			return nil
		}
		return c.reply(appendMessage(nil, id, p.answer(c.m, m)))
	}
	var r record
	if _, err := r.decode(b); err != nil {
		return err
	}
	switch r.kind {
	case recordGone:
		p.noteEnded(r.refs)
		x.PeerGone(remote, r.refs...)
	case recordAsk:
		missing := p.missing(r.pairs)
		return c.reply((&record{kind: recordMissing, id: r.id, refs: missing}).appendTo(nil))
	case recordMissing:
		c.mu.Lock()
		if r.id == 0 {
			c.asked = time.Time{}
		}
		c.mu.Unlock()
		x.PeerGone(remote, r.refs...)
		c.answered(r.id, &r)
	case recordInquire:
		a := record{kind: recordDelivered, id: r.id, queue: r.queue, link: r.link}
		known := false
		if a.numbers, known = p.delivered(&r); !known {
			a.numbers, a.unknown = nil, true
		}
		return c.reply(a.appendTo(nil))
	case recordDelivered:
		c.answered(r.id, &r)
	case recordClosed:
		p.queuesGone(r.numbers)
	case recordLimits:
		p.hearLimits(r.limits)
	case recordRefused:
		p.hearRefused(r.refs)
	case recordBye:
		x.HostDown(remote)
		return errShutdown
	default:
		return errRecord
	}
	return nil
}

func (c *control) reply(b []byte) error {
	if !c.answer(b) {
		return errFlood
	}
	return nil
}

// noteEnded keeps what the peer says for channels that do not know their target yet.
func (p *peer) noteEnded(refs []objects.Ref) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range refs {
		if p.connecting > 0 && len(p.ended) < maxGone {
			p.ended[r] = struct{}{}
		}
	}
}

// newsOf tells what was heard of a target before its channel knew of it: its end, and new limits.
func (p *peer) newsOf(target objects.Ref) (ended bool, limits *targetLimits) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ended = p.ended[target]
	if l, ok := p.limits[target]; ok {
		limits = &l
	}
	return ended, limits
}

// connects counts the channels that connect.
func (p *peer) connects(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.connecting += n; p.connecting == 0 {
		clear(p.ended)
		clear(p.limits)
	}
}

// missing tells which of our queue pairs are not connected as the peer has them. It
// leaves out initiators that are being connected: their targets are there before they
// know of them. They are listed first, for they may get there at any moment.
func (p *peer) missing(pairs []objects.Pair) (list []objects.Ref) {
	young := make(map[objects.Ref]bool)
	for _, ch := range p.allChannels() {
		if ref, connecting := ch.connecting(); connecting {
			young[ref] = true
		}
	}
	for _, r := range p.t.objects.Missing(p.remote, pairs) {
		if !young[r] {
			list = append(list, r)
		}
	}
	return list
}

// delivered tells which messages have come by a connection that was lost; false if
// that is not known any more.
func (p *peer) delivered(r *record) ([]uint32, bool) {
	p.mu.Lock()
	var past *ledger
	for _, x := range p.ledgers {
		if x.id == r.link {
			past = x.ledger
		}
	}
	p.mu.Unlock()
	if past == nil {
		return nil, false
	}
	return past.came(r.queue, r.numbers)
}

// ask asks the peer whether our queue pairs are connected as we think, in one
// frame for as many as it holds; the others have their turn the next time. A peer
// that owes the last answer is silent.
func (m *mux) ask(pairs []objects.Pair, now time.Time) {
	c := &m.control
	c.mu.Lock()
	owed, since, quiet := !c.asked.IsZero(), now.Sub(c.asked), len(pairs)+len(c.calls) == 0
	if !owed && !quiet {
		c.asked = now
	}
	c.mu.Unlock()
	switch {
	case owed && since >= m.t.opts.Interval:
		m.end(errSilent)
		return
	case owed, quiet:
		return // the peer was asked a moment ago, or no channel waits for an answer
	}
	sortPairs(pairs)
	if m.scanned >= len(pairs) {
		m.scanned = 0
	}
	turn := pairs[m.scanned:min(m.scanned+maxItems, len(pairs))]
	m.scanned += len(turn)
	m.t.stats.asks.Add(1)
	c.mu.Lock()
	c.out = append(c.out, outgoing{b: (&record{kind: recordAsk, pairs: turn}).appendTo(nil)})
	c.mu.Unlock()
	c.signal()
}

// inquire asks which of some messages have come by a connection that was lost.
// known is false if the peer cannot tell any more.
func (m *mux) inquire(ctx context.Context, lost uint64, queue uint32, serials []uint32) (came []uint32, known bool, err error) {
	for len(serials) > 0 {
		n := min(len(serials), maxItems)
		a, err := m.control.ask(ctx, func(id uint32) []byte {
			return (&record{kind: recordInquire, id: id, link: lost, queue: queue, numbers: serials[:n]}).appendTo(nil)
		})
		r, ok := a.(*record)
		switch {
		case err != nil:
			return nil, false, err
		case !ok:
			return nil, false, errRecord
		case r.unknown:
			return nil, false, nil
		}
		came = append(came, r.numbers...)
		serials = serials[n:]
	}
	return came, true, nil
}
