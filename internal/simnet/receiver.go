package simnet

import (
	"time"

	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
)

// receiver applies the sequence rule to what one link receives, as package rds
// does.
type receiver struct {
	peer   *peer
	path   int
	end    *end
	proved bool
}

// Begin starts a burst.
func (r *receiver) Begin() {
	p := r.peer
	in := &p.path[r.path].in
	if r.proved {
		in.Sync(p.core.Epoch())
		return
	}
	r.proved = true
	in.Begin(p.core.Epoch())
	p.core.Proved(p.h.s.clock(), r.path)
	p.do()
}

// Message takes one message.
func (r *receiver) Message(h *wire.Header, payload []byte, owned *buf.Buf) {
	if owned != nil {
		defer owned.Release()
	}
	p := r.peer
	s := p.h.s
	in := &p.path[r.path].in
	if p.remote.linux && (h.Sport == wire.PortProbe || h.Dport == wire.PortProbe) {
		clear(h.Extensions[3:]) // Linux 6.1 states its number of paths only
	}
	if s.check.undelivered(payload) {
		return
	}
	s.rigHeader(h)
	if s.cfg.Trace != nil {
		s.tracef("%v<-%v path %d tcp%d: seq %d %d>%d len %d flags %x", p.h, p.remote, r.path, r.end.t.id, h.Sequence, h.Sport, h.Dport, h.Length, h.Flags)
	}
	if !h.IsCongestion() && !in.Accept(h) {
		s.counts.Old++
		if !s.rigged(DeliverOld, 1) {
			return
		}
	}
	if p.core.IsControl(h) {
		if h.IsCongestion() {
			m := wire.CongestionMap(payload)
			p.marked = &m
		}
		if h.IsCongestion() && s.rigged(IgnoreMaps, 0.5) {
			return
		}
		p.core.HandleControl(s.clock(), r.path, h, payload)
		in.Sync(p.core.Epoch())
		p.do()
		return
	}
	if s.rigged(LoseMessages, 0.05) {
		return
	}
	k := p.h.socks[h.Dport]
	if k == nil {
		return
	}
	if len(payload) > 8 && s.rigged(Corrupt, 0.05) {
		payload[len(payload)-1]++
	}
	s.check.delivered(k, p, payload)
	k.receive(len(payload))
}

// End ends a burst.
func (r *receiver) End() {}

// receive queues n bytes at a socket; the application takes them later.
func (k *sock) receive(n int) {
	k.queued += n
	if k.queued > k.rcvbuf {
		k.h.mark(k.port, true)
	}
	s := k.h.s
	d := s.upTo(time.Millisecond)
	if k.slow {
		d = s.upTo(100 * time.Millisecond)
	}
	s.after(d, func() {
		k.h.awake(func() {
			k.queued -= n
			if k.alive && k.queued <= k.rcvbuf/2 {
				k.h.mark(k.port, false)
			}
		})
	})
}
