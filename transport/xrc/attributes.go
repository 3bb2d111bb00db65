package xrc

import "github.com/rds-go/rds/xrc/objects"

// sync takes over the state and the attributes of the initiator. In StateSQD nothing is
// started, and the session hears when what was started is done.
func (ch *Channel) sync() {
	info, err := ch.ini.Query()
	if err != nil {
		return
	}
	ch.mu.Lock()
	ch.attrs = info.Attr
	ch.depth = min(ch.depth, info.Attr.MaxRdAtomic)
	ch.held = ch.ini.State() == objects.StateSQD // of two calls the later one here sees the later state
	held := ch.held
	ch.mu.Unlock()
	if !held {
		ch.start()
		return
	}
	ch.ini.Draining()
	ch.mu.Lock()
	drained := ch.held && ch.started == 0
	ch.mu.Unlock()
	if drained {
		ch.ini.Drained()
	}
}

// limit takes over what the target allows.
func (ch *Channel) limit(l limits, reads uint8) {
	ch.mu.Lock()
	ch.limits, ch.depth = l, min(int(reads), ch.attr.Reads)
	ch.mu.Unlock()
	ch.start()
}

// Changed follows a change of the target's attributes: the initiator hears of it.
func (c *carrier) Changed() {
	p := c.p
	p.mu.Lock()
	p.reach.changedLocked(c)
	p.altered[c.ref] = c.target
	m := p.mux
	p.mu.Unlock()
	if m != nil {
		m.speak()
	}
}

// takeAltered is what to tell next of targets whose attributes have changed.
func (p *peer) takeAltered() (list []targetLimits) {
	p.mu.Lock()
	altered := make(map[objects.Ref]*objects.Target)
	for ref, t := range p.altered {
		if len(altered) == maxItems {
			break
		}
		altered[ref] = t
		delete(p.altered, ref)
	}
	p.mu.Unlock()
	for ref, t := range altered {
		a := t.Info().Attr
		list = append(list, targetLimits{ref, limitsOf(&a), uint8(a.MaxDestRdAtomic)})
	}
	return list
}

// hearLimits takes over the peer's word of targets.
func (p *peer) hearLimits(list []targetLimits) {
	p.mu.Lock()
	for _, l := range list {
		if p.connecting > 0 && len(p.limits) < maxGone {
			p.limits[l.target] = l
		}
	}
	p.mu.Unlock()
	for _, ch := range p.allChannels() {
		for _, l := range list {
			ch.mu.Lock()
			mine := ch.state != channelConnecting && ch.target == l.target
			ch.mu.Unlock()
			if mine {
				ch.limit(l.limits, l.reads)
			}
		}
	}
}

// hearRefused takes the word of the peer that requests were refused which targets of ours do
// not allow: those that are connected to the peer end for it.
func (p *peer) hearRefused(refs []objects.Ref) {
	for _, ref := range refs {
		p.mu.Lock()
		c := p.carriers[ref]
		p.mu.Unlock()
		if c != nil {
			_ = c.target.Raise(objects.EventQPRequest, objects.ErrForbidden) // fails if the target has ended
		}
	}
}

// accuse tells the peer that a request was refused which its target does not allow.
func (c *control) accuse(target objects.Ref) {
	c.mu.Lock()
	c.out = append(c.out, outgoing{b: (&record{kind: recordRefused, refs: []objects.Ref{target}}).appendTo(nil)})
	c.mu.Unlock()
	c.signal()
}
