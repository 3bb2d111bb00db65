package driver

import (
	"github.com/rds-go/rds/conn"
	"github.com/rds-go/rds/internal/buf"
	"github.com/rds-go/rds/internal/wire"
	"github.com/rds-go/rds/transport"
)

// Receiver is the transport.Handler of one link: it applies the sequence rule, gives
// control messages to the core, and datagrams to its owner's Sink. Its methods are for the
// sink, from within the sink's own, unless they say otherwise.
type Receiver struct {
	d    *Driver
	path int
	id   conn.LinkID
	p    *path
	link transport.Link
	caps transport.Caps
	sink Sink

	proved  bool
	ignored bool // nothing of the link is taken any more
	pause   pause
	doubts  doubts
	kick    [conn.MaxPaths]bool
	kicked  bool

	// Old and Refused count messages that came before, and those that were refused. They are
	// the sink's to take.
	Old, Refused uint64
	Doubted      uint64 // messages that had to wait for the peer's generation
}

var _ transport.Handler = (*handler)(nil)

// handler is a Receiver as its link sees it.
type handler struct{ *Receiver }

func newReceiver(d *Driver, i int, id conn.LinkID, l transport.Link) *Receiver {
	r := &Receiver{d: d, path: i, id: id, p: &d.path[i], link: l, caps: l.Caps()}
	r.sink = d.owner.Sink(r)
	return r
}

// Path is the index of the link's path.
func (r *Receiver) Path() int { return r.path }

// Link is the link.
func (r *Receiver) Link() transport.Link { return r.link }

// Caps are those of the link.
func (r *Receiver) Caps() *transport.Caps { return &r.caps }

// Inbound is the path's receive sequence.
func (r *Receiver) Inbound() *conn.Inbound { return &r.p.in }

// Ignore has everything that comes on the link from now on thrown away, and ends the link with
// the burst, when the sink has no lock any more.
func (r *Receiver) Ignore() { r.ignored = true }

// Begin starts a burst.
func (r *Receiver) begin() {
	d := r.d
	d.arrivals.Add(1)
	r.sink.Begin()
	if r.proved {
		if r.p.asked.Load() {
			r.heard()
		}
		return
	}
	r.proved = true
	r.p.in.Begin()
	d.mu.Lock()
	if g, ok := d.Core.Stated(r.path); ok {
		r.p.in.State(g)
	}
	r.p.refused.begin(r.p.in.Generation())
	r.sink.Proved()
	if r.p.id == r.id {
		r.p.history.proved()
	}
	d.Core.Proved(d.rt.Now(), r.path)
	d.armLocked()
	d.release(nil)
}

// heard tells the core that the link, which is being asked whether it lives, brings something.
func (r *Receiver) heard() {
	d := r.d
	d.mu.Lock()
	d.Core.Heard(d.rt.Now(), r.path)
	d.mu.Unlock()
}

// state follows the peer's statement of its generation on the link.
func (r *Receiver) state(generation uint32) {
	r.sink.Leave() // what came before counts as of the generation that it was taken for
	in := &r.p.in
	before := in.Generation()
	in.State(generation)
	if now := in.Generation(); now != before {
		r.p.refused.sync(now)
		r.sink.Stated(before)
	}
}

// arrived takes one message, or keeps it for later.
func (r *Receiver) arrived(h *wire.Header, payload []byte, owned *buf.Buf) {
	if r.ignored { // the link is ending
		if owned != nil {
			owned.Release()
		}
		return
	}
	if owned != nil {
		r.sink.Whole(owned)
	}
	if (h.Retransmitted() || len(r.doubts.list) > 0) && r.doubtful(h, payload, owned) {
		return
	}
	r.take(h, payload, owned)
}

// take takes a message whose turn it is, or parks it.
func (r *Receiver) take(h *wire.Header, payload []byte, owned *buf.Buf) {
	first := r.pause.parked.Len() == 0
	if !first || !r.message(h, payload, owned, false) {
		r.park(h, payload, owned, first)
	}
}

// message takes one message, to which the sequence rule has been applied if accepted is
// set. It returns false, having applied the rule and kept nothing, if the message has to
// wait.
func (r *Receiver) message(h *wire.Header, payload []byte, owned *buf.Buf, accepted bool) (taken bool) {
	if r.p.refused.pending && !h.IsCongestion() {
		r.p.refused.passed(h.Sequence)
	}
	if !accepted && !h.IsCongestion() && !r.p.in.Accept(h) {
		r.Old++
		r.again(h)
		if owned != nil {
			owned.Release()
		}
		return true
	}
	if r.d.Core.IsControl(h) {
		r.control(h, payload)
		if owned != nil {
			owned.Release()
		}
		return true
	}
	switch r.sink.Take(h, payload, owned) {
	case Taken:
		return true
	case TakenUnsure:
		r.refuse(h, transport.RefusedUnknown)
		return true
	case Waits:
		return false
	case NoPort:
		r.refuse(h, transport.RefusedPort)
	case TooLong:
		r.refuse(h, transport.RefusedLength)
	case Dropped:
		r.refuse(h, transport.RefusedUnknown) // RefusedUnknown, because success may not be claimed
	}
	if owned != nil {
		owned.Release()
	}
	return true
}

