package simnet

import (
	"bytes"
	"slices"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

// peer drives one core, as package rds does.
type peer struct {
	h, remote *host
	inc       int
	dead      bool // the peer's process is gone
	core      *conn.Conn
	path      [conn.MaxPaths]pathIO
	links     map[conn.LinkID]*end
	lastID    conn.LinkID
	tickAt    time.Time
	polling   bool
	pollWait  time.Duration

	held    map[uint16]bool     // ports that the core was told are held
	marked  *wire.CongestionMap // the remote's last map; nil: none, or forgotten with the last link
	waiting []func()            // called at WakeAll

	actions []conn.Action
	freed   []*conn.Account
	fates   []conn.Fate
	dials   []time.Duration // times of the dials of the last second, for the checker
}

type pathIO struct {
	in      conn.Inbound
	end     *end
	busy    bool // between Fill and Wrote
	blocked bool
	batch   conn.Batch
	shadow  []byte          // copy of the bytes that the batch held at Fill
	ended   *end            // the link's end, if it came while busy
	refused map[uint64]bool // numbers of the peer's messages that were refused
	acked   uint64
}

// do does what the core asks for.
func (p *peer) do() {
	if p.dead {
		return
	}
	p.actions, p.freed, p.fates = p.core.TakeActions(p.actions[:0]), p.core.TakeFreed(p.freed[:0]), p.core.TakeFates(p.fates[:0])
	for _, f := range p.fates {
		if f.Status == conn.Success && p.h.s.rigged(ExpireWritten, 0.1) {
			f.Status = conn.Expired
		}
		p.h.s.check.fate(f)
	}
	p.arm()
	for _, a := range slices.Clone(p.actions) {
		p.perform(a)
	}
}

func (p *peer) perform(a conn.Action) {
	s := p.h.s
	if s.cfg.Trace != nil && a.Kind != conn.Transmit {
		s.tracef("%v->%v %v path %d link %d", p.h, p.remote, a.Kind, a.Path, a.Link)
	}
	switch a.Kind {
	case conn.Dial:
		p.h.dial(p, a.Path)
	case conn.CancelDial: // it is too late: the dial goes on
	case conn.Start:
		if e := p.links[a.Link]; e != nil && p.core.Link(a.Path) == a.Link {
			io := &p.path[a.Path]
			io.end, io.blocked = e, false
			if s.cfg.Scenario.Refusals { // links that refuse know the pair that they connect
				p.core.Meets(s.clock(), a.Path, e.other.generation)
			}
			e.start(p, a.Path)
		}
	case conn.CloseLink:
		if e := p.links[a.Link]; e != nil {
			if !e.started {
				delete(p.links, a.Link)
			}
			e.close()
		}
	case conn.Transmit:
		p.transmit(a.Path)
	case conn.WakeAll:
		p.wake()
	}
}

func (p *peer) arm() {
	at := p.core.Deadline()
	if !at.IsZero() && p.h.s.rigged(RedialAtOnce, 1) {
		at = p.h.s.clock().Add(at.Sub(p.h.s.clock()) / 1000)
	}
	if at.IsZero() || at.Equal(p.tickAt) {
		return
	}
	p.tickAt = at
	p.h.s.after(max(0, at.Sub(p.h.s.clock())), func() {
		p.h.awake(func() {
			if p.dead || !p.tickAt.Equal(at) {
				return
			}
			p.tickAt = time.Time{}
			now := p.h.s.clock()
			if p.h.s.rigged(RedialAtOnce, 1) {
				now = now.Add(time.Hour)
			}
			p.core.Tick(now)
			p.do()
		})
	})
}

func (p *peer) register(e *end) conn.LinkID {
	p.lastID++
	p.links[p.lastID] = e
	e.p, e.id = p, p.lastID
	return p.lastID
}

func (p *peer) dialed(path int, e *end) {
	p.core.Dialed(p.h.s.clock(), path, p.register(e))
	p.do()
}

func (p *peer) dialFailed(path int) {
	p.core.DialFailed(p.h.s.clock(), path)
	p.do()
}

func (p *peer) accepted(e *end) {
	p.core.Accepted(p.h.s.clock(), p.register(e), e.t.sport)
	p.do()
}

// anyDown tells whether a Linux acceptor would find a path for a link.
func (p *peer) anyDown() bool {
	for i := range max(1, p.core.Paths()) {
		if s := p.core.State(i); s == conn.Down {
			return true
		}
	}
	return false
}

// ended is the end of a started link.
func (p *peer) ended(e *end, acked uint64) {
	if p.dead {
		return
	}
	io := &p.path[e.path]
	if io.busy && io.end == e {
		io.ended, io.acked = e, acked
		return
	}
	p.closed(e, acked)
}

func (p *peer) closed(e *end, acked uint64) {
	s := p.h.s
	s.tracef("%v->%v tcp%d closed, path %d, acked %d of %d", p.h, p.remote, e.t.id, e.path, acked, e.written)
	delete(p.links, e.id)
	if io := &p.path[e.path]; io.end == e {
		io.end, io.blocked = nil, false
	}
	s.check.linkClosed(e, acked)
	if s.rigged(LeakLinks, 0.2) {
		return
	}
	p.core.LinkClosed(s.clock(), e.id, acked)
	if !p.anyUp() {
		p.marked = nil
	}
	p.do()
	p.lostHolds()
}

// anyUp tells whether the core still goes by the remote's map.
func (p *peer) anyUp() bool {
	for i := range conn.MaxPaths {
		if p.core.State(i) == conn.Up {
			return true
		}
	}
	return false
}

// transmit writes, unless a write is under way.
func (p *peer) transmit(i int) {
	io := &p.path[i]
	if p.dead || io.busy || io.blocked || io.end == nil {
		return
	}
	if !p.core.Fill(i, &io.batch) {
		if p.core.HasOutput() { // operations that were not begun have ended
			p.do()
		}
		return
	}
	for _, b := range io.batch.Ops {
		if o := b.Op.Work.(*operation); o.stale() {
			p.h.s.check.failf("%v: its operation was for an earlier generation", o.m)
		}
	}
	io.busy = true
	io.shadow = append(io.shadow[:0], octets(&io.batch)...)
	s := p.h.s
	s.check.shown(p, io)
	var d time.Duration
	if s.chance(0.3) {
		d = s.upTo(time.Millisecond)
	}
	s.after(d, func() { p.h.awake(func() { p.finishWrite(i) }) })
}

func (p *peer) finishWrite(i int) {
	s, io := p.h.s, &p.path[i]
	e := io.end
	if p.dead {
		return
	}
	if s.rigged(ScribbleBatch, 0.1) && io.batch.Bytes > 0 {
		i := slices.IndexFunc(io.batch.Frames, func(f transport.Frame) bool { return len(f.Head) > 0 })
		io.batch.Frames[i].Head[0] ^= 0xff
	}
	if !bytes.Equal(octets(&io.batch), io.shadow) {
		s.check.failf("%v->%v path %d: what Fill showed changed before Wrote", p.h, p.remote, i)
	}
	n, err := e.send(io.batch.Frames)
	s.check.wrote(e, io.shadow, io.batch.Taken(n))
	io.busy = false
	p.core.Wrote(i, n)
	switch {
	case err == errUnable:
		k := slices.IndexFunc(io.batch.Ops, func(b conn.BatchOp) bool { return b.Frame == n.Frames })
		p.core.OpRefused(io.batch.Ops[k].Op)
		err = nil
	case err != nil:
		p.core.LinkFailed(e.id)
	case n.Frames < len(io.batch.Frames):
		io.blocked = io.ended == nil
	}
	if o := io.ended; o != nil {
		io.ended = nil
		p.closed(o, io.acked)
		return
	}
	p.watchAcks()
	p.do()
	if err == nil && !io.blocked && p.core.Ready(i) {
		p.transmit(i)
	}
}

// octets is what a link has not taken of a batch.
func octets(b *conn.Batch) []byte {
	var all []byte
	for i := range b.Frames {
		all = append(append(all, b.Frames[i].Head...), b.Frames[i].Body...)
	}
	return all[len(all)-b.Bytes:]
}

func (p *peer) writable(e *end) {
	p.h.awake(func() {
		io := &p.path[e.path]
		if p.dead || io.end != e {
			return
		}
		io.blocked = false
		p.core.Acked(e.path, p.acked(e))
		p.do()
		p.transmit(e.path)
	})
}

// acked is Link.Acked.
func (p *peer) acked(e *end) uint64 {
	if p.h.s.rigged(AckAhead, 1) {
		return e.written
	}
	return e.acked
}

// watchAcks looks for acknowledgements while messages wait for them.
func (p *peer) watchAcks() {
	if p.polling {
		return
	}
	p.polling, p.pollWait = true, time.Millisecond
	p.h.s.after(p.pollWait, func() { p.h.awake(p.poll) })
}

func (p *peer) poll() {
	if p.dead {
		return
	}
	waiting := false
	for i := range p.path {
		e := p.path[i].end
		if e == nil || p.core.Unacked(i) == 0 {
			continue
		}
		p.core.Acked(i, p.acked(e))
		waiting = waiting || p.core.Unacked(i) > 0
	}
	p.do()
	if p.polling = waiting; waiting {
		p.pollWait = min(2*p.pollWait, 16*time.Millisecond)
		p.h.s.after(p.pollWait, func() { p.h.awake(p.poll) })
	}
}
