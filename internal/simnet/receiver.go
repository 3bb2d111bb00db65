package simnet

import (
	"bytes"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

// receiver applies the sequence rule to what one link receives, as package rds
// does.
type receiver struct {
	transport.Simple
	peer   *peer
	path   int
	end    *end
	proved bool
	parked []parked // messages that came while the link was being paused
	doubts []parked // messages that wait until the peer has stated its generation on the link
}

// parked is a message that waits for room, or behind one that does.
type parked struct {
	h        wire.Header
	payload  []byte
	accepted bool // the sequence rule has been applied to the message
}

// Begin starts a burst.
func (r *receiver) Begin() {
	p := r.peer
	in := &p.path[r.path].in
	p.core.Heard(p.h.s.clock(), r.path)
	if r.proved {
		return
	}
	r.proved = true
	in.Begin()
	r.state()
	p.core.Proved(p.h.s.clock(), r.path)
	p.do()
}

// state tells the receive sequence the generation that the peer has stated on the link.
func (r *receiver) state() {
	p := r.peer
	if g, ok := p.core.Stated(r.path); ok {
		in := &p.path[r.path].in
		if g != in.Generation() && p.h.s.rigged(ForgetSequences, 1) {
			*in = conn.Inbound{}
			in.Begin()
		}
		in.State(g)
	}
}

// Message takes one message, or keeps it for later.
func (r *receiver) Message(h *wire.Header, payload []byte, owned *buf.Buf) {
	p := r.peer
	if p.remote.linux && (h.Sport == wire.PortProbe || h.Dport == wire.PortProbe) {
		clear(h.Extensions[3:]) // Linux 6.1 states its number of paths only
	}
	switch probe := h.Sport == wire.PortProbe || h.Dport == wire.PortProbe; {
	case h.IsCongestion() || len(r.doubts) == 0 && !p.path[r.path].in.Doubtful(h, p.core.PeerGeneration()):
	case probe:
		p.path[r.path].in.State(wire.ParseHandshake(&h.Extensions).Generation)
		r.decide()
	default:
		p.h.s.counts.Doubted++
		r.doubts = append(r.doubts, parked{h: *h, payload: bytes.Clone(payload)})
		if owned != nil {
			owned.Release()
		}
		return
	}
	r.put(h, payload, owned)
}

// unstated takes what waits for the peer's generation, which it will not state any more.
func (r *receiver) unstated() {
	if len(r.doubts) > 0 {
		r.peer.path[r.path].in.Unstated()
		r.decide()
	}
}

// decide takes the messages that waited for the peer's generation.
func (r *receiver) decide() {
	doubts := r.doubts
	r.doubts = nil
	for i := range doubts {
		r.put(&doubts[i].h, doubts[i].payload, nil)
	}
}

func (r *receiver) put(h *wire.Header, payload []byte, owned *buf.Buf) {
	if first := len(r.parked) == 0; !first || !r.take(h, payload, false) {
		r.parked = append(r.parked, parked{*h, bytes.Clone(payload), first})
	}
	if owned != nil {
		owned.Release()
	}
}

// take takes one message, unless its socket has no room. The sequence rule has been
// applied if accepted is set, and when it returns.
func (r *receiver) take(h *wire.Header, payload []byte, accepted bool) bool {
	p := r.peer
	if !accepted && !r.accept(h, payload) {
		return true
	}
	s := p.h.s
	k := p.h.socks[h.Dport]
	if k == nil {
		r.refuse(h.Sequence)
		return true
	}
	if !p.h.linux && !s.cfg.Scenario.Refusals && k.queued > 0 && k.queued+len(payload) > k.rcvbuf+k.rcvbuf/4 {
		k.awaited = append(k.awaited, r)
		r.pause(true)
		return false
	}
	if len(payload) > 8 && s.rigged(Corrupt, 0.05) {
		payload[len(payload)-1]++
	}
	s.check.delivered(k, p, payload)
	p.path[r.path].in.Took(1)
	k.receive(len(payload))
	return true
}

// refuse tells the peer that a message is not delivered, with the next acknowledgement, and
// remembers it: the link may be lost before the peer hears.
func (r *receiver) refuse(number uint64) {
	io := &r.peer.path[r.path]
	if io.refused == nil {
		io.refused = map[uint64]bool{}
	}
	io.refused[number] = true
	r.end.refused = append(r.end.refused, number)
}

// pause stops reading, or lets it go on.
func (r *receiver) pause(on bool) {
	if r.end.paused == on {
		return
	}
	s := r.peer.h.s
	s.tracef("%v<-%v path %d tcp%d paused=%v", r.peer.h, r.peer.remote, r.path, r.end.t.id, on)
	if r.end.paused = on; on {
		s.counts.Paused++
	}
	r.peer.core.Paused(r.path, r.end.id, on)
	r.peer.do()
}

// resume takes what is parked, as far as there is room, and then goes on reading.
func (r *receiver) resume() {
	if r.end.gone || r.peer.dead {
		return
	}
	r.Begin()
	for len(r.parked) > 0 {
		it := &r.parked[0]
		if !r.take(&it.h, it.payload, it.accepted) {
			it.accepted = true
			return
		}
		r.parked = r.parked[1:]
	}
	r.pause(false)
	r.end.scheduleRead()
}

// accept applies the sequence rule, and gives control messages to the core. It tells
// whether the message is for a socket.
func (r *receiver) accept(h *wire.Header, payload []byte) bool {
	p := r.peer
	s := p.h.s
	in := &p.path[r.path].in
	if s.check.undelivered(payload) {
		return false
	}
	s.rigHeader(h)
	if s.cfg.Trace != nil {
		s.tracef("%v<-%v path %d tcp%d: seq %d %d>%d len %d flags %x", p.h, p.remote, r.path, r.end.t.id, h.Sequence, h.Sport, h.Dport, h.Length, h.Flags)
	}
	if !h.IsCongestion() && !in.Accept(h) {
		s.counts.Old++
		if p.path[r.path].refused[h.Sequence] && !s.rigged(ForgetRefusals, 1) {
			r.refuse(h.Sequence)
		}
		if !s.rigged(DeliverOld, 1) {
			return false
		}
	}
	if p.core.IsControl(h) {
		if h.IsCongestion() {
			m := wire.CongestionMap(payload)
			p.marked = &m
		}
		if h.IsCongestion() && s.rigged(IgnoreMaps, 0.5) {
			return false
		}
		p.core.HandleControl(s.clock(), r.path, h, payload)
		r.state()
		p.do()
		return false
	}
	return !s.rigged(LoseMessages, 0.05)
}

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
			k.spare()
		})
	})
}

// spare lets links go on that wait for room, or for a socket that is closed.
func (k *sock) spare() {
	waiting := k.awaited
	k.awaited = nil
	for _, r := range waiting {
		r.resume()
	}
}
