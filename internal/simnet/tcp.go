package simnet

import (
	"errors"
	"net/netip"
	"time"

	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/frame"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

const (
	drainTime = 5 * time.Second       // how long a closed link waits for the other side
	readsLate = 50 * time.Millisecond // how long Linux may take to read what had come before it took a link
	never     = ^uint64(0)
)

var errLink = errors.New("simnet: link lost")

// tcp is one TCP connection.
type tcp struct {
	s      *Sim
	id     int
	path   int
	sport  uint16
	ends   [2]*end // the dialer's end, the acceptor's end
	broken bool    // nothing gets through the connection any more
	secret bool    // its set-up does not tell how long messages may be
}

// end is one side of a connection: its socket and its outgoing stream.
type end struct {
	transport.Plain
	t     *tcp
	host  *host
	inc   int // incarnation of host
	other *end

	generation uint32 // generation of host when the link was made

	// The outgoing stream.
	latency  time.Duration
	capacity int
	written  uint64
	arrived  uint64        // bytes that arrived at the other side's TCP
	acked    uint64        // bytes acknowledged, as far as this side knows
	cutAt    uint64        // breaks the connection when this byte would arrive
	last     time.Duration // time of the last arrival under way: later bytes do not overtake it
	stalled  time.Duration // nothing arrives before this time
	finSent  bool
	starved  bool // the writer is owed a Writable

	// The incoming stream.
	buf     []byte // bytes that arrived and were not read
	read    uint64
	eof     bool
	rst     bool
	reading bool
	late    bool      // buf is not read yet: Linux has taken the link, and speaks before it reads what had come
	paused  bool      // nothing is read, since a message has no room
	resume  bool      // the handler is to hear Resumed
	feeding bool      // the handler is at work
	owed    bool      // the end is to be reported when the handler is back
	refused []refusal // messages read and refused, of which the other side is to be told
	told    uint64    // refusals of which the other side has heard
	deaf    bool      // the connection broke before what the other side has said came here
	in      frame.Parser
	h       transport.Handler // takes what in has cut into messages
	sink    *sink

	p       *peer // nil: nobody has the link yet
	path    int
	started bool
	closing bool // closed by us, draining
	gone    bool // the socket is closed: what arrives is answered with a reset
	ended   bool // the end was reported
	track   writeTrack
	ops     []*operation         // operations begun on this link
	maps    []wire.CongestionMap // maps that have come and the core has not taken
	sending []byte               // octets of the Send under way; nil: there is none
	skip    int                  // octets taken of the frame that is next
	bound   bool                 // the operation of the frame that is next has begun
}

func (s *Sim) newTCP(from, to *host, path int) *tcp {
	s.lastTCP++
	s.counts.Links++
	t := &tcp{s: s, id: s.lastTCP, path: path}
	group := uint16(4096 + s.rng.IntN(3000))
	t.sport = group*8 + uint16(path)
	if from.linux {
		t.sport = uint16(32768 + s.rng.IntN(28000))
	}
	for i, h := range []*host{from, to} {
		lat := s.cfg.Scenario.latency
		t.ends[i] = &end{t: t, host: h, inc: h.incarnation, generation: h.generation, latency: lat/2 + s.upTo(lat), capacity: 1 << (s.cfg.Scenario.minBuffer + s.rng.IntN(9)), cutAt: never}
	}
	t.secret = s.cfg.Scenario.Lengths && s.chance(0.3)
	a, b := t.ends[0], t.ends[1]
	a.other, b.other = b, a
	if !s.calm && s.chance(s.cfg.Scenario.cut) {
		e := t.ends[s.rng.IntN(2)]
		e.cutAt = uint64(s.rng.IntN(1 << (4 + s.rng.IntN(14))))
	}
	s.links = append(s.links, t)
	return t
}

// write takes what fits.
func (e *end) write(b []byte) (int, error) {
	if e.rst || e.gone || e.closing || e.finSent {
		return 0, errLink
	}
	room := e.capacity - int(e.written-e.other.read)
	n := max(0, min(len(b), room))
	if n < len(b) {
		e.starved = true
	}
	if n > 0 {
		data := append([]byte(nil), b[:n]...)
		e.written += uint64(n)
		e.later(func() { e.arrive(data) })
	}
	return n, nil
}

// later runs fn at the other side, in order.
func (e *end) later(fn func()) {
	s := e.t.s
	at := max(s.now+e.latency+s.upTo(e.latency/4), e.last, e.stalled)
	e.last = at
	s.after(at-s.now, fn)
}

func (e *end) arrive(data []byte) {
	t, o := e.t, e.other
	switch {
	case t.broken:
		return
	case o.gone:
		t.s.after(e.latency, e.reset)
		return
	}
	whole := true
	if e.arrived+uint64(len(data)) > e.cutAt {
		data, whole = data[:e.cutAt-e.arrived], false
	}
	o.buf = append(o.buf, data...)
	o.late = false // its socket calls whoever reads
	e.arrived += uint64(len(data))
	total := e.arrived
	if !t.s.cfg.Scenario.Refusals {
		t.s.after(o.latency, func() {
			if !t.broken || t.s.chance(0.5) {
				e.acked = max(e.acked, total)
			}
		})
	}
	o.scheduleRead()
	if !whole {
		t.s.tracef("tcp%d cut at byte %d from %v", t.id, e.cutAt, e.host)
		t.cut(50*time.Millisecond, 50*time.Millisecond)
	}
}

// tell acknowledges what was read, and says before that what of it was refused.
func (e *end) tell() {
	s, o, refused, total := e.t.s, e.other, e.refused, e.read
	e.refused = nil
	s.after(e.latency, func() {
		if o.deaf = o.deaf || e.t.broken && s.chance(0.5); o.deaf {
			return
		}
		o.host.awake(func() {
			if p := o.p; p != nil && !p.dead && o.started && !o.ended {
				for _, r := range refused {
					o.h.Refused(r.number, 1, r.why)
				}
				o.acked = max(o.acked, total)
				s.after(o.latency, func() { e.heard(len(refused)) })
			}
		})
	})
}

// heard tells that the other side has heard of refusals.
func (e *end) heard(n int) {
	e.host.awake(func() {
		if p := e.p; n > 0 && p != nil && !p.dead && e.started && !e.ended && !e.feeding {
			e.told += uint64(n)
			e.h.RefusalsHeard(e.told)
		}
	})
}

// cut breaks the connection; each side learns of it within its own time.
func (t *tcp) cut(a, b time.Duration) {
	if t.broken {
		return
	}
	t.broken = true
	t.s.counts.Cuts++
	t.s.after(t.s.upTo(a), t.ends[0].reset)
	t.s.after(t.s.upTo(b), t.ends[1].reset)
}

// reset is an RST that arrives, or a timeout.
func (e *end) reset() {
	if e.gone || e.rst {
		return
	}
	e.rst = true
	if e.late {
		e.late, e.buf = false, nil
	}
	e.scheduleRead()
}

// fin ends our direction behind what was written.
func (e *end) fin() {
	if e.finSent {
		return
	}
	e.finSent = true
	e.later(func() {
		if o := e.other; !e.t.broken && !o.gone {
			o.eof = true
			o.scheduleRead()
		}
	})
}

// Close is for transport.Link.
func (e *end) Close(mode transport.CloseMode) {
	if mode == transport.Abort {
		e.t.s.after(e.latency, e.other.reset)
		e.finish()
		return
	}
	e.close()
}

// close is Close(Drain).
func (e *end) close() {
	switch {
	case e.gone || e.closing:
	case !e.started || e.host.linux:
		if len(e.buf) > 0 {
			e.t.s.check.discarded(e)
			e.t.s.after(e.latency, e.other.reset)
		}
		e.finish()
	default:
		e.closing = true
		e.fin()
		e.t.s.after(drainTime, e.drained)
	}
}

// drained is the end of the time for draining, which a paused link has when it is
// read again.
func (e *end) drained() {
	if e.paused && !e.gone {
		e.t.s.after(drainTime, e.drained)
		return
	}
	e.finish()
}

// finish closes the socket and reports the end.
func (e *end) finish() {
	if e.gone {
		return
	}
	e.fin()
	e.gone = true
	if e.feeding {
		e.owed = true
		return
	}
	e.report()
}

// report tells the handler of the end.
func (e *end) report() {
	e.in.Reset()
	if !e.started || e.ended || e.p.dead {
		return
	}
	e.ended = true
	e.lost()
	s := e.t.s
	s.tracef("%v->%v tcp%d closed, path %d, acked %d of %d", e.p.h, e.p.remote, e.t.id, e.path, e.acked, e.written)
	s.check.linkClosed(e, e.acked)
	if !s.rigged(LeakLinks, 0.2) {
		e.h.Closed(errLink, e.Acked())
	}
}

// vanish is the end of the process that owns the socket.
func (e *end) vanish(silent bool) {
	if !e.gone {
		e.gone = true
		if !e.feeding {
			e.in.Reset()
		}
		if silent { // bytes find nobody until the host answers again
			e.t.broken = true
			e.t.s.after(e.t.s.upTo(8*time.Second), e.other.reset)
		} else {
			e.t.s.after(e.latency+e.t.s.upTo(5*time.Millisecond), e.other.reset)
		}
	}
}

// Start is for transport.Link.
func (e *end) Start(h transport.Handler) error {
	if e.gone || e.started {
		return errLink
	}
	e.h, e.started = &tap{h, e}, true
	e.in.Init(e.h, &e.t.s.pool, uint32(e.host.longest), false)
	if e.late = e.host.linux && e == e.t.ends[1] && len(e.buf) > 0; e.late {
		s := e.t.s
		s.after(s.upTo(readsLate), func() {
			e.late = false
			e.scheduleRead()
		})
		if !s.calm && s.chance(0.1) {
			s.after(s.upTo(readsLate), func() { e.t.cut(s.upTo(readsLate), s.upTo(readsLate)) })
		}
	}
	e.scheduleRead()
	return nil
}

func (e *end) scheduleRead() {
	if e.started && e.paused && !e.reading && !e.gone && (e.eof || e.rst) && e.t.s.rigged(CutPaused, 1) {
		e.finish()
	}
	if !e.started || e.late || e.reading || e.gone || e.paused && !e.resume || !e.resume && len(e.buf) == 0 && !e.eof && !e.rst {
		return
	}
	e.reading = true
	s := e.t.s
	var d time.Duration
	if s.chance(0.3) {
		d = s.upTo(s.cfg.Scenario.processing)
	}
	s.after(d, e.readSome)
}

func (e *end) readSome() {
	s := e.t.s
	if e.gone {
		return
	}
	if d := e.host.frozen - s.now; d > 0 {
		s.after(d, e.readSome)
		return
	}
	if e.resume {
		e.resume, e.feeding = false, true
		read := false
		e.at(func() { read = e.h.Resumed() })
		e.feeding = false
		if e.paused && read {
			s.tracef("%v<-%v path %d tcp%d goes on", e.p.h, e.p.remote, e.path, e.t.id)
			e.paused = false
		}
	}
	if !e.paused && !e.owed {
		e.feed()
	}
	e.reading = false
	switch {
	case e.owed:
		e.owed = false
		e.report()
	case e.gone, e.paused:
		e.scheduleRead()
	case len(e.buf) == 0 && (e.eof || e.rst):
		e.finish()
	default:
		e.scheduleRead()
	}
}

// feed reads some of what has come.
func (e *end) feed() {
	s := e.t.s
	n := len(e.buf)
	if n > 1 && s.chance(0.4) {
		n = 1 + s.rng.IntN(n)
	}
	if n == 0 {
		return
	}
	data := e.buf[:n]
	e.buf = e.buf[n:]
	e.read += uint64(n)
	e.feeding = true
	var err error
	e.at(func() {
		err = e.in.Feed(data)
		e.in.Flush()
	})
	e.feeding = false
	if err != nil {
		s.check.failf("tcp%d: %v cannot parse: %v", e.t.id, e.host, err)
		e.finish()
		return
	}
	if s.cfg.Scenario.Refusals {
		e.tell()
	}
	if o := e.other; o.starved && !o.gone {
		o.starved = false
		s.after(e.latency, o.writable)
	}
}

// Pause is for transport.Link, as are the next ones.
func (e *end) Pause() {
	s := e.t.s
	s.tracef("%v<-%v path %d tcp%d paused", e.p.h, e.p.remote, e.path, e.t.id)
	e.paused = true
	s.counts.Paused++
}

// Resume has the handler's Resumed called.
func (e *end) Resume() {
	e.resume = true
	e.scheduleRead()
}

// Caps of a link: in runs with refusals it is as on XRC, else as over TCP.
func (e *end) Caps() transport.Caps {
	s := e.t.s
	refuses := s.cfg.Scenario.Refusals
	path := -1
	if refuses {
		path = int(e.t.sport) % conn.MaxPaths
	}
	c := transport.Caps{Operations: true, Pauses: !refuses && !e.host.linux, Refuses: refuses, TellsLater: !refuses,
		Path: path, Generation: e.other.generation, GenerationStated: refuses}
	if refuses && !e.host.old && !e.t.secret {
		c.Limit = e.other.host.states()
	}
	return c
}

// Acked is how much the other side has acknowledged.
func (e *end) Acked() uint64 {
	if e.t.s.rigged(AckAhead, 1) {
		return e.written
	}
	return e.acked
}

// Refuse notes a message that is not delivered.
func (e *end) Refuse(number uint64, why transport.Refusal) bool {
	if why == transport.RefusedLength && e.other.host.old {
		why = transport.RefusedUnknown
	}
	e.refused = append(e.refused, refusal{number, why})
	return true
}

type refusal struct {
	number uint64
	why    transport.Refusal
}

// LocalAddr is our end.
func (e *end) LocalAddr() netip.AddrPort { return netip.AddrPortFrom(e.host.addr, e.t.sport) }

// RemoteAddr is the other end.
func (e *end) RemoteAddr() netip.AddrPort { return netip.AddrPortFrom(e.other.host.addr, e.t.sport) }

// Stats are not looked at.
func (e *end) Stats() transport.LinkStats { return transport.LinkStats{} }

func (e *end) writable() {
	e.host.awake(func() {
		if e.started && !e.ended && !e.gone && !e.p.dead {
			e.h.Writable()
		}
	})
}