// control gives a message to the core.
func (r *Receiver) control(h *wire.Header, payload []byte) {
	r.sink.Leave()
	d := r.d
	d.mu.Lock()
	before := d.stateLocked()
	d.Core.HandleControl(d.rt.Now(), r.path, h, payload)
	generation, stated := d.Core.Stated(r.path)
	d.Sync()
	d.partingLocked()
	now := d.stateLocked()
	d.armLocked()
	d.release(&r.kick)
	r.kicked = true
	if stated {
		r.state(generation)
	}
	if before != now {
		d.owner.Met(before, now)
	}
	if h.IsCongestion() {
		d.owner.PortsChanged()
	}
}

// remember notes what was received.
func (r *Receiver) remember() { r.p.nextRX.Store(r.p.in.Next()) }

// end is the end of a burst: it answers pings.
func (r *Receiver) end() {
	r.remember()
	r.sink.End()
	if r.ignored {
		r.link.Close(transport.Abort)
	}
	if !r.kicked {
		return
	}
	r.kicked = false
	for i, k := range r.kick {
		if k {
			r.kick[i] = false
			r.d.Transmit(i)
		}
	}
}

// refuse tells the peer that the message at hand is not delivered, if the link can.
func (r *Receiver) refuse(h *wire.Header, why transport.Refusal) {
	if !r.caps.Refuses || h.Dport == wire.PortHost || h.Dport == wire.PortProbe { // pings that are not answered
		return
	}
	r.sink.Leave() // the link may call the peer's handler
	r.Refuse(h.Sequence, why)
}

// Refuse tells the peer that a message is not delivered, or that it is not known. The link
// has Caps.Refuses. If it cannot tell the peer the message comes again.
func (r *Receiver) Refuse(number uint64, why transport.Refusal) {
	r.p.refused.add(number, why)
	r.Refused++
	r.link.Refuse(number, why)
}

// again takes a message that came before: if it was refused then the peer may not have
// heard.
func (r *Receiver) again(h *wire.Header) {
	if !r.caps.Refuses {
		return
	}
	if why := r.p.refused.find(h.Sequence); why != 0 {
		r.refuse(h, why)
	}
}

// refusedBy follows what the peer has not delivered.
func (r *Receiver) refusedBy(first uint64, count uint32, why transport.Refusal) {
	status := conn.Dropped
	switch why {
	case transport.RefusedPort:
		status = conn.Refused
	case transport.RefusedLength:
		status = conn.TooLong
	}
	d := r.d
	d.mu.Lock()
	if r.p.id == r.id {
		d.Core.RefusedBy(r.path, first, count, status)
	}
	d.release(nil)
}

// closed is the end of a link of which everything is taken.
func (r *Receiver) closed(cause error, acked uint64) {
	r.sink.Leave() // the last burst may have been cut short
	r.sink.Closed()
	r.d.linkEnded(r.path, r.id, cause, acked)
}

// Begin is for transport.Handler, as are the other methods.
func (h *handler) Begin() { h.begin() }

// Message takes one message.
func (h *handler) Message(head *wire.Header, payload []byte, owned *buf.Buf) {
	h.arrived(head, payload, owned)
}

// End ends a burst.
func (h *handler) End() { h.end() }

// Place asks the sink for memory.
func (h *handler) Place(head *wire.Header) *buf.Buf { return h.sink.Place(head) }

// Acquainted asks the sink.
func (h *handler) Acquainted() bool { return h.sink.Acquainted() }

// Queue tells the sink by which queue messages come.
func (h *handler) Queue(queue uint32) { h.sink.Queue(queue) }

// Hold takes which ports of the peer take no messages now.
func (h *handler) Hold(ports []uint16, on bool) {
	h.sink.Leave()
	h.d.hold(h.path, h.id, ports, on)
}

// Refused takes what the peer has not delivered. On a link in memory the caller is the
// peer's goroutine, to which the sink does not belong.
func (h *handler) Refused(first uint64, count uint32, why transport.Refusal) {
	if h.caps.Queues {
		h.sink.Leave()
	}
	h.refusedBy(first, count, why)
}

// RefusalsHeard takes what the peer knows of that was refused.
func (h *handler) RefusalsHeard(n uint64) { h.p.refused.heard(n) }

// Acked settles what the peer has acknowledged.
func (h *handler) Acked() { h.d.acked(h.path, h.id) }

// Writable continues a write that found the link full.
func (h *handler) Writable() { h.d.writable(h.path, h.id) }

// Resumed takes what waited for room.
func (h *handler) Resumed() bool { return h.resumed() }

// Closed is the link's end.
func (h *handler) Closed(cause error, acked uint64) {
	if len(h.doubts.list) > 0 {
		h.begin()
		h.unstated()
		h.end()
	}
	if h.pause.on {
		h.finish(cause, acked)
		return
	}
	h.closed(cause, acked)
}
